package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/effect"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// The effect of these tests.
const charge = "charge/42"

// A desk is a client of a stage's effects, as another process would have one.
type desk struct {
	*client
	stores *store.Client
}

func (d *desk) Stores() *store.Client { return d.stores }

func (d *desk) Wake(ctx context.Context, id string, at time.Time) error {
	return d.RequestWake(ctx, execution.ID(id), at)
}

// effects returns such a client, whose requests go through the hook, if any.
func (s *stage) effects(hook *testetcd.Hook) *effect.Client {
	s.t.Helper()
	d := &desk{client: s.caller(hook)}
	conn := s.store
	if hook != nil {
		conn = hook
	}
	protocol, err := stores.New(stores.Config{Store: conn, Space: s.space, Wake: func(ctx context.Context, step execution.StepID) error {
		return d.RequestWake(ctx, step.Execution, time.Now())
	}})
	s.must(err)
	d.stores = stores.NewAccess(protocol)
	return effect.NewClient(d)
}

// idle admits an execution that comes to a suspension, and returns a step of it.
func (s *stage) idle(id execution.ID) execution.StepID {
	s.t.Helper()
	d := s.begin(id)
	s.acknowledge(d.Lease, execution.Outcome{Kind: execution.Suspended})
	return stepOf(d.Lease, "act")
}

// charging asks for the effect of these tests.
func charging(step execution.StepID, operation, input string) effect.Request {
	return effect.Request{Step: step, ID: charge, Operation: operation, Input: json.RawMessage(input)}
}

// begun begins the effect of these tests, or reads it.
func (s *stage) begun(step execution.StepID) effect.Begun {
	s.t.Helper()
	b, err := s.effects(nil).Begin(s.t.Context(), charging(step, "charge-card", `{"cents":1,"card":"x"}`))
	s.must(err)
	return b
}

func waitingUntil(step execution.StepID, at time.Time) effect.Waiting {
	return effect.Waiting{Effect: charge, Step: step, Workflow: "pay", Params: json.RawMessage(`{"order":42}`), WakeAt: at}
}

func (s *stage) waits(step execution.StepID, at time.Time) effect.Waited {
	s.t.Helper()
	w, err := s.effects(nil).Wait(s.t.Context(), waitingUntil(step, at))
	s.must(err)
	return w
}

func waiterKey(s *stage, step execution.StepID) string {
	return s.space.Waiter(keyspace.StoreKey{Name: "holdfast:effect", ID: charge},
		keyspace.CallKey{ID: string(step.Execution), Incarnation: step.Incarnation, Run: step.Run, Step: step.Step})
}

func effectKey(s *stage) string {
	return s.space.Store(keyspace.StoreKey{Name: "holdfast:effect", ID: charge})
}

// dueAt demands when the execution is due.
func (s *stage) dueAt(id execution.ID, at time.Time) {
	s.t.Helper()
	if r := s.get(id); !r.Due.Equal(at) {
		s.t.Errorf("%q is due at %v, want %v", string(id), r.Due, at)
	}
}

// dueNow demands that it is due at once.
func (s *stage) dueNow(id execution.ID) {
	s.t.Helper()
	if r := s.get(id); r.Due.IsZero() || r.Due.After(time.Now()) {
		s.t.Errorf("%q is due at %v, want at once", string(id), r.Due)
	}
}

func code(err error) string {
	if own, is := errors.AsType[*effect.Error](err); is {
		return own.Code()
	}
	return fmt.Sprint(err)
}

// later is a time in whole milliseconds at which no test is still running.
func later() time.Time { return time.Now().Add(time.Hour).Truncate(time.Millisecond) }

// TestEffectAdapter: what is kept of effects, on real etcd.
func TestEffectAdapter(t *testing.T) {
	t.Parallel()
	for slug, run := range map[string]func(*stage){
		"begin-create-and-read":   effectBegin,
		"begin-changed":           effectBeginChanged,
		"equal-settles":           effectEqualSettles,
		"different-settles":       effectDifferentSettles,
		"failure-before-wait":     effectFailureBeforeWait,
		"wait-response-lost":      effectWaitResponseLost,
		"wait-other-event":        effectWaitOtherEvent,
		"settle-wait-race":        effectSettleWaitRace,
		"restart-with-wakes":      effectRestartWithWakes,
		"scheduler-response-lost": effectSchedulerResponseLost,
	} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			run(newStage(t))
		})
	}
}

// effectBegin: the first begin creates a pending effect, and all others read it, for
// other executions too, and after it is settled.
func effectBegin(s *stage) {
	order, other := s.idle("order"), s.idle("other")
	if b := s.begun(order); !b.New || b.Result != nil {
		s.t.Errorf("first: %+v", b)
	}
	for _, step := range []execution.StepID{order, other} {
		if b := s.begun(step); b.New || b.Result != nil {
			s.t.Errorf("again, by %q: %+v", string(step.Execution), b)
		}
	}
	r, err := s.effects(nil).Get(s.t.Context(), charge)
	if err != nil || r.Operation != "charge-card" || string(r.Input) != `{"card":"x","cents":1}` || r.Begun.Execution != "order" || r.Result != nil {
		s.t.Errorf("kept: %+v, %v", r, err)
	}
	s.must(s.effects(nil).Settle(s.t.Context(), charge, "receipt"))
	if b := s.begun(other); b.New || b.Result == nil || string(b.Result.Value) != `"receipt"` {
		s.t.Errorf("settled: %+v", b)
	}
	s.must(s.Cancel(s.t.Context(), "order", "by an operator"))
	s.must(s.Delete(s.t.Context(), "order"))
	if b := s.begun(other); b.New || b.Result == nil {
		s.t.Errorf("after the deletion of who began it: %+v", b)
	}
	_, err = s.effects(nil).Begin(s.t.Context(), charging(order, "charge-card", `1`))
	s.lost(err)
}

// effectBeginChanged: an id means one operation with one input, whatever the order of
// members; anything else is refused, and changes nothing.
func effectBeginChanged(s *stage) {
	order := s.idle("order")
	s.begun(order)
	for range 2 {
		before := s.all()
		for name, c := range map[string]struct{ operation, input, want string }{
			"the same":          {"charge-card", ` { "card":"\u0078", "cents":1.0 } `, "<nil>"},
			"another operation": {"refund", `{"cents":1,"card":"x"}`, effect.CodeMismatch},
			"another input":     {"charge-card", `{"cents":2,"card":"x"}`, effect.CodeMismatch},
			"a member more":     {"charge-card", `{"cents":1,"card":"x","tip":null}`, effect.CodeMismatch},
			"no JSON":           {"charge-card", `{`, effect.CodeInvalidRequest},
			"no operation":      {"", `1`, effect.CodeInvalidRequest},
		} {
			if _, err := s.effects(nil).Begin(s.t.Context(), charging(order, c.operation, c.input)); code(err) != c.want {
				s.t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		}
		if after := s.all(); after != before {
			s.t.Errorf("refusals changed\n%s\nto\n%s", before, after)
		}
		s.must(s.effects(nil).Settle(s.t.Context(), charge, 1)) // and once more
	}
}

// settleAll settles the effect from many sides at once, and returns what each was told.
func (s *stage) settleAll(values ...any) []error {
	s.t.Helper()
	told := make([]error, len(values))
	var all sync.WaitGroup
	for i, v := range values {
		c := s.effects(nil)
		all.Go(func() { told[i] = c.Settle(s.t.Context(), charge, v) })
	}
	all.Wait()
	return told
}

// effectEqualSettles: whoever brings the result that counts has settled the effect.
func effectEqualSettles(s *stage) {
	s.begun(s.idle("order"))
	type receipt map[string]any
	for i, err := range s.settleAll(receipt{"n": 1, "of": "x"}, receipt{"of": "x", "n": 1.0}, json.RawMessage(` {"of":"x","n":1e0}`)) {
		if err != nil {
			s.t.Errorf("settle %d: %v", i, err)
		}
	}
	if all, err := s.effects(nil).Conflicts(s.t.Context()); err != nil || len(all) != 0 {
		s.t.Errorf("conflicts: %+v, %v", all, err)
	}
	if snap, err := s.stores().Get(s.t.Context(), execution.StoreID{Name: "holdfast:effect", ID: charge}); err != nil || snap.Version != 1 {
		s.t.Errorf("version %d, %v; want one change", snap.Version, err)
	}
}

// effectDifferentSettles: the first one stays, and every other is reported once.
func effectDifferentSettles(s *stage) {
	step := s.idle("order")
	s.begun(step)
	told := s.settleAll("a", "b", "c", "d")
	won := *s.begun(step).Result
	conflicts := 0
	for i, err := range told {
		conflict, is := errors.AsType[*effect.ConflictError](err)
		switch {
		case err == nil && string(won.Value) == fmt.Sprintf("%q", []string{"a", "b", "c", "d"}[i]):
		case is && string(conflict.Result.Value) == string(won.Value):
			conflicts++
		default:
			s.t.Errorf("settle %d: %v, and %s has won", i, err, won.Value)
		}
	}
	before := s.keysOf(s.space.Stores("holdfast:effect"))
	err := s.effects(nil).SettleAs(s.t.Context(), step, charge, effect.Result{Value: json.RawMessage(`"e"`)})
	if _, is := errors.AsType[*effect.ConflictError](err); !is {
		s.t.Errorf("a late one: %v", err)
	}
	if b := s.begun(step); string(b.Result.Value) != string(won.Value) || len(before) != 1 {
		s.t.Errorf("%s became %s", won.Value, b.Result.Value)
	}
	all, err := s.effects(nil).Conflicts(s.t.Context())
	if err != nil || conflicts != 3 || len(all) != 1 || len(all[0].Reports) != 4 || string(all[0].Result.Value) != string(won.Value) {
		s.t.Fatalf("%d conflicts, reported %+v, %v", conflicts, all, err)
	}
	if last := all[0].Reports[3]; string(last.Result.Value) != `"e"` || last.By.Execution != "order" || last.By.Step != "act" {
		s.t.Errorf("the last report: %+v", last)
	}
}

// effectFailureBeforeWait: a wait that did not get through has registered nobody, and
// the same call again does.
func effectFailureBeforeWait(s *stage) {
	step, at := s.idle("order"), later()
	s.begun(step)
	failing := s.effects(&testetcd.Hook{BeforeTxn: func(txn *etcd.Txn) error {
		if writes(txn, waiterKey(s, step)) {
			return etcd.ErrClosed
		}
		return nil
	}})
	if _, err := failing.Wait(s.t.Context(), waitingUntil(step, at)); code(err) != effect.CodeUnavailable {
		s.t.Errorf("the first try: %v", err)
	}
	s.none("registrations", s.space.Waiters())
	if w := s.waits(step, at); !w.WakeAt.Equal(at) || w.Settled || w.Resolved {
		s.t.Errorf("the second try: %+v", w)
	}
	if n := len(s.keysOf(s.space.Waiters())); n != 1 {
		s.t.Errorf("%d registrations", n)
	}
	s.dueAt("order", at)
}

// effectWaitResponseLost: a repeated wait is told the first time, and adds nothing.
func effectWaitResponseLost(s *stage) {
	step, at := s.idle("order"), later()
	s.begun(step)
	w, err := s.effects(unanswered(waiterKey(s, step), func() {})).Wait(s.t.Context(), waitingUntil(step, at))
	if err != nil || !w.WakeAt.Equal(at) {
		s.t.Errorf("unanswered: %+v, %v", w, err)
	}
	before := s.all()
	for _, other := range []time.Time{at, at.Add(time.Minute)} {
		if w := s.waits(step, other); !w.WakeAt.Equal(at) || w.Settled {
			s.t.Errorf("again: %+v", w)
		}
	}
	if after := s.all(); after != before {
		s.t.Errorf("the repetition changed\n%s\nto\n%s", before, after)
	}
	s.dueAt("order", at)
}

// effectWaitOtherEvent: a registration is not taken over by another workflow, or by one
// with other params.
func effectWaitOtherEvent(s *stage) {
	step, at := s.idle("order"), later()
	s.begun(step)
	s.waits(step, at)
	key := waiterKey(s, step)
	first, _ := s.key(key)
	for name, spoil := range map[string]func(*effect.Waiting){
		"another workflow": func(w *effect.Waiting) { w.Workflow = "refund" },
		"other params":     func(w *effect.Waiting) { w.Params = json.RawMessage(`{"order":43}`) },
		"no params":        func(w *effect.Waiting) { w.Params = nil },
	} {
		w := waitingUntil(step, at.Add(time.Minute))
		spoil(&w)
		if _, err := s.effects(nil).Wait(s.t.Context(), w); code(err) != effect.CodeWaiterMismatch {
			s.t.Errorf("%s: %v", name, err)
		}
		if kv, _ := s.key(key); kv.Modified != first.Modified {
			s.t.Errorf("%s: the registration has changed", name)
		}
	}
	same := waitingUntil(step, at)
	same.Params = json.RawMessage(` { "order" : 42.0 } `)
	if w, err := s.effects(nil).Wait(s.t.Context(), same); err != nil || !w.WakeAt.Equal(at) {
		s.t.Errorf("the same in other words: %+v, %v", w, err)
	}
}

// effectSettleWaitRace: whichever comes first, nobody is left registered, and the one
// who waits is due at once.
func effectSettleWaitRace(s *stage) {
	settle := func() { s.must(s.effects(nil).Settle(s.t.Context(), charge, 1)) }
	over := func(id execution.ID) {
		s.none("registrations", s.space.Waiters())
		s.none("wakes that are owed", s.space.Outbox())
		s.dueNow(id)
	}
	forget := func() {
		s.must(s.stores().Delete(s.t.Context(), execution.StoreID{Name: "holdfast:effect", ID: charge}))
	}
	tooLate, afterwards, first := s.idle("too-late"), s.idle("afterwards"), s.idle("first")
	var many []execution.StepID
	for i := range 20 {
		many = append(many, s.idle(execution.ID(fmt.Sprint(i))))
	}
	s.begun(tooLate)
	w, err := s.effects(before(waiterKey(s, tooLate), settle)).Wait(s.t.Context(), waitingUntil(tooLate, later()))
	if err != nil || !w.Settled || w.WakeAt.After(time.Now()) {
		s.t.Errorf("a wait that is late: %+v, %v", w, err)
	}
	over("too-late")
	if w := s.waits(afterwards, later()); !w.Settled {
		s.t.Errorf("a wait for what is settled: %+v", w)
	}
	over("afterwards")
	forget()

	s.begun(first)
	s.must(s.effects(before(effectKey(s), func() { s.waits(first, later()) })).Settle(s.t.Context(), charge, 1))
	over("first")
	forget()

	s.begun(first)
	var all sync.WaitGroup
	for _, step := range many {
		all.Go(func() { s.waits(step, later()) })
	}
	all.Go(settle)
	all.Wait()
	for _, step := range many {
		over(step.Execution)
	}
}

// effectRestartWithWakes: what one process has asked for is carried out by another one:
// the scheduled wake, and the wake of a settlement whose process died.
func effectRestartWithWakes(s *stage) {
	step, other := s.idle("order"), s.idle("other")
	s.begun(step)
	at := later()
	s.waits(step, at)
	if d, early := s.claimAt(s.caller(nil), at.Add(-time.Minute)); early {
		s.t.Errorf("%q was claimed before its time", string(d.ID))
	}
	d, due := s.claimAt(s.caller(nil), at)
	if !due || d.ID != "order" {
		s.t.Fatalf("claimed at its time: %t, %q", due, string(d.ID))
	}
	s.acknowledge(d.Lease, execution.Outcome{Kind: execution.Suspended})
	s.waits(other, at)
	dead := false
	hook := &testetcd.Hook{BeforeTxn: func(*etcd.Txn) error { return map[bool]error{true: etcd.ErrClosed}[dead] }}
	hook.BeforeGet = func(etcd.Get) error { return hook.BeforeTxn(nil) }
	hook.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		dead = dead || writes(txn, effectKey(s))
		return res, err
	}
	s.must(s.effects(hook).Settle(s.t.Context(), charge, 1)) // and wakes nobody
	s.dueAt("other", at)
	s.must(s.stores().Drain(s.t.Context(), execution.StoreID{Name: "holdfast:effect", ID: charge})) // as every worker does
	s.dueNow("order")
	s.dueNow("other")
	s.none("registrations", s.space.Waiters())
}

// effectSchedulerResponseLost: where the answer to the request for the wake is lost, the
// request is repeated: one delivery comes of it.
func effectSchedulerResponseLost(s *stage) {
	step, at := s.idle("order"), later()
	s.begun(step)
	w, err := s.effects(unanswered(s.space.State("order"), func() {})).Wait(s.t.Context(), waitingUntil(step, at))
	if err != nil || !w.WakeAt.Equal(at) {
		s.t.Errorf("%+v, %v", w, err)
	}
	s.dueAt("order", at)
	d, due := s.claimAt(s.caller(nil), at)
	if !due {
		s.t.Fatal("it is not due at its time")
	}
	s.acknowledge(d.Lease, execution.Outcome{Kind: execution.Suspended})
	s.dueAt("order", time.Time{})
}
