package audit_test

import (
	"strconv"
	"testing"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func endingOf(id string) keyspace.StoreKey {
	return keyspace.StoreKey{Name: "holdfast:execution", ID: id}
}

// awaitEnd registers the step at the end of the execution.
func (b *book) awaitEnd(id string, call keyspace.CallKey) {
	s, _ := b.state(id)
	w := record.Waiter{Instance: strconv.FormatInt(s.Incarnation, 10), Paths: []byte(`[[]]`)}
	b.txn(put(b.space.Waiter(endingOf(id), call), w.Encode()))
}

// notice tells of the end of the execution if anybody waits for it.
func (b *book) notice(id string) []etcd.Event {
	if len(b.keys(b.space.WaitersOf(endingOf(id)))) == 0 {
		return nil
	}
	s, _ := b.state(id)
	return []etcd.Event{b.noticeOf(id, s.Incarnation)}
}

func (b *book) noticeOf(id string, inc int64) etcd.Event {
	c := record.Change{Instance: strconv.FormatInt(inc, 10), Version: inc, Paths: []byte(`[[]]`)}
	return put(b.space.Change(endingOf(id), inc), c.Encode())
}

// start admits an execution on behalf of a step.
func (b *book) start(call keyspace.CallKey, id string) string {
	s := &record.State{Workflow: "w", Queue: "q", Base: execution.StatusAdmitted, Due: 1000, Nonce: "start"}
	key := b.space.Start(call)
	b.write(id, s, put(b.space.Spec(id), (&record.Spec{Workflow: "w", Queue: "q", Admitted: 1000, Nonce: "start"}).Encode()), b.started(key, id))
	return key
}

func (b *book) started(key, id string) etcd.Event {
	return put(key, (&record.Start{Target: id, Workflow: "w", Params: []byte(`1`)}).Encode())
}

// family adds to a book of everything what the one that is claimed has started: a child
// that goes on and is waited for, one that has ended, so that its parent is to be woken,
// and one that was deleted, whose id another has now.
func (b *book) family() {
	b.everything()
	for _, id := range []string{"going on", "ended", "deleted"} {
		b.start(b.call("claimed", "start "+id), id)
		b.awaitEnd(id, b.call("claimed", "wait for "+id))
		if id != "going on" {
			b.claim(id, "p1")
			b.complete(id)
		}
	}
	b.purge("deleted")
	b.finish("deleted")
	b.admit("deleted")
}

func TestAuditAcceptsStarts(t *testing.T) {
	b := newBook(t)
	b.family()
	accepted := func(when string) {
		t.Helper()
		for _, v := range append(b.check().Violations, b.replay.Violations()...) {
			t.Errorf("%s: %v", when, v)
		}
	}
	accepted("children of every sort")
	if r := b.check(); r.Keys[keyspace.KindStart] != 3 || r.Keys[keyspace.KindWaiter] != 3 || r.Keys[keyspace.KindChange] != 2 {
		t.Errorf("counts: %v", r.Keys)
	}
	for _, id := range []string{"ended", "deleted"} {
		for _, span := range []keyspace.Span{b.space.WaitersOf(endingOf(id)), b.space.ChangesOf(endingOf(id))} {
			for _, key := range b.keys(span) {
				b.txn(del(key))
				accepted("a parent is woken")
			}
		}
	}
	b.awaitEnd("deleted", b.call("claimed", "wait for another"))
	b.turn("claimed")
	b.claim("claimed", "p1")
	for _, key := range append(b.keys(b.space.StartsOf("claimed")), b.keys(b.space.StepsOf("claimed"))...) {
		b.txn(del(key))
	}
	accepted("the parent went on as another run")
	call := b.call("claimed", "again")
	call.Run = 1
	b.start(call, "of the second run")
	accepted("it starts another one")
}

func TestCheckFindsPlantedViolationsOfStarts(t *testing.T) {
	first := func(b *book) string { return b.space.Start(b.call("claimed", "start going on")) }
	for _, c := range []planted{
		{"a start that was changed", audit.I10, "claimed", func(b *book) { b.txn(put(first(b), b.kvs[first(b)].Value)) }},
		{"a start that is cut short", audit.Format, "claimed", func(b *book) { b.forge(first(b), []byte(`{"v":1`)) }},
		{"a start of nobody", audit.I6, "ghost", func(b *book) { b.start(keyspace.CallKey{ID: "ghost", Incarnation: 1, Step: "s"}, "new") }},
		{"a start of an earlier incarnation", audit.I6, "claimed", func(b *book) {
			b.start(keyspace.CallKey{ID: "claimed", Incarnation: 1, Step: "s"}, "new")
		}},
		{"a start of a run to come", audit.I6, "claimed", func(b *book) {
			call := b.call("claimed", "s")
			call.Run = 1
			b.start(call, "new")
		}},
		{"a start of an execution that is being deleted", audit.I10, "completed", func(b *book) {
			b.purge("completed")
			b.start(b.call("completed", "s"), "new")
		}},
		{"a start of an execution that was there", audit.I10, "claimed", func(b *book) {
			b.txn(b.started(b.space.Start(b.call("claimed", "s")), "admitted"))
		}},
		{"a notice of another version than its key", audit.Format, "ended", func(b *book) {
			b.reword(b.keys(b.space.ChangesOf(endingOf("ended")))[0], `"instance":"`, `"instance":"1`)
		}},
		{"a notice of an end that has not been", audit.I9, "going on", func(b *book) {
			b.txn(b.noticeOf("going on", b.call("going on", "").Incarnation))
		}},
		{"a wait for an end that nobody tells of", audit.I9, "claimed", func(b *book) {
			b.txn(del(b.keys(b.space.ChangesOf(endingOf("ended")))[0]))
		}},
		{"a wait for an end that was deleted", audit.I9, "claimed", func(b *book) {
			b.txn(del(b.keys(b.space.ChangesOf(endingOf("deleted")))[0]))
		}},
		{"a wait for nobody", audit.I9, "claimed", func(b *book) {
			w := record.Waiter{Instance: "7", Paths: []byte(`[[]]`)}
			b.txn(put(b.space.Waiter(endingOf("ghost"), b.call("claimed", "wait")), w.Encode()))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.family()
			c.plant(b)
			found := false
			for _, v := range b.check().Violations {
				if v.ID != c.id && v.ID != "claimed" {
					t.Errorf("%v: of an execution that nothing was done to", v)
				}
				found = found || v.Invariant == c.invariant && v.ID == c.id
			}
			if !found {
				t.Errorf("%v, want one of %s", b.check().Violations, c.invariant)
			}
		})
	}
}

// What a later snapshot no longer shows.
func TestReplayFindsWhatStartsCoverUp(t *testing.T) {
	for _, c := range []struct {
		name      string
		invariant audit.Invariant
		harm      func(b *book)
	}{
		{"a start without an admission", audit.I10, func(b *book) {
			b.txn(b.started(b.space.Start(b.call("claimed", "s")), "new"))
			b.admit("new")
		}},
		{"a start of a run that has ended", audit.I10, func(b *book) {
			call := b.call("claimed", "late")
			b.turn("claimed")
			b.start(call, "new")
		}},
		{"a start that was deleted", audit.I10, func(b *book) { b.txn(del(b.space.Start(b.call("claimed", "start ended")))) }},
		{"an end without a notice", audit.I9, func(b *book) {
			b.claim("going on", "p1")
			b.end("going on", execution.HowCompleted, func(s *record.State) {
				s.Base, s.Outcome, s.Result = execution.StatusCompleted, execution.Completed, []byte(`1`)
				s.Unacked, s.NotBefore, s.Due, s.Ended = 0, 0, 0, 3000
			}, put(b.space.Done(unix(3000), "going on"), nil))
			b.txn(b.notice("going on")...)
		}},
		{"a registration at an end that has been", audit.I9, func(b *book) {
			b.awaitEnd("completed", b.call("claimed", "wait"))
			b.txn(b.notice("completed")...)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.family()
			if c.harm(b); !has(b.replay.Violations(), c.invariant) {
				t.Errorf("%v, want one of %s", b.replay.Violations(), c.invariant)
			}
		})
	}
}
