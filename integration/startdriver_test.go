package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A yard is a namespace with a client of the door, and workers that the test starts.
type yard struct {
	*fleet
	*testing.T

	failed atomic.Bool // a delivery has, by again

	mu     sync.Mutex
	events []execution.Event // of the workers that are observed
}

func newYard(t *testing.T) *yard {
	t.Helper()
	h := newHarness(t)
	return &yard{fleet: &fleet{t: t, h: h, client: openClient(t, h)}, T: t}
}

// work starts a worker that is observed, whose requests go through the hook, if any.
func (y *yard) work(hook *testetcd.Hook, parts ...holdfast.WorkerOption) {
	y.Helper()
	store := y.h.store
	if hook != nil {
		hook.Store, store = y.h.store, hook
	}
	c, err := holdfast.Open(y.Context(), holdfast.Prefix(keyPrefix), holdfast.Namespace(y.h.namespace),
		holdfast.RedeliveryDelay(delayBase, delayBase), holdfast.Observe(y.observe), holdfast.Internal(door.Config{Store: store}))
	y.must(err)
	w, err := holdfast.NewWorker(c, append(parts, holdfast.Lease(fleetLease, fleetRenew), holdfast.DrainTimeout(time.Second))...)
	y.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	y.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, c.Close()); err != nil {
			y.Error(err)
		}
	})
}

func (y *yard) observe(e execution.Event) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.events = append(y.events, e)
}

// ends lists what became of the deliveries of the execution, in their order.
func (y *yard) ends(id string) (all []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, e := range y.events {
		if string(e.ID) != id {
			continue
		}
		switch e.Kind {
		case execution.EventAcknowledged:
			all = append(all, e.Outcome)
		case execution.EventReleased:
			all = append(all, "released")
		}
	}
	return all
}

// wantEnds waits until the deliveries of the execution have ended so.
func (y *yard) wantEnds(id string, want ...string) {
	y.Helper()
	y.eventually(fmt.Sprintf("%q to end as %q", id, want), func() bool { return slices.Equal(y.ends(id), want) })
}

func (y *yard) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

// begin starts an execution from outside.
func begin[In, Out any](y *yard, w *holdfast.Workflow[In, Out], in In, id string) holdfast.Handle[Out] {
	y.Helper()
	h, err := w.Start(y.Context(), y.client, in, holdfast.WithID(id))
	y.must(err)
	return h
}

// comesTo demands the result of an execution.
func comesTo[Out comparable](y *yard, h holdfast.Handle[Out], want Out) {
	y.Helper()
	ctx, cancel := context.WithTimeout(y.Context(), time.Minute)
	defer cancel()
	if got, err := h.Result(ctx); err != nil || got != want {
		y.Errorf("%q came to %v, %v; want %v", h.ID(), got, err, want)
	}
}

// get and response may be called by the goroutines of workers, too.
func (y *yard) get(id string) execution.Record {
	y.Helper()
	r, err := y.client.Get(y.Context(), id)
	if err != nil {
		y.Error(err)
	}
	return r
}

// response returns what is recorded of a step.
func (y *yard) response(id, step string, attempt int64) string {
	y.Helper()
	rec := y.get(id)
	key := y.h.space.Step(keyspace.Step{ID: id, Incarnation: rec.Incarnation, Run: rec.Run, Key: step, Attempt: attempt})
	res, _, err := y.h.store.Get(y.Context(), etcd.Get{Key: key})
	kv, found := res.One()
	if err != nil || !found {
		return ""
	}
	st, err := record.DecodeStep(kv.Value)
	if err != nil {
		y.Error(err)
		return ""
	}
	return string(st.Response)
}

// starts counts the starts that are kept.
func (y *yard) starts() int64 {
	y.Helper()
	span := y.h.space.Starts()
	return y.keysOf(span.Start, span.End)
}

// refuseOnce makes a hook that refuses the first transaction that is such a one, and
// then calls then.
func refuseOnce(such func(*etcd.Txn) bool, then func()) *testetcd.Hook {
	var done atomic.Bool
	return &testetcd.Hook{BeforeTxn: func(txn *etcd.Txn) error {
		if !such(txn) || !done.CompareAndSwap(false, true) {
			return nil
		}
		then()
		return etcd.ErrPermission
	}}
}

// greet is what these tests start.
var greet = holdfast.Define("greet", func(_ holdfast.Context, who string) (string, error) { return "hello " + who, nil })

// again makes a delivery fail here, once in the test, so that another one replays what is
// before it.
func (y *yard) again() {
	if y.failed.CompareAndSwap(false, true) {
		panic("this delivery fails, and another one follows")
	}
}

// TestStartDriver: what a workflow sees of a start.
func TestStartDriver(t *testing.T) {
	t.Parallel()
	for slug, assert := range map[string]func(*yard){
		"accepted":            startAccepted,
		"rejected":            startRejected,
		"invalid-params":      startInvalid,
		"throws":              startThrows,
		"stop-after-accepted": startStopsAfterAccepted,
	} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			assert(newYard(t))
		})
	}
}

// startAccepted: the id is the step's recorded result, and a replay starts nothing.
func startAccepted(y *yard) {
	parent := holdfast.Define("parent", func(ctx holdfast.Context, who string) (string, error) {
		child, err := holdfast.Start(ctx, "start", greet, who)
		if err != nil {
			return "", err
		}
		y.again()
		return child.ID(), nil
	})
	y.work(nil, parent, greet)
	h := begin(y, parent, "Ada", "p")
	id, err := h.Result(y.Context())
	y.must(err)
	comesTo(y, greet.Handle(y.client, id), "hello Ada")
	want := fmt.Sprintf(`{"v":1,"kind":"result","result":{"executionId":"%s","incarnation":%d}}`, id, y.get(id).Incarnation)
	if got := y.response("p", "start", 0); got != want {
		y.Errorf("recorded %s, want %s", got, want)
	}
	if y.starts() != 1 || y.get("p").Claims != 2 {
		y.Errorf("%d starts in %d deliveries, want 1 in 2", y.starts(), y.get("p").Claims)
	}
}

// startRejected: the rejection is recorded, can be caught, and is the same on replay.
func startRejected(y *yard) {
	parent := holdfast.Define("parent", func(ctx holdfast.Context, who string) (string, error) {
		_, err := holdfast.Start(ctx, "start", greet, who, holdfast.WithID("taken"))
		var failed *holdfast.StepError
		if !errors.As(err, &failed) {
			return "", fmt.Errorf("not rejected: %w", err)
		}
		y.again()
		return fmt.Sprint(failed.Step, " ", failed.Code, " ", failed.Permanent, " ", failed.Message), nil
	})
	y.work(nil, parent, greet)
	comesTo(y, begin(y, greet, "Ada", "taken"), "hello Ada")
	comesTo(y, begin(y, parent, "Ada", "p"),
		`start START_ID_TAKEN true start workflow "greet": START_ID_TAKEN: execution "taken" exists, and this step has not started it; choose another id`)
	if y.starts() != 0 {
		y.Errorf("%d starts are kept", y.starts())
	}
}

// startInvalid: so are params that can't be.
func startInvalid(y *yard) {
	number := holdfast.Define("number", func(holdfast.Context, float64) (int, error) { return 0, nil })
	parent := holdfast.Define("parent", func(ctx holdfast.Context, _ int) (string, error) {
		_, err := holdfast.Start(ctx, "start", number, math.NaN())
		var failed *holdfast.StepError
		if !errors.As(err, &failed) {
			return "", fmt.Errorf("not rejected: %w", err)
		}
		y.again()
		return failed.Code, nil
	})
	y.work(nil, parent, number)
	comesTo(y, begin(y, parent, 0, "p"), "INVALID_START_PARAMETERS")
	if y.starts() != 0 {
		y.Errorf("%d starts are kept", y.starts())
	}
}

// startThrows: a trouble of etcd is no answer: nothing is recorded, the workflow does not
// see it, and the delivery is made again.
func startThrows(y *yard) {
	var seen atomic.Int64
	parent := holdfast.Define("parent", func(ctx holdfast.Context, who string) (string, error) {
		child, err := holdfast.Start(ctx, "start", greet, who, holdfast.WithID("child"))
		if holdfast.Failed(err) {
			seen.Add(1)
		}
		return child.ID(), err
	})
	y.work(refuseOnce(puts(y.h.space.Starts()), func() {
		if got := y.response("p", "start", 0); got != "" {
			y.Errorf("recorded %s before the start", got)
		}
	}), parent, greet)
	comesTo(y, begin(y, parent, "Ada", "p"), "child")
	comesTo(y, greet.Handle(y.client, "child"), "hello Ada")
	if seen.Load() != 0 || y.starts() != 1 {
		y.Errorf("the workflow saw %d failures, and %d starts are kept", seen.Load(), y.starts())
	}
	y.wantEnds("p", "released", "completed")
}

// startStopsAfterAccepted: a worker dies between the start and its record. The next one
// is given what was started.
func startStopsAfterAccepted(y *yard) {
	parent := holdfast.Define("parent", func(ctx holdfast.Context, who string) (string, error) {
		child, err := holdfast.Start(ctx, "start", greet, who)
		return child.ID(), err
	})
	first := startWorker(y.T, y.h, fate{at: puts(y.h.space.Steps())}, parent)
	h := begin(y, parent, "Ada", "p")
	<-first.died
	page, err := y.client.List(y.Context(), execution.ListRequest{Workflow: "greet"})
	y.must(err)
	if len(page.Records) != 1 || y.response("p", "start", 0) != "" {
		y.Fatalf("%d are started, and %q is recorded", len(page.Records), y.response("p", "start", 0))
	}
	y.work(nil, parent, greet)
	id := string(page.Records[0].ID)
	comesTo(y, h, id)
	comesTo(y, greet.Handle(y.client, id), "hello Ada")
	if y.starts() != 1 {
		y.Errorf("%d starts are kept", y.starts())
	}
}
