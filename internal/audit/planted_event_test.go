package audit_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// event names an event of the execution.
func (b *book) event(id, event string) keyspace.EventKey {
	s, _ := b.state(id)
	return keyspace.EventKey{ID: id, Incarnation: s.Incarnation, Name: "item", Event: event}
}

func (b *book) sent(k keyspace.EventKey) etcd.Event {
	return put(b.space.Event(k), (&record.Event{Sent: 2000, Digest: "d", Nonce: "send", Payload: []byte(`1`)}).Encode())
}

// send sends an event, with the wake that it asks for.
func (b *book) send(id, event string) {
	s, _ := b.state(id)
	if s.Claimed {
		b.txn(b.sent(b.event(id, event)), put(b.space.Wake(id), (&record.Wake{At: 2000}).Encode()))
		return
	}
	s.Due, s.Nonce = max(s.NotBefore, 2000), "send"
	b.write(id, s, b.sent(b.event(id, event)))
}

func (b *book) receiptOf(k keyspace.EventKey, step string, run int64) etcd.Event {
	_, token := b.state(k.ID)
	return put(b.space.Applied(k), (&record.Applied{Digest: "d", Run: run, Step: step, Token: execution.Token(token), Written: 2500}).Encode())
}

// apply lets a step of the first run apply the event.
func (b *book) apply(id, event, step string) {
	k := b.event(id, event)
	b.doneWith(id, step, del(b.space.Event(k)), b.receiptOf(k, step, 0))
}

// letters adds to a book of everything events of each sort: pending and applied ones of
// one that is claimed, one that wakes who slept, and those of one that has ended.
func (b *book) letters() {
	b.everything()
	b.send("claimed", "first")
	b.send("claimed", "second")
	b.send("claimed", "third")
	b.apply("claimed", "second", "await 1")
	b.apply("claimed", "first", "await 2")
	b.send("suspended", "wakes")
	b.send("taken", "in time")
	b.send("taken", "too late")
	b.apply("taken", "in time", "await")
	b.complete("taken")
}

func TestAuditAcceptsEvents(t *testing.T) {
	b := newBook(t)
	b.letters()
	accepted := func(when string) {
		t.Helper()
		for _, v := range append(b.check().Violations, b.replay.Violations()...) {
			t.Errorf("%s: %v", when, v)
		}
	}
	accepted("events of every sort")
	if r := b.check(); r.Keys[keyspace.KindEvent] != 3 || r.Keys[keyspace.KindApplied] != 3 {
		t.Errorf("counts: %v", r.Keys)
	}
	b.turn("claimed")
	accepted("the next run")
	for _, key := range b.keys(b.space.StepsOf("claimed")) {
		b.txn(del(key))
		accepted("the clean-up after the first run")
	}
	b.claim("claimed", "p1")
	b.apply2("claimed", "third", "await 1")
	accepted("the next run applies one that was sent before it")
	b.purge("taken")
	for _, key := range append(b.keys(b.space.EventsOf("taken", b.event("taken", "").Incarnation)), b.keys(b.space.AllApplied())...) {
		if k, err := b.space.Parse(key); err == nil && k.ID == "taken" {
			b.txn(del(key))
			accepted("a piece of a deletion")
		}
	}
	b.finish("taken")
	accepted("the deletion")
}

// apply2 is apply in the second run.
func (b *book) apply2(id, event, step string) {
	s, token := b.state(id)
	k := b.event(id, event)
	key := b.space.Step(keyspace.Step{ID: id, Incarnation: s.Incarnation, Run: 1, Key: step})
	b.txn(del(b.space.Event(k)), b.receiptOf(k, step, 1),
		put(key, (&record.Step{Done: true, Token: execution.Token(token), Response: []byte(`1`)}).Encode()))
}

func TestCheckFindsPlantedViolationsOfEvents(t *testing.T) {
	for _, c := range []planted{
		{"an event that was changed", audit.I10, "claimed", func(b *book) { b.txn(b.sent(b.event("claimed", "third"))) }},
		{"an event that is cut short", audit.Format, "claimed", func(b *book) { b.forge(b.space.Event(b.event("claimed", "third")), []byte(`{"v":1`)) }},
		{"a receipt that was changed", audit.I10, "claimed", func(b *book) {
			key := b.space.Applied(b.event("claimed", "first"))
			b.txn(put(key, b.kvs[key].Value))
		}},
		{"an event that is sent again after it was applied", audit.I10, "claimed", func(b *book) { b.send("claimed", "first") }},
		{"an event of nobody", audit.I6, "ghost", func(b *book) { b.txn(b.sent(keyspace.EventKey{ID: "ghost", Incarnation: 1, Name: "n", Event: "e"})) }},
		{"an event of an earlier incarnation", audit.I6, "claimed", func(b *book) {
			b.txn(b.sent(keyspace.EventKey{ID: "claimed", Incarnation: 1, Name: "n", Event: "e"}))
		}},
		{"an event after the end", audit.I10, "completed", func(b *book) { b.txn(b.sent(b.event("completed", "late"))) }},
		{"an event of an execution that is being deleted", audit.I10, "completed", func(b *book) {
			b.purge("completed")
			b.txn(b.sent(b.event("completed", "late")))
		}},
		{"a receipt of a run to come", audit.I6, "claimed", func(b *book) {
			b.txn(b.receiptOf(b.event("claimed", "new"), "await 3", 1))
		}},
		{"a receipt without its step", audit.I10, "claimed", func(b *book) {
			b.txn(b.receiptOf(b.event("claimed", "new"), "await 3", 0))
		}},
		{"a receipt beside another step", audit.I10, "claimed", func(b *book) {
			b.doneWith("claimed", "await 3", b.receiptOf(b.event("claimed", "new"), "await 4", 0))
		}},
		{"a receipt of an earlier token than its step", audit.I10, "claimed", func(b *book) {
			b.reword(b.space.Applied(b.event("claimed", "first")), `"token":`, `"token":1`)
		}},
		{"a deadline that nothing is due at", audit.I9, "suspended", func(b *book) {
			b.forgeState("suspended", func(s *record.State) { s.Deadline = 1500 })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.letters()
			if c.id == "suspended" {
				b.claim("suspended", "p1")
				b.suspend("suspended", 0)
			}
			c.plant(b)
			found := false
			for _, v := range b.check().Violations {
				if v.ID != c.id {
					t.Errorf("%v: of an execution that nothing was done to", v)
				}
				found = found || v.Invariant == c.invariant
			}
			if !found {
				t.Errorf("%v, want one of %s", b.check().Violations, c.invariant)
			}
		})
	}
}

// What a later snapshot no longer shows.
func TestReplayFindsWhatEventsCoverUp(t *testing.T) {
	for _, c := range []struct {
		name      string
		invariant audit.Invariant
		harm      func(b *book)
	}{
		{"an event that nobody applied was deleted", audit.I10, func(b *book) { b.txn(del(b.space.Event(b.event("claimed", "third")))) }},
		{"an event that was applied before was deleted", audit.I10, func(b *book) {
			b.send("claimed", "first")
			b.txn(del(b.space.Event(b.event("claimed", "first"))))
		}},
		{"an event that was not there was applied", audit.I10, func(b *book) { b.apply("claimed", "new", "await 3") }},
		{"a receipt that was deleted", audit.I10, func(b *book) { b.txn(del(b.space.Applied(b.event("claimed", "first")))) }},
		{"an event without a wake", audit.I9, func(b *book) {
			b.txn(del(b.space.Wake("claimed")))
			b.txn(b.sent(b.event("claimed", "new")))
		}},
		{"an event that wakes nobody", audit.I9, func(b *book) {
			b.claim("suspended", "p1")
			b.suspend("suspended", 0)
			b.txn(b.sent(b.event("suspended", "new")))
		}},
		{"an event after the end", audit.I9, func(b *book) { b.txn(b.sent(b.event("completed", "late"))) }},
		{"a deadline that was moved", audit.I5, func(b *book) {
			b.edit("admitted", func(s *record.State) { s.Deadline = 9000 })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.letters()
			if c.harm(b); !has(b.replay.Violations(), c.invariant) {
				t.Errorf("%v, want one of %s", b.replay.Violations(), c.invariant)
			}
		})
	}
}
