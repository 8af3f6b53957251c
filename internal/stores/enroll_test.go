package stores_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A desk enrolls a step, and notes what it was told.
type desk struct {
	note string // of a registration; empty: none is to be made
	told []string
}

func (d *desk) decide(now stores.Snapshot, earlier *stores.Registration) ([]byte, error) {
	told := fmt.Sprintf("%s at %d", now.State, now.Version)
	if earlier != nil {
		told += fmt.Sprintf(", %s of %s as %s", earlier.Note, earlier.Workflow, earlier.Step.Execution)
	}
	if d.told = append(d.told, told); d.note == "" {
		return nil, nil
	}
	return []byte(d.note), nil
}

func enrolling(s execution.StepID) stores.Waiter {
	return stores.Waiter{Store: counter, Step: s, Workflow: "w", Reads: everything}
}

// A registration stays until it is decided otherwise, and its step is woken by the next
// change, by which it goes.
func TestEnroll(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	b.create(counter, "0")
	b.add(counter, 5)
	var d desk
	for _, d.note = range []string{`"first"`, "", `"second"`} {
		if resolved, err := b.Enroll(t.Context(), enrolling(s), 1, d.decide); err != nil || resolved {
			t.Fatal(resolved, err)
		}
	}
	if want := []string{"5 at 1", `5 at 1, "first" of w as x`, `5 at 1, "first" of w as x`}; !slices.Equal(d.told, want) {
		t.Errorf("told %q", d.told)
	}
	all, err := b.Registrations(t.Context(), counter)
	if err != nil || len(all) != 1 || string(all[0].Note) != `"second"` || all[0].Step != s || all[0].Workflow != "w" {
		t.Errorf("registered: %+v, %v", all, err)
	}
	b.add(counter, 1)
	if b.wakes.of(s) != 1 {
		t.Errorf("woken %d times", b.wakes.of(s))
	}
	b.none(b.space.Waiters(), b.space.Outbox(), b.space.AllPulled())
}

// A wake that fails is owed, and the note hinders nobody.
func TestEnrolledWakeIsOwed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	b.create(counter, "0")
	d := desk{note: `"note"`}
	if _, err := b.Enroll(t.Context(), enrolling(s), 1, d.decide); err != nil {
		t.Fatal(err)
	}
	b.wakes.failing(func(context.Context, execution.StepID) error { return errReset })
	b.add(counter, 1)
	b.wakes.failing(nil)
	b.none(b.space.Waiters(), b.space.AllPulled())
	if n := len(b.keys(b.space.AllOwed())); n != 1 {
		t.Fatalf("%d wakes are owed", n)
	}
	b.must(b.Drain(t.Context(), counter))
	if b.wakes.of(s) != 1 {
		t.Errorf("woken %d times", b.wakes.of(s))
	}
	b.none(b.space.Outbox())
}

// What happens between the look and the registration is decided about anew.
func TestNothingIsMissedBeforeAnEnrolment(t *testing.T) {
	t.Parallel()
	for _, gap := range gaps {
		t.Run(gap.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s := b.admit("x")
			b.create(counter, "0")
			peer := b.peer(b.before(b.space.Waiter(storeKey(counter), callKey(s)), then(func() { gap.do(b) })))
			d := desk{note: `"note"`}
			resolved, err := peer.Enroll(t.Context(), enrolling(s), 0, d.decide)
			if gap.arm == "gone" {
				if !errors.Is(err, execution.ErrNotFound) || len(b.keys(b.space.Waiters())) != 0 {
					t.Fatalf("got %t, %v", resolved, err)
				}
				return
			}
			if err != nil || resolved || len(d.told) != 2 || d.told[1] != fmt.Sprintf("%s at %d", gap.arm, b.get(counter).Version) {
				t.Fatalf("got %t, %v; told %q", resolved, err, d.told)
			}
			b.add(counter, 1)
			if b.wakes.of(s) != 1 {
				t.Errorf("woken %d times", b.wakes.of(s))
			}
		})
	}
}

// The first registration stays, where the answer to it was lost too.
func TestUnansweredEnrolment(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	b.create(counter, "0")
	key := b.space.Waiter(storeKey(counter), callKey(s))
	calls := 0
	keep := func(_ stores.Snapshot, earlier *stores.Registration) ([]byte, error) {
		if calls++; earlier != nil {
			return nil, nil
		}
		return fmt.Appendf(nil, "%d", calls), nil
	}
	if _, err := b.peer(b.unanswered(key, nothing)).Enroll(t.Context(), enrolling(s), 0, keep); err != nil || calls != 2 {
		t.Fatal(calls, err)
	}
	if all, err := b.Registrations(t.Context(), counter); err != nil || len(all) != 1 || string(all[0].Note) != "1" {
		t.Errorf("registered: %+v, %v", all, err)
	}
}

// Nobody is enrolled whose step is answered, whose execution is deleted or whose run has
// ended, and nothing is where there is no store; nor is one of whom decide says so.
func TestEnrollRegistersNobody(t *testing.T) {
	t.Parallel()
	errDecided := errors.New("decided")
	for name, c := range map[string]struct {
		do       func(*bench, execution.StepID)
		resolved bool
		err      error
	}{
		"answered": {func(b *bench, s execution.StepID) {
			b.txn(etcd.Put{Key: b.space.Step(keyspace.Step{ID: "x", Incarnation: s.Incarnation, Key: s.Step, Attempt: 1})})
		}, true, nil},
		"deleted":     {func(b *bench, _ execution.StepID) { b.txn(etcd.Delete{Key: b.space.State("x")}) }, false, execution.ErrLost},
		"turned over": {func(b *bench, s execution.StepID) { b.turnOver(s) }, false, execution.ErrLost},
		"no store":    {func(b *bench, _ execution.StepID) { b.must(b.Delete(b.t.Context(), counter)) }, false, execution.ErrNotFound},
		"decided":     {func(*bench, execution.StepID) {}, false, errDecided},
	} {
		for _, late := range []bool{false, true} {
			b := newBench(t)
			s := b.admit("x")
			b.create(counter, "0")
			client := b.Client
			var hook *testetcd.Hook
			if late {
				hook = b.before(b.space.Waiter(storeKey(counter), callKey(s)), then(func() { c.do(b, s) }))
				client = b.peer(hook)
			} else {
				c.do(b, s)
			}
			resolved, err := client.Enroll(t.Context(), enrolling(s), 1, func(stores.Snapshot, *stores.Registration) ([]byte, error) {
				if name == "decided" {
					return nil, errDecided
				}
				return []byte(`1`), nil
			})
			if resolved != c.resolved || !errors.Is(err, c.err) {
				t.Errorf("%s, late %t: got %t, %v", name, late, resolved, err)
			}
			b.none(b.space.Waiters())
		}
	}
}

// A registration that can't be read is left out of the list, and not overwritten.
func TestUnreadableRegistration(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, other := b.admit("x"), b.admit("y")
	b.create(counter, "0")
	d := desk{note: `1`}
	if _, err := b.Enroll(t.Context(), enrolling(other), 0, d.decide); err != nil {
		t.Fatal(err)
	}
	key := b.space.Waiter(storeKey(counter), callKey(s))
	b.txn(etcd.Put{Key: key, Value: []byte("{")})
	if _, err := b.Enroll(t.Context(), enrolling(s), 0, d.decide); err == nil {
		t.Error("it was overwritten")
	}
	if all, err := b.Registrations(t.Context(), counter); err != nil || len(all) != 1 || all[0].Step != other {
		t.Errorf("registered: %+v, %v", all, err)
	}
	if _, err := b.Registrations(t.Context(), execution.StoreID{}); err == nil {
		t.Error("no store is accepted")
	}
}

// A note is no event to be pulled.
func TestEnrolledRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	snap := b.create(counter, "0")
	d := desk{note: `{"a":1}`}
	if _, err := b.Enroll(t.Context(), enrolling(s), 0, d.decide); err != nil {
		t.Fatal(err)
	}
	res, _, err := b.store.Get(t.Context(), etcd.Get{Key: b.space.Waiter(storeKey(counter), callKey(s))})
	b.must(err)
	kv, _ := res.One()
	rec, err := record.DecodeWaiter(kv.Value)
	if err != nil || rec.Pulled || string(rec.Event) != d.note || rec.Instance != snap.Instance || rec.Since != 0 || string(rec.Paths) != `[[]]` || rec.Workflow != "w" {
		t.Errorf("got %+v, %v", rec, err)
	}
}

// A registration goes if it is over, and one that is made meanwhile stays.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	yes := func(stores.Registration) bool { return true }
	for name, c := range map[string]struct {
		over func(*bench, execution.StepID) func(stores.Registration) bool
		left int
	}{
		"over": {func(*bench, execution.StepID) func(stores.Registration) bool { return yes }, 0},
		"not over": {func(*bench, execution.StepID) func(stores.Registration) bool {
			return func(r stores.Registration) bool { return string(r.Note) != `"note"` || r.Workflow != "w" }
		}, 1},
		"made anew": {func(b *bench, s execution.StepID) func(stores.Registration) bool {
			return func(stores.Registration) bool { b.wait(s, counter, ""); return true }
		}, 1},
	} {
		b := newBench(t)
		s := b.admit("x")
		b.create(counter, "0")
		b.must(b.Withdraw(t.Context(), counter, s, yes)) // there is none
		d := desk{note: `"note"`}
		if _, err := b.Enroll(t.Context(), enrolling(s), 0, d.decide); err != nil {
			t.Fatal(err)
		}
		b.must(b.Withdraw(t.Context(), counter, s, c.over(b, s)))
		if n := len(b.keys(b.space.Waiters())); n != c.left {
			t.Errorf("%s: %d registrations are left", name, n)
		}
		if b.Withdraw(t.Context(), counter, execution.StepID{}, yes) == nil {
			t.Error("no step is accepted")
		}
	}
}
