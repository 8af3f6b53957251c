package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// TestRunnerOutcomes: what becomes of a delivery by what its workflow does.
func TestRunnerOutcomes(t *testing.T) {
	t.Parallel()
	for slug, assert := range map[string]func(*yard){
		"returns":               runnerReturns,
		"throws-outside-step":   runnerThrowsOutsideStep,
		"failed-write-throws":   runnerFailedWriteThrows,
		"infrastructure-throws": runnerInfrastructureThrows,
		"delay-awaited":         runnerDelayAwaited,
	} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			assert(newYard(t))
		})
	}
}

func runnerReturns(y *yard) {
	y.work(nil, greet)
	comesTo(y, begin(y, greet, "Ada", "x"), "hello Ada")
	y.wantEnds("x", "completed")
	if r := y.get("x"); r.Claims != 1 || string(r.Outcome.Result) != `"hello Ada"` {
		y.Errorf("record %+v", r)
	}
}

// failing is a workflow that fails, and counts how often it was run.
func failing(runs *atomic.Int64) *holdfast.Workflow[string, string] {
	return holdfast.Define("failing", func(holdfast.Context, string) (string, error) {
		runs.Add(1)
		return "", errors.New("no stock")
	})
}

// failsWith demands the failure of an execution.
func failsWith[Out any](y *yard, h holdfast.Handle[Out], message string) {
	y.Helper()
	ctx, cancel := context.WithTimeout(y.Context(), time.Minute)
	defer cancel()
	var failed *holdfast.FailedError
	if got, err := h.Result(ctx); !errors.As(err, &failed) || failed.Message != message {
		y.Errorf("%q came to %v, %v; want it failed: %s", h.ID(), got, err, message)
	}
}

// runnerThrowsOutsideStep: an error of the workflow is its outcome, and is not tried
// again.
func runnerThrowsOutsideStep(y *yard) {
	var runs atomic.Int64
	fails := failing(&runs)
	y.work(nil, fails)
	failsWith(y, begin(y, fails, "", "x"), "no stock")
	y.wantEnds("x", "failed")
	if runs.Load() != 1 || y.get("x").Claims != 1 {
		y.Errorf("run %d times in %d deliveries, want once", runs.Load(), y.get("x").Claims)
	}
}

// terminal says whether the transaction would end the execution.
func (y *yard) terminal(id string) func(*etcd.Txn) bool {
	return func(txn *etcd.Txn) bool {
		return slices.ContainsFunc(txn.Then, func(op etcd.Op) bool {
			put, is := op.(etcd.Put)
			if !is || put.Key != y.h.space.State(id) {
				return false
			}
			s, err := record.DecodeState(put.Value)
			return err == nil && s.Terminal()
		})
	}
}

// runnerFailedWriteThrows: an outcome that could not be written has not been: the
// execution goes on, and fails when it is written, by this delivery or by another one.
func runnerFailedWriteThrows(y *yard) {
	var runs atomic.Int64
	fails := failing(&runs)
	y.work(refuseOnce(y.terminal("x"), func() {
		if r := y.get("x"); r.Status != execution.StatusRunning || r.Outcome != nil {
			y.Errorf("before the outcome is written: %+v", r)
		}
	}), fails)
	failsWith(y, begin(y, fails, "", "x"), "no stock")
	y.wantEnds("x", "failed")

	dying := newYard(y.T)
	first := startWorker(dying.T, dying.h, fate{at: dying.terminal("x")}, fails)
	h := begin(dying, fails, "", "x")
	<-first.died
	dying.work(nil, fails)
	failsWith(dying, h, "no stock")
	if r := dying.get("x"); r.Claims != 2 || runs.Load() != 3 {
		dying.Errorf("%d deliveries, and run %d times in all; want 2 and 3", r.Claims, runs.Load())
	}
}

// runnerInfrastructureThrows: what etcd refuses is no outcome. Nothing is recorded, the
// delivery counts, and another one is made after a delay.
func runnerInfrastructureThrows(y *yard) {
	var runs atomic.Int64
	work := holdfast.Define("work", func(ctx holdfast.Context, _ int) (int, error) {
		return holdfast.Step(ctx, "step", func(context.Context) (int, error) { return int(runs.Add(1)), nil })
	})
	y.work(refuseOnce(puts(y.h.space.Steps()), func() {}), work)
	comesTo(y, begin(y, work, 0, "x"), 2)
	y.wantEnds("x", "released", "completed")
	r := y.get("x")
	if r.Claims != 2 || r.UnacknowledgedDeliveries != 0 || !strings.Contains(r.Deliveries[0].Why, "permission denied") {
		y.Errorf("record %+v", r)
	}
	if gap := r.Deliveries[1].Claimed.Sub(r.Deliveries[0].Ended); gap < delayBase {
		y.Errorf("delivered again after %v, want not before %v", gap, delayBase)
	}
}

// runnerDelayAwaited: before a delivery is acknowledged as suspended, what it waits for
// is recorded, and the wake with it.
func runnerDelayAwaited(y *yard) {
	work := holdfast.Define("work", func(ctx holdfast.Context, _ int) (int, error) {
		return 1, holdfast.Sleep(ctx, "sleep", time.Hour)
	})
	var checked atomic.Bool
	y.work(&testetcd.Hook{BeforeTxn: func(txn *etcd.Txn) error {
		for _, op := range txn.Then {
			put, is := op.(etcd.Put)
			if !is || put.Key != y.h.space.State("x") {
				continue
			}
			if s, err := record.DecodeState(put.Value); err == nil && s.Base == execution.StatusSuspended {
				checked.Store(true)
				y.sleepIsRecorded(s.Due)
			}
		}
		return nil
	}}, work)
	begin(y, work, 0, "x")
	y.wantEnds("x", "suspended")
	if r := y.get("x"); !checked.Load() || r.Status != execution.StatusSuspended || r.Claims != 1 {
		y.Errorf("looked: %t, record %+v", checked.Load(), r)
	}
}

// sleepIsRecorded demands a record of the sleep, until the time.
func (y *yard) sleepIsRecorded(due int64) {
	y.Helper()
	var r struct{ Until time.Time }
	doc := y.response("x", "sleep", 0)
	if err := json.Unmarshal([]byte(doc), &r); err != nil || r.Until.UnixMilli() != due {
		y.Errorf("%s is recorded, %v, where the execution is due at %d", doc, err, due)
	}
}

// TestDelivery: what becomes of deliveries, and who is told.
func TestDelivery(t *testing.T) {
	t.Parallel()
	for slug, assert := range map[string]func(*yard){
		"outcomes-resolve":                  deliveryOutcomesResolve,
		"rejects-redelivered":               deliveryRejectsRedelivered,
		"start-client-throws":               deliveryStartClientThrows,
		"end-event-on-completed-and-failed": deliveryEndEvent,
		"no-end-event-on-suspended":         deliveryNoneOnSuspended,
		"no-end-event-on-retry":             deliveryNoneOnRetry,
		"direct-operational-error":          deliveryDirectError,
		"launch-does-not-wait":              deliveryLaunchDoesNotWait,
		"omitted-id":                        deliveryOmittedID,
		"invoker-parity":                    deliveryInvokerParity,
	} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			assert(newYard(t))
		})
	}
}

// deliveryOutcomesResolve: completed, failed and suspended each end their delivery, and
// none counts.
func deliveryOutcomesResolve(y *yard) {
	var runs atomic.Int64
	fails := failing(&runs)
	sleeps := holdfast.Define("sleeps", func(ctx holdfast.Context, _ int) (int, error) {
		return 0, holdfast.Sleep(ctx, "sleep", time.Hour)
	})
	y.work(nil, greet, fails, sleeps)
	begin(y, greet, "Ada", "completed")
	begin(y, fails, "", "failed")
	begin(y, sleeps, 0, "suspended")
	for _, status := range []execution.Status{"completed", "failed", "suspended"} {
		id := string(status)
		y.wantEnds(id, id)
		if r := y.get(id); r.Status != status || r.Claims != 1 || r.UnacknowledgedDeliveries != 0 || r.Token != 0 {
			y.Errorf("record %+v", r)
		}
	}
}

// deliveryRejectsRedelivered: a delivery that failed is made again until one does not.
func deliveryRejectsRedelivered(y *yard) {
	var runs atomic.Int64
	work := holdfast.Define("work", func(holdfast.Context, int) (int64, error) {
		if n := runs.Add(1); n < 4 {
			panic(fmt.Sprint("delivery ", n))
		}
		return runs.Load(), nil
	})
	y.work(nil, work)
	comesTo(y, begin(y, work, 0, "x"), 4)
	y.wantEnds("x", "released", "released", "released", "completed")
	r := y.get("x")
	for i, d := range r.Deliveries[:3] {
		if d.How != execution.HowReleased || !strings.Contains(d.Why, fmt.Sprint("delivery ", i+1)) {
			y.Errorf("delivery %d: %+v", i, d)
		}
	}
}

// deliveryStartClientThrows: so is one whose start of another failed; it is counted
// meanwhile.
func deliveryStartClientThrows(y *yard) {
	parent := holdfast.Define("parent", func(ctx holdfast.Context, who string) (string, error) {
		return holdfast.Child(ctx, "start", greet, who, holdfast.WithID("child"))
	})
	var refused atomic.Int64
	such := puts(y.h.space.Starts())
	y.work(&testetcd.Hook{BeforeTxn: func(txn *etcd.Txn) error {
		if such(txn) && refused.Add(1) < 4 {
			if r := y.get("p"); r.UnacknowledgedDeliveries != refused.Load()-1 {
				y.Errorf("%d unacknowledged deliveries before refusal %d", r.UnacknowledgedDeliveries, refused.Load())
			}
			return etcd.ErrPermission
		}
		return nil
	}}, parent, greet)
	comesTo(y, begin(y, parent, "Ada", "p"), "hello Ada")
	if got := y.ends("p"); len(got) < 3 || !slices.Equal(got[:3], []string{"released", "released", "released"}) || y.starts() != 1 {
		y.Errorf("deliveries ended as %q, and %d starts are kept", got, y.starts())
	}
}

// awaiting is a parent that waits for an execution that it starts with the given id, and
// says what that came to.
func awaiting(y *yard, child *holdfast.Workflow[string, string]) *holdfast.Workflow[string, string] {
	return holdfast.Define("awaiting "+child.Name(), func(ctx holdfast.Context, id string) (string, error) {
		out, err := holdfast.Child(ctx, "child", child, "Ada", holdfast.WithID(id))
		if failed, is := errors.AsType[*holdfast.FailedError](err); is {
			return "failed: " + failed.Message, nil
		}
		return out, err
	})
}

// told counts the notices of ends, of all that there ever were.
func (y *yard) told() *atomic.Int64 {
	var n atomic.Int64
	span := y.h.space.AllChanges()
	ctx, cancel := context.WithCancel(context.Background())
	_, rev, err := y.h.store.Get(y.Context(), etcd.Get{Key: span.Start})
	y.must(err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for batch := range y.h.store.Watch(ctx, span.Start, span.End, rev+1) {
			for _, e := range batch.Events {
				if !e.Deleted {
					n.Add(1)
				}
			}
		}
	}()
	y.Cleanup(func() { cancel(); <-done })
	return &n
}

// deliveryEndEvent: of an end, by completion or failure, the observer is told once, and
// whoever waits is woken.
func deliveryEndEvent(y *yard) {
	var runs atomic.Int64
	fails := failing(&runs)
	slow := holdfast.Define("slow", func(ctx holdfast.Context, who string) (string, error) {
		return "slow " + who, holdfast.Sleep(ctx, "sleep", 100*time.Millisecond)
	})
	failsLate := holdfast.Define("fails late", func(ctx holdfast.Context, _ string) (string, error) {
		if err := holdfast.Sleep(ctx, "sleep", 100*time.Millisecond); err != nil {
			return "", err
		}
		return "", errors.New("late")
	})
	y.work(nil, fails, slow, failsLate, awaiting(y, fails), awaiting(y, slow), awaiting(y, failsLate))
	a := begin(y, awaiting(y, fails), "a child", "a")
	b := begin(y, awaiting(y, slow), "b child", "b")
	c := begin(y, awaiting(y, failsLate), "c child", "c")
	comesTo(y, a, "failed: no stock")
	comesTo(y, b, "slow Ada")
	comesTo(y, c, "failed: late")
	for id, want := range map[string]string{"a child": "failed", "b child": "completed", "c child": "failed"} {
		y.eventually(fmt.Sprintf("%q to be told of as %s, once and last", id, want), func() bool {
			ends := y.ends(id)
			return len(ends) > 0 && slices.Index(ends, want) == len(ends)-1
		})
	}
	y.nothingIsOwed()
}

// nothingIsOwed waits until nobody waits and nobody is to be woken.
func (y *yard) nothingIsOwed() {
	y.Helper()
	waiters, outbox := y.h.space.Waiters(), y.h.space.Outbox()
	y.eventually("nobody to wait or to be woken", func() bool {
		return y.keysOf(waiters.Start, waiters.End)+y.keysOf(outbox.Start, outbox.End) == 0
	})
}

// deliveryNoneOnSuspended: a child that suspends, and goes on later, has not ended: its
// parent is not woken.
func deliveryNoneOnSuspended(y *yard) {
	told := y.told()
	naps := holdfast.Define("naps", func(ctx holdfast.Context, who string) (string, error) {
		for i := range 3 {
			if err := holdfast.Sleep(ctx, fmt.Sprint("nap ", i), time.Hour); err != nil {
				return "", err
			}
			y.Error("an hour has passed")
		}
		return who, nil
	})
	y.work(nil, naps, awaiting(y, naps))
	begin(y, awaiting(y, naps), "child", "p")
	y.wantEnds("p", "suspended")
	for i := range 3 {
		y.eventually("another delivery of the child", func() bool { return len(y.ends("child")) == i+1 })
		y.must(y.client.Wake(y.Context(), "child", time.Time{}))
	}
	y.eventually("the last one", func() bool { return len(y.ends("child")) == 4 })
	if r := y.get("p"); r.Claims != 1 || told.Load() != 0 {
		y.Errorf("the parent was delivered %d times, and %d ends were noticed", r.Claims, told.Load())
	}
	y.must(y.client.Cancel(y.Context(), "child", "enough"))
	comesTo(y, awaiting(y, naps).Handle(y.client, "p"), "failed: cancelled: enough")
	y.eventually("the end to be noticed once", func() bool { return told.Load() == 1 })
	y.nothingIsOwed()
}

// deliveryNoneOnRetry: neither has one whose delivery failed.
func deliveryNoneOnRetry(y *yard) {
	told := y.told()
	var runs atomic.Int64
	ready := make(chan struct{})
	stumbles := holdfast.Define("stumbles", func(_ holdfast.Context, who string) (string, error) {
		if n := runs.Add(1); n < 4 {
			panic("stumbled")
		}
		<-ready
		return who, nil
	})
	y.work(nil, stumbles, awaiting(y, stumbles))
	h := begin(y, awaiting(y, stumbles), "child", "p")
	y.wantEnds("p", "suspended")
	y.eventually("the last delivery of the child", func() bool { return runs.Load() == 4 })
	if r := y.get("p"); r.Claims != 1 || told.Load() != 0 {
		y.Errorf("the parent was delivered %d times, and %d ends were noticed", r.Claims, told.Load())
	}
	close(ready)
	comesTo(y, h, "Ada")
	y.eventually("the end to be noticed once", func() bool { return told.Load() == 1 })
	if r := y.get("p"); r.Claims != 2 {
		y.Errorf("the parent was delivered %d times", r.Claims)
	}
	y.nothingIsOwed()
}

// deliveryDirectError: who starts an execution from outside is told of a trouble, and
// nothing is started then.
func deliveryDirectError(y *yard) {
	c, err := holdfast.Open(y.Context(), holdfast.Prefix(keyPrefix), holdfast.Namespace(y.h.namespace), holdfast.Internal(door.Config{
		Store: &testetcd.Hook{Store: y.h.store, BeforeTxn: func(txn *etcd.Txn) error {
			if writes(txn, y.h.space.State("x")) {
				return etcd.ErrPermission
			}
			return nil
		}},
	}))
	y.must(err)
	defer c.Close()
	if _, err := greet.Start(y.Context(), c, "Ada", holdfast.WithID("x")); !errors.Is(err, etcd.ErrPermission) {
		y.Errorf("got %v, want etcd's refusal", err)
	}
	if _, err := y.client.Get(y.Context(), "x"); !errors.Is(err, execution.ErrNotFound) {
		y.Errorf("got %v, want that nothing was started", err)
	}
}

// deliveryLaunchDoesNotWait: neither start, from outside or in a workflow, waits for
// what it starts.
func deliveryLaunchDoesNotWait(y *yard) {
	release, running := make(chan struct{}), make(chan struct{}, 1)
	blocked := holdfast.Define("blocked", func(holdfast.Context, int) (int, error) {
		running <- struct{}{}
		<-release
		return 7, nil
	})
	parent := holdfast.Define("parent", func(ctx holdfast.Context, _ int) (string, error) {
		child, err := holdfast.Start(ctx, "start", blocked, 0)
		return child.ID(), err
	})
	h := begin(y, parent, 0, "p") // nobody runs it yet
	y.work(nil, parent, blocked)
	<-running
	id, err := h.Result(y.Context())
	y.must(err)
	if r := y.get(id); r.Status != execution.StatusRunning {
		y.Errorf("the child is %s after its parent's end, want it running", r.Status)
	}
	close(release)
	comesTo(y, blocked.Handle(y.client, id), 7)
}

// deliveryOmittedID: without an id each start draws one of its own.
func deliveryOmittedID(y *yard) {
	parent := holdfast.Define("parent", func(ctx holdfast.Context, _ int) ([]string, error) {
		var ids []string
		for i := range 2 {
			child, err := holdfast.Start(ctx, fmt.Sprint("start ", i), greet, "Ada")
			if err != nil {
				return nil, err
			}
			ids = append(ids, child.ID())
		}
		return ids, nil
	})
	y.work(nil, parent, greet)
	ids := map[string]bool{}
	for range 2 {
		h, err := greet.Start(y.Context(), y.client, "Ada")
		y.must(err)
		ids[h.ID()] = true
	}
	p, err := parent.Start(y.Context(), y.client, 0)
	y.must(err)
	started, err := p.Result(y.Context())
	y.must(err)
	for _, id := range started {
		ids[id] = true
	}
	if len(ids) != 4 {
		y.Errorf("ids %v, want 4 of their own", ids)
	}
	for id := range ids {
		comesTo(y, greet.Handle(y.client, id), "hello Ada")
	}
}

// deliveryInvokerParity: whoever starts it, from outside or in a workflow, the execution
// is the same.
func deliveryInvokerParity(y *yard) {
	type order struct {
		To    string
		Items []int
	}
	var seen [2]atomic.Value
	ship := holdfast.Define("ship", func(ctx holdfast.Context, o order) (string, error) {
		i := 0
		if ctx.Delivery().Lease().ID == "inside" {
			i = 1
		}
		seen[i].Store(fmt.Sprintf("%+v", o))
		return o.To, nil
	}, holdfast.OnQueue("shipping"))
	parent := holdfast.Define("parent", func(ctx holdfast.Context, o order) (string, error) {
		return holdfast.Child(ctx, "ship", ship, o, holdfast.WithID("inside"))
	})
	y.work(nil, ship, parent)
	o := order{"Ada <1>", []int{1, 2}}
	comesTo(y, begin(y, ship, o, "outside"), "Ada <1>")
	comesTo(y, begin(y, parent, o, "p"), "Ada <1>")
	if a, b := seen[0].Load(), seen[1].Load(); a != b || a == nil {
		y.Errorf("outside it was given %v, inside %v", a, b)
	}
	var recs [2]execution.Record
	for i, id := range []string{"outside", "inside"} {
		recs[i] = y.get(id)
		var params any
		y.must(json.Unmarshal(recs[i].Params, &params))
		recs[i].Params, _ = json.Marshal(params)
		recs[i].ID, recs[i].Incarnation, recs[i].AdmittedAt, recs[i].Deliveries = "", 0, time.Time{}, nil
	}
	if a, b := fmt.Sprintf("%+v", recs[0]), fmt.Sprintf("%+v", recs[1]); stripOutcome(a) != stripOutcome(b) {
		y.Errorf("outside it is\n%s\ninside\n%s", a, b)
	}
}

// stripOutcome leaves out where an outcome is in memory.
func stripOutcome(s string) string {
	before, _, _ := strings.Cut(s, "Outcome:")
	return before
}
