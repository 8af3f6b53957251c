package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/effect"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A cashier is a provider that acts once for each key, and says what became of it.
type cashier struct {
	mu                sync.Mutex
	acts              map[string]int // by key: how many acts there were before
	performs, lookups int

	// What happens in place of an answer, if anything; n counts from 1.
	performed func(n int) error
	found     func(n int) (effect.Found[any], error)
}

func (c *cashier) perform(_ context.Context, in any, key string) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.performs++
	if _, done := c.acts[key]; !done {
		c.acts[key] = len(c.acts)
	}
	if c.performed != nil {
		if err := c.performed(c.performs); err != nil {
			return nil, err
		}
	}
	return c.receipt(in, key), nil
}

func (c *cashier) receipt(in any, key string) string { return fmt.Sprint(in, " as ", c.acts[key]) }

func (c *cashier) lookup(_ context.Context, in any, key string) (effect.Found[any], error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lookups++
	if c.found != nil {
		if f, err := c.found(c.lookups); err != nil || f.Status != effect.NotFound {
			return f, err
		}
	}
	if _, done := c.acts[key]; done {
		return effect.Found[any]{Status: effect.Settled, Result: c.receipt(in, key)}, nil
	}
	return effect.Found[any]{Status: effect.NotFound}, nil
}

// A till is a namespace in which one execution, "order", has one effect.
type till struct {
	*stage
	f *fleet
	*cashier
	effect effect.Effect[any, any]
	caught atomic.Int64 // how often the workflow has seen an error of the effect
}

func newTill(t *testing.T) *till {
	t.Helper()
	s := newStage(t)
	c := &cashier{acts: map[string]int{}}
	return &till{
		stage: s, f: &fleet{t: t, h: s.harness, client: openClient(t, s.harness)}, cashier: c,
		effect: effect.Effect[any, any]{
			Operation: "charge-card", ID: charge, Input: "tea", Perform: c.perform, Lookup: c.lookup, RetryIn: 100 * time.Millisecond,
		},
	}
}

// workflow is one of the effect that comes back after it in another delivery. An error
// of the effect is its result.
func (t *till) workflow() *holdfast.Workflow[int, any] {
	return holdfast.Define("pay", func(ctx holdfast.Context, _ int) (any, error) {
		out, err := effect.Run(ctx, "act", t.effect)
		if holdfast.Failed(err) {
			t.caught.Add(1)
			step, is := errors.AsType[*holdfast.StepError](err)
			if !is {
				return nil, err
			}
			out, err = "failed: "+step.Code, nil
		}
		if err != nil {
			return nil, err
		}
		return out, holdfast.Sleep(ctx, "leave", 100*time.Millisecond)
	})
}

// worker starts one with the fate.
func (t *till) worker(f fate) *doomed {
	t.t.Helper()
	return startWorker(t.t, t.harness, f, t.workflow())
}

// steady starts a worker to which nothing happens, of the workflow or of others, and
// which no slow machine robs of its leases. It returns what stops it.
func (t *till) steady(others ...holdfast.WorkerOption) func() {
	t.t.Helper()
	c, err := holdfast.Open(t.t.Context(), holdfast.Prefix(keyPrefix), holdfast.Namespace(t.namespace),
		holdfast.RedeliveryDelay(delayBase, delayBase), holdfast.Internal(door.Config{Store: t.store}))
	t.must(err)
	w, err := holdfast.NewWorker(c, append(others, t.workflow(), holdfast.Lease(time.Minute, time.Second))...)
	t.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, c.Close()); err != nil {
			t.t.Errorf("the end of a worker: %v", err)
		}
	})
	t.t.Cleanup(stop)
	return stop
}

// order starts the execution.
func (t *till) order() holdfast.Handle[any] {
	t.t.Helper()
	h, err := t.workflow().Start(t.t.Context(), t.f.client, 0, holdfast.WithID("order"))
	t.must(err)
	return h
}

// pays demands what the execution comes to, and how often the provider was asked.
func (t *till) pays(h holdfast.Handle[any], want any, performs, lookups int) {
	t.t.Helper()
	if got, err := h.Result(t.t.Context()); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.t.Errorf("got %v, %v; want %v", got, err, want)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.performs != performs || t.lookups != lookups {
		t.t.Errorf("performed %d times, looked up %d times; want %d and %d", t.performs, t.lookups, performs, lookups)
	}
	t.none("registrations", t.space.Waiters())
}

// pending begins the effect in the name of somebody else.
func (t *till) pending(input string) {
	t.t.Helper()
	_, err := t.effects(nil).Begin(t.t.Context(), charging(execution.StepID{Execution: "somebody", Step: "else"}, "charge-card", input))
	t.must(err)
}

// released waits until a delivery ended without an acknowledgement, and says why.
func (t *till) released() (why string) {
	t.t.Helper()
	t.f.eventually("the delivery to be released", func() bool {
		for _, d := range t.get("order").Deliveries {
			if d.How == execution.HowReleased {
				why = d.Why
				return true
			}
		}
		return false
	})
	return why
}

// kill ends the worker in the middle of a callback; the error is for the callback.
func (m *doomed) kill() error {
	if m.dead.CompareAndSwap(false, true) {
		close(m.died)
	}
	return errNoAnswer
}

// TestEffectDriver: every row of the driver's table, on real etcd.
func TestEffectDriver(t *testing.T) {
	t.Parallel()
	for slug, run := range map[string]func(*till){
		"new":                      driveNew,
		"pending-not-found":        drivePendingNotFound,
		"settled":                  driveSettled,
		"during-and-after-perform": drivePerform,
		"after-not-found":          driveAfterNotFound,
		"after-lookup-settled":     driveAfterLookup,
		"after-settle":             driveAfterSettle,
		"after-step-result":        driveAfterResult,
		"unknown-and-reject-wait":  driveUnknown,
		"invalid-request":          driveInvalid,
		"changed-request":          driveChanged,
		"client-unavailable":       driveUnavailable,
		"malformed":                driveMalformed,
		"invariant-and-mismatch":   driveInvariant,
		"conflict":                 driveConflict,
	} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			run(newTill(t))
		})
	}
}

func driveNew(t *till) {
	t.steady()
	t.pays(t.order(), "tea as 0", 1, 0)
	if r, err := t.effects(nil).Get(t.t.Context(), charge); err != nil || r.Result == nil || string(r.Result.Value) != `"tea as 0"` || r.Settled.Execution != "order" {
		t.t.Errorf("kept: %+v, %v", r, err)
	}
}

func drivePendingNotFound(t *till) {
	t.pending(`"tea"`)
	t.steady()
	t.pays(t.order(), "tea as 0", 1, 1)
}

func driveSettled(t *till) {
	t.pending(`"tea"`)
	t.must(t.effects(nil).Settle(t.t.Context(), charge, "by a webhook"))
	t.steady()
	t.pays(t.order(), "by a webhook", 0, 0)
}

// drivePerform: the worker dies in the middle of Perform, before the provider has acted
// or after. Whoever comes next looks, and acts only in the first case.
func drivePerform(t *till) {
	for _, acted := range []bool{false, true} {
		t := newTill(t.t)
		var first *doomed
		started := make(chan struct{})
		perform := t.effect.Perform
		t.effect.Perform = func(ctx context.Context, in any, key string) (any, error) {
			if <-started; first.dead.Load() {
				return perform(ctx, in, key)
			}
			if acted {
				_, _ = perform(ctx, in, key)
			}
			return nil, first.kill()
		}
		first = t.worker(immortal)
		close(started)
		h := t.order()
		<-first.died
		t.steady()
		t.pays(h, "tea as 0", 1, 1)
	}
}

// driveAfterNotFound: the worker dies when it has learned that nobody has acted.
func driveAfterNotFound(t *till) {
	t.pending(`"tea"`)
	var first *doomed
	started := make(chan struct{})
	t.found = func(int) (effect.Found[any], error) {
		if <-started; !first.dead.Load() {
			return effect.Found[any]{}, first.kill() // it does not come to Perform any more
		}
		return effect.Found[any]{Status: effect.NotFound}, nil
	}
	first = t.worker(immortal)
	close(started)
	h := t.order()
	<-first.died
	t.steady()
	t.pays(h, "tea as 0", 1, 2)
}

// driveAfterLookup: the worker dies when it has found what was done, before that is kept.
func driveAfterLookup(t *till) {
	t.pending(`"tea"`)
	t.acts[charge] = 0
	m := t.worker(fate{at: func(txn *etcd.Txn) bool { return writes(txn, effectKey(t.stage)) }})
	h := t.order()
	<-m.died
	t.steady()
	t.pays(h, "tea as 0", 0, 2)
}

// driveAfterSettle: it dies when that is kept, before it is recorded.
func driveAfterSettle(t *till) {
	t.pending(`"tea"`)
	m := t.worker(fate{at: func(txn *etcd.Txn) bool { return writes(txn, effectKey(t.stage)) }, applied: true})
	h := t.order()
	<-m.died
	t.steady()
	t.pays(h, "tea as 0", 1, 1)
}

// driveAfterResult: it dies when that is recorded, before it is acknowledged.
func driveAfterResult(t *till) {
	m := t.worker(fate{at: puts(t.space.Steps()), applied: true})
	h := t.order()
	<-m.died
	t.steady()
	t.pays(h, "tea as 0", 1, 0)
}

// driveUnknown: Perform fails, then lookups say that they don't know, or fail. Each time
// the execution waits, and nothing is done.
func driveUnknown(t *till) {
	t.performed = func(int) error { return errNoAnswer }
	t.found = func(n int) (effect.Found[any], error) {
		switch n {
		case 1, 3:
			return effect.Found[any]{Status: effect.Unknown}, nil
		case 2, 4:
			return effect.Found[any]{Status: effect.NotFound}, errNoAnswer
		}
		return effect.Found[any]{Status: effect.NotFound}, nil // the truth
	}
	t.steady()
	t.pays(t.order(), "tea as 0", 1, 5)
	if r := t.get("order"); r.Claims != 7 || r.UnacknowledgedDeliveries != 0 {
		t.t.Errorf("%d deliveries, of which %d are not acknowledged; want 7 and 0", r.Claims, r.UnacknowledgedDeliveries)
	}
}

// driveInvalid: what can't be asked for is the step's recorded failure, before anything
// is kept or done.
func driveInvalid(t *till) {
	for name, spoil := range map[string]func(*effect.Effect[any, any]){
		"id":        func(e *effect.Effect[any, any]) { e.ID = "a\x00" },
		"long id":   func(e *effect.Effect[any, any]) { e.ID = strings.Repeat("x", 513) },
		"operation": func(e *effect.Effect[any, any]) { e.Operation = "" },
		"input":     func(e *effect.Effect[any, any]) { e.Input = make(chan int) },
		"large":     func(e *effect.Effect[any, any]) { e.Input = strings.Repeat("x", effect.MaxInputBytes) },
		"deep": func(e *effect.Effect[any, any]) {
			e.Input = json.RawMessage(strings.Repeat("[", 8991) + strings.Repeat("]", 8991))
		},
		"retry": func(e *effect.Effect[any, any]) { e.RetryIn = -1 },
	} {
		t := newTill(t.t)
		spoil(&t.effect)
		t.steady()
		t.pays(t.order(), "failed: "+effect.CodeInvalidRequest, 0, 0)
		t.none(name+": effects", t.space.AllStores())
		if t.caught.Load() != 2 { // once more on the replay
			t.t.Errorf("%s: the workflow saw %d errors", name, t.caught.Load())
		}
	}
}

// driveChanged: an id that means something else already is the step's recorded failure,
// also once the other effect is settled.
func driveChanged(t *till) {
	t.pending(`"coffee"`)
	t.steady()
	t.pays(t.order(), "failed: "+effect.CodeMismatch, 0, 0)
	if t.caught.Load() != 2 {
		t.t.Errorf("the workflow saw %d errors", t.caught.Load())
	}
}

// driveUnavailable: where etcd does not do what it is asked for, the delivery is released
// and the workflow sees nothing of it.
func driveUnavailable(t *till) {
	var works atomic.Bool
	t.store = &testetcd.Hook{Store: t.store, BeforeTxn: func(txn *etcd.Txn) error {
		if !works.Load() && writes(txn, effectKey(t.stage)) {
			return fmt.Errorf("%w: not now", etcd.ErrPermission)
		}
		return nil
	}}
	t.steady()
	h := t.order()
	if why := t.released(); !contains(why, effect.CodeUnavailable, "not now") {
		t.t.Errorf("released because of %s", why)
	}
	t.none("steps", t.space.StepsOf("order"))
	works.Store(true)
	t.pays(h, "tea as 0", 1, 0)
	if t.caught.Load() != 0 {
		t.t.Error("the workflow has seen an error")
	}
}

// driveMalformed: what is no answer is no result. The effect stays pending, and a mended
// release goes on.
func driveMalformed(t *till) {
	for name, spoil := range map[string]func(*till){
		"status": func(t *till) {
			t.pending(`"tea"`)
			t.effect.Lookup = func(context.Context, any, string) (effect.Found[any], error) {
				return effect.Found[any]{Status: 7}, nil
			}
		},
		"found": func(t *till) {
			t.pending(`"tea"`)
			t.effect.Lookup = func(context.Context, any, string) (effect.Found[any], error) {
				return effect.Found[any]{Status: effect.Settled, Result: func() {}}, nil
			}
		},
		"result": func(t *till) {
			t.effect.Perform = func(context.Context, any, string) (any, error) { return make(chan int), nil }
		},
	} {
		t := newTill(t.t)
		good := t.effect
		spoil(t)
		stop := t.steady()
		h := t.order()
		if why := t.released(); !contains(why, effect.CodeHandlerInvalid) {
			t.t.Errorf("%s: released because of %s", name, why)
		}
		t.none("steps", t.space.StepsOf("order"))
		if r, err := t.effects(nil).Get(t.t.Context(), charge); err != nil || r.Result != nil {
			t.t.Errorf("%s: kept %+v, %v", name, r, err)
		}
		stop()
		t.effect, t.lookups = good, 0
		t.steady()
		t.pays(h, "tea as 0", 1, 1)
		if t.caught.Load() != 0 {
			t.t.Errorf("%s: the workflow has seen an error", name)
		}
	}
}

// driveInvariant: what can't be, and a registration of somebody else in the step's
// place, are for operators to see, and not for the workflow.
func driveInvariant(t *till) {
	key := execution.StoreID{Name: "holdfast:effect", ID: charge}
	_, err := t.stores().Create(t.t.Context(), key, func() ([]byte, error) { return []byte(`{"v":1,"status":"lost"}`), nil })
	t.must(err)
	t.steady()
	h := t.order()
	if why := t.released(); !contains(why, effect.CodeInvariant, "neither pending nor settled") {
		t.t.Errorf("released because of %s", why)
	}
	t.must(t.stores().Delete(t.t.Context(), key))
	t.pays(h, "tea as 0", 1, 0)

	other := newTill(t.t)
	other.performed = func(int) error {
		r := other.get("order")
		w := waitingUntil(execution.StepID{Execution: "order", Incarnation: r.Incarnation, Step: "act"}, later())
		if _, err := other.effects(nil).Wait(t.t.Context(), w); err != nil {
			t.t.Error(err)
		}
		return errNoAnswer
	}
	other.found = func(n int) (effect.Found[any], error) {
		if n == 1 {
			return effect.Found[any]{}, nil
		}
		return effect.Found[any]{Status: effect.NotFound}, nil
	}
	other.steady()
	h = other.order()
	if why := other.released(); !contains(why, effect.CodeWaiterMismatch) {
		t.t.Errorf("released because of %s", why)
	}
	other.pays(h, "tea as 0", 1, 2)
}

// driveConflict: while the provider is asked, somebody else settles the effect. The
// first result is what the step comes to, and the other one is reported.
func driveConflict(t *till) {
	t.performed = func(int) error { return t.effects(nil).Settle(context.Background(), charge, "by a webhook") }
	t.steady()
	t.pays(t.order(), "by a webhook", 1, 0)
	all, err := t.effects(nil).Conflicts(t.t.Context())
	if err != nil || len(all) != 1 || len(all[0].Reports) != 1 {
		t.t.Fatalf("conflicts: %+v, %v", all, err)
	}
	c, r := all[0], all[0].Reports[0]
	if c.Effect != charge || c.Operation != "charge-card" || string(c.Result.Value) != `"by a webhook"` || c.Settled.Execution != "" ||
		string(r.Result.Value) != `"tea as 0"` || r.By.Execution != "order" || r.By.Step != "act" {
		t.t.Errorf("conflict: %+v", c)
	}
}
