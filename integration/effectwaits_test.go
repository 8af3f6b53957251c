package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/effect"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// TestEffectIntegration: what waits for an effect is delivered, whatever dies, on real
// etcd.
func TestEffectIntegration(t *testing.T) {
	t.Parallel()
	for slug, run := range map[string]func(*till){
		"wait-then-fail":              effectWaitThenFail,
		"unfinished-record-then-fail": effectRecordThenFail,
		"scheduled-wake-once":         effectScheduledWakeOnce,
		"settle-wakes-all":            effectSettleWakesAll,
		"client-fails-is-retry":       effectClientFails,
	} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			run(newTill(t))
		})
	}
}

// effectWaitThenFail: the worker dies when its wait is registered, and not acknowledged.
// The next delivery comes by the end of its lease, looks, and finds what was done.
func effectWaitThenFail(t *till) {
	t.performed = func(int) error { return errNoAnswer }
	t.effect.RetryIn = time.Hour
	m := t.worker(fate{at: puts(t.space.Waiters()), applied: true})
	h := t.order()
	<-m.died
	t.steady()
	t.pays(h, "tea as 0", 1, 1)
}

// effectRecordThenFail: it dies when it is recorded that the step waits, and nobody is
// registered yet.
func effectRecordThenFail(t *till) {
	t.performed = func(int) error { return errNoAnswer }
	t.effect.RetryIn = time.Hour
	m := t.worker(fate{at: puts(t.space.Steps()), applied: true})
	h := t.order()
	<-m.died
	t.none("registrations", t.space.Waiters())
	t.steady()
	t.pays(h, "tea as 0", 1, 1)
}

// effectScheduledWakeOnce: one delivery comes of one wait, though the worker is another
// one by then.
func effectScheduledWakeOnce(t *till) {
	t.performed = func(int) error { return errNoAnswer }
	t.effect.RetryIn = time.Second
	stop := t.steady()
	h := t.order()
	t.f.eventually("the wait to be acknowledged", func() bool { return t.f.allSuspended(1) })
	r := t.get("order")
	if wait := r.Due.Sub(r.Deliveries[0].Claimed); wait < time.Second || wait > time.Minute {
		t.t.Errorf("due %v after the first delivery began: %+v", wait, r.Deliveries)
	}
	stop()
	t.steady()
	t.pays(h, "tea as 0", 1, 1)
	// The first, the one that was asked for, and one after the sleep at the end.
	if again := t.get("order"); again.Claims != 3 || again.Deliveries[1].Claimed.Before(r.Due) {
		t.t.Errorf("%d deliveries, the second at %v; it was due at %v", again.Claims, again.Deliveries[1].Claimed, r.Due)
	}
}

// effectSettleWakesAll: whoever waits for the effect is woken when somebody settles it.
func effectSettleWakesAll(t *till) {
	const many = 50
	t.performed = func(int) error { return errNoAnswer }
	t.found = func(int) (effect.Found[any], error) { return effect.Found[any]{}, nil }
	t.effect.RetryIn = time.Hour
	t.steady()
	var all []holdfast.Handle[any]
	for i := range many {
		h, err := t.workflow().Start(t.t.Context(), t.f.client, 0, holdfast.WithID(fmt.Sprint(i)))
		t.must(err)
		all = append(all, h)
	}
	t.f.eventually("all to wait", func() bool { return t.f.allSuspended(many) })
	effects := effect.NewClient(t.f.client)
	if r, err := effects.Get(t.t.Context(), charge); err != nil || len(r.Waiting) != many || r.Waiting[0].Step != "act" || !contains(r.Waiting[0].Reason, "unknown") && !contains(r.Waiting[0].Reason, "Perform") {
		t.t.Errorf("%d wait, %v", len(r.Waiting), err)
	}
	t.must(effects.Settle(t.t.Context(), charge, "by a webhook"))
	for _, h := range all {
		if got, err := h.Result(t.t.Context()); err != nil || got != "by a webhook" {
			t.t.Errorf("%s: %v, %v", h.ID(), got, err)
		}
	}
	t.none("registrations", t.space.Waiters())
	t.f.nothingLeft(keyspace.Space.Outbox, "wakes that are owed")
	if t.performs != 1 {
		t.t.Errorf("performed %d times", t.performs)
	}
}

// effectClientFails: where the result can't be kept, or the wait can't be registered, the
// delivery is released, and the next one begins from what the provider knows.
func effectClientFails(t *till) {
	for name, c := range map[string]struct {
		refuses func(*till, *etcd.Txn) bool
		lost    bool // the provider's answer
	}{
		"settle": {func(t *till, txn *etcd.Txn) bool { return t.performs == 1 && writes(txn, effectKey(t.stage)) }, false},
		"wait":   {func(t *till, txn *etcd.Txn) bool { return puts(t.space.Waiters())(txn) }, true},
	} {
		t := newTill(t.t)
		if c.lost {
			t.performed = func(int) error { return errNoAnswer }
		}
		failed := false
		t.store = &testetcd.Hook{Store: t.store, BeforeTxn: func(txn *etcd.Txn) error {
			t.mu.Lock()
			defer t.mu.Unlock()
			if failed || !c.refuses(t, txn) {
				return nil
			}
			failed = true
			return fmt.Errorf("%w: not now", etcd.ErrPermission)
		}}
		t.steady()
		h := t.order()
		if why := t.released(); !contains(why, effect.CodeUnavailable, "not now") {
			t.t.Errorf("%s: released because of %s", name, why)
		}
		t.pays(h, "tea as 0", 1, 1)
		if r := t.get("order"); r.UnacknowledgedDeliveries != 0 || t.caught.Load() != 0 {
			t.t.Errorf("%s: %d unacknowledged, %d errors seen", name, r.UnacknowledgedDeliveries, t.caught.Load())
		}
	}
}

// A body is a JSON document whatever it looks like.
type body = map[string]any

// TestEffectSerialisation: what inputs and results may be, on real etcd.
func TestEffectSerialisation(t *testing.T) {
	t.Parallel()
	for slug, run := range map[string]func(*till){
		"valid-values-round-trip":    effectValidValues,
		"invalid-values-rejected":    effectInvalidValues,
		"suspended-stays-unfinished": effectStaysUnfinished,
	} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			run(newTill(t))
		})
	}
}

// deep is a list in a list, and so on.
func deep(levels int) any {
	list := []any{}
	for range levels - 1 {
		list = []any{list}
	}
	return list
}

// effectValidValues: every JSON value comes back as it was, on the first run and on
// replays, by Perform and by a lookup. What looks like an error is a value.
func effectValidValues(t *till) {
	values := []any{
		nil, true, false, 0.0, -1.5, 1e21, math.MaxFloat64, "", "tea", "<&>\u2028 ☕\x00",
		[]any{},
		[]any{nil, "a", []any{1.0}},
		body{},
		body{"b": 1.0, "a": body{"": nil}},
		body{"name": "Error", "message": "no", "code": effect.CodeDeclined, "stack": "at x"},
		body{"declined": body{"message": "no", "code": "NO"}},
		body{"value": 1.0, "status": "pending"},
		strings.Repeat("<", effect.MaxResultBytes-2), deep(8990),
	}
	echo := func(_ context.Context, in any, _ string) (any, error) { return in, nil }
	find := func(_ context.Context, in any, _ string) (effect.Found[any], error) {
		return effect.Found[any]{Status: effect.Settled, Result: in}, nil
	}
	w := holdfast.Define("echo", func(ctx holdfast.Context, pending bool) (int, error) {
		right := 0
		for i, v := range values {
			e := effect.Effect[any, any]{Operation: "echo", ID: fmt.Sprint(pending, i), Input: v, Perform: echo, Lookup: find}
			out, err := effect.Run(ctx, fmt.Sprint(i), e)
			if err != nil {
				return 0, err
			}
			if reflect.DeepEqual(out, v) {
				right++
			}
		}
		return right, holdfast.Sleep(ctx, "leave", 100*time.Millisecond)
	})
	for i, v := range values {
		raw, err := json.Marshal(v)
		t.must(err)
		_, err = t.effects(nil).Begin(t.t.Context(), effect.Request{
			Step: execution.StepID{Execution: "somebody", Step: "else"}, ID: fmt.Sprint(true, i), Operation: "echo", Input: raw,
		})
		t.must(err)
	}
	t.steady(w)
	for _, pending := range []bool{false, true} {
		h, err := w.Start(t.t.Context(), t.f.client, pending)
		t.must(err)
		if right, err := h.Result(t.t.Context()); err != nil || right != len(values) {
			t.t.Errorf("pending before %t: %d values of %d came back, %v", pending, right, len(values), err)
		}
	}
}

type loop struct{ Next *loop }

type liar struct{}

func (liar) MarshalJSON() ([]byte, error) { return nil, errors.New("no") }

// effectInvalidValues: an input that is no JSON value is refused for good. Such a result
// is never kept: the provider has acted, and somebody has to mend the code.
func effectInvalidValues(t *till) {
	circle := &loop{}
	circle.Next = circle
	for name, v := range map[string]any{
		"a channel": make(chan int), "a function": func() {}, "not a number": math.NaN(), "infinite": math.Inf(1),
		"a circle": circle, "an error": liar{}, "no Unicode": json.RawMessage(`"\ud800"`), "beyond numbers": json.RawMessage(`1e999`),
		"deep": deep(8991), "twice": json.RawMessage(`{"a":1,"a":2}`),
	} {
		asked := newTill(t.t)
		asked.effect.Input = v
		asked.steady()
		asked.pays(asked.order(), "failed: "+effect.CodeInvalidRequest, 0, 0)

		said := newTill(t.t)
		said.effect.Perform = func(context.Context, any, string) (any, error) { return v, nil }
		said.steady()
		said.order()
		if why := said.released(); !contains(why, effect.CodeHandlerInvalid) {
			t.t.Errorf("%s: released because of %s", name, why)
		}
		said.none("steps", said.space.StepsOf("order"))
		if r, err := said.effects(nil).Get(t.t.Context(), charge); err != nil || r.Result != nil {
			t.t.Errorf("%s: kept %+v, %v", name, r, err)
		}
	}
}

// effectStaysUnfinished: while nobody knows, the step is recorded as not done, the effect
// as pending, and the execution as suspended until a time.
func effectStaysUnfinished(t *till) {
	t.performed = func(int) error { return errNoAnswer }
	t.found = func(n int) (effect.Found[any], error) { return effect.Found[any]{}, nil }
	t.steady()
	h := t.order()
	for range 3 {
		lookups := t.lookupsSoFar()
		t.f.eventually("another lookup, and the suspension after it", func() bool {
			return t.lookupsSoFar() > lookups && t.get("order").Status == execution.StatusSuspended
		})
		r := t.get("order")
		steps, err := t.Read(t.t.Context(), execution.Lease{ID: "order", Incarnation: r.Incarnation})
		if err != nil || len(steps) != 1 || steps[0].Done || steps[0].Attempt != 0 || string(steps[0].Response) != `{"v":1,"kind":"wait"}` ||
			steps[0].Waiter == nil || *steps[0].Waiter != (execution.StoreID{Name: "holdfast:effect", ID: charge}) {
			t.t.Errorf("recorded %+v, %v", steps, err)
		}
		if kept, err := t.effects(nil).Get(t.t.Context(), charge); err != nil || kept.Result != nil || r.Outcome != nil {
			t.t.Errorf("kept %+v, %v; outcome %+v", kept, err, r.Outcome)
		}
	}
	t.must(t.effects(nil).Settle(t.t.Context(), charge, "at last"))
	t.pays(h, "at last", 1, t.lookupsSoFar())
}

func (c *cashier) lookupsSoFar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lookups
}
