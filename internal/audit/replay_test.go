package audit_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestReplayAcceptsEveryCorrectHistory(t *testing.T) {
	b := newBook(t)
	b.everything()
	for i := range 2 * record.HistoryLimit { // the history forgets
		if b.claim("admitted", "p1"); i%3 == 0 {
			b.fence("admitted")
		} else {
			b.release("admitted")
		}
	}
	b.claim("reaped", "p1")
	b.suspend("reaped", 7000)
	s, _ := b.state("reaped")
	s.Due = 5000
	b.write("reaped", s) // a wake of an execution that is not claimed
	b.wake("claimed", 8000)
	b.wake("claimed", 7000)
	b.suspend("claimed", 7000)
	if v := b.replay.Violations(); len(v) != 0 || b.replay.Stale() != 0 || b.replay.Revision() != b.revision {
		t.Errorf("%v, %d stale, revision %d; want none and %d", v, b.replay.Stale(), b.replay.Revision(), b.revision)
	}
	if r := b.check(); !r.OK() {
		t.Errorf("%v, want no violation", r.Violations)
	}
}

// These are fenced writes that a store without fencing would have accepted.
func TestReplayCountsAcceptedStaleWrites(t *testing.T) {
	for name, write := range map[string]func(b *book){
		"a step after a takeover": func(b *book) {
			s, _ := b.state("taken")
			b.step("taken", "late", s.Deliveries[0].Token)
		},
		"a step after a release": func(b *book) {
			s, _ := b.state("released")
			b.step("released", "late", s.Deliveries[0].Token)
		},
		"a step after the outcome": func(b *book) {
			s, _ := b.state("completed")
			b.step("completed", "late", s.Deliveries[0].Token)
		},
		"a step with a token that nobody was given": func(b *book) {
			_, token := b.state("claimed")
			b.step("claimed", "forged", execution.Token(token)+1)
		},
		"a step of no execution": func(b *book) {
			key := b.space.StepsOf("ghost").Start + "0000000000000000001/0000000000/k/0000000000"
			b.txn(put(key, (&record.Step{Token: 1}).Encode()))
		},
		"an acknowledgement after a takeover": func(b *book) {
			stale, _ := b.state("taken") // as the holder that lost it knew it
			token := stale.Deliveries[0].Token
			stale.Deliveries = stale.Deliveries[:1]
			stale.Deliveries[0].How, stale.Deliveries[0].Token = execution.HowSuspended, token
			stale.Claimed, stale.Claims, stale.Unacked, stale.Due = false, 1, 0, 0
			stale.Base = execution.StatusSuspended
			b.write("taken", stale, del(b.space.Live("taken")))
		},
		"a release after a release": func(b *book) {
			s, _ := b.state("released")
			s.Deliveries[0].Ended++
			s.Unacked++
			b.write("released", s)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.everything()
			write(b)
			if b.replay.Stale() != 1 {
				t.Errorf("%d stale writes, want 1: %v", b.replay.Stale(), b.replay.Violations())
			}
			if v := b.replay.Violations(); len(v) == 0 || !has(v, audit.I3) {
				t.Errorf("%v, want one of I3", v)
			}
		})
	}
}

func has(vs []audit.Violation, i audit.Invariant) bool {
	for _, v := range vs {
		if v.Invariant == i {
			return true
		}
	}
	return false
}

// What a later snapshot no longer shows.
func TestReplayFindsWhatWasCoveredUp(t *testing.T) {
	for _, c := range []struct {
		name      string
		invariant audit.Invariant
		harm      func(b *book)
	}{
		{"two claims counted as one", audit.I1, func(b *book) {
			s, _ := b.state("admitted")
			s.Claimed, s.Claims = true, 0
			s.Append(record.Delivery{Proc: "p1", How: execution.HowRunning})
			b.write("admitted", s, put(b.space.Live("admitted"), (&record.Live{Token: record.Own, Proc: "p1"}).Encode()))
		}},
		{"taken over from a process that is there", audit.I2, func(b *book) { b.claim("claimed", "p1") }},
		{"reaped after it was renewed", audit.I2, func(b *book) {
			b.expire("p1")
			stale := b.kvs[b.space.Live("claimed")]
			s, rev := b.state("claimed")
			b.txn(put(stale.Key, (&record.Live{Token: rev, Proc: "p3"}).Encode()))
			l, err := record.DecodeLive(stale.Value, stale.Modified)
			if err != nil {
				b.t.Fatal(err)
			}
			l.Expired, l.Reaped = 4000, 6000
			due := record.Due{StateRevision: rev, LiveRevision: record.Own, Expired: 4000}
			b.txn(put(stale.Key, l.Encode()), put(b.due("claimed", 6000), due.Encode(s)))
		}},
		{"live missing for one revision", audit.I2, func(b *book) {
			kv := b.kvs[b.space.Live("claimed")]
			b.txn(del(kv.Key))
			b.txn(put(kv.Key, kv.Value))
		}},
		{"a step deleted", audit.I5, func(b *book) {
			for key := range b.kvs {
				if k, err := b.space.Parse(key); err == nil && k.Kind == "step" && k.ID == "claimed" {
					b.txn(del(key))
				}
			}
		}},
		{"an outcome replaced by another", audit.I5, func(b *book) {
			s, _ := b.state("completed")
			s.Result = []byte("2")
			b.write("completed", s)
		}},
		{"due without an entry for one revision", audit.I6, func(b *book) {
			kv := b.kvs[b.entry("reaped")]
			b.txn(del(kv.Key))
			b.reap("reaped")
		}},
		{"the counter reset by a claim", audit.I7, func(b *book) {
			s, _ := b.state("released")
			s.Unacked, s.Claimed = 0, true
			s.Claims++
			s.Append(record.Delivery{Proc: "p1", How: execution.HowRunning})
			b.write("released", s, put(b.space.Live("released"), (&record.Live{Token: record.Own, Proc: "p1"}).Encode()))
		}},
		{"taken over without a delay", audit.I8, func(b *book) {
			b.expire("p1")
			b.proc("p3")
			b.claim("claimed", "p3")
		}},
		{"the delay forgotten", audit.I8, func(b *book) {
			s, _ := b.state("released")
			s.NotBefore = 1
			b.write("released", s)
		}},
		{"a wake forgotten", audit.I9, func(b *book) { b.suspend("woken", 0) }},
		{"a wake put off by the acknowledgement", audit.I9, func(b *book) { b.suspend("woken", 9999) }},
		{"a wake put off by another", audit.I9, func(b *book) { b.wake("woken", 9999) }},
		{"a wake dropped", audit.I9, func(b *book) { b.txn(del(b.space.Wake("woken"))) }},
		{"due, then never", audit.I9, func(b *book) {
			s, _ := b.state("admitted")
			s.Due = 0
			b.write("admitted", s)
		}},
		{"released, and not due", audit.I9, func(b *book) {
			b.end("claimed", execution.HowReleased, func(s *record.State) { s.Unacked, s.NotBefore, s.Due = 1, 5000, 0 })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.everything()
			if c.harm(b); !has(b.replay.Violations(), c.invariant) {
				t.Errorf("%v, want one of %s", b.replay.Violations(), c.invariant)
			}
		})
	}
}

func TestReplayTakesManyRevisionsInOneBatch(t *testing.T) {
	b := newBook(t)
	b.everything()
	late, _ := b.state("taken")
	b.step("taken", "late", late.Deliveries[0].Token)
	replay := audit.NewReplay(b.space)
	replay.Apply(etcd.Batch{Events: b.events})
	replay.Apply(etcd.Batch{})
	if replay.Revision() != b.revision || replay.Stale() != 1 || len(replay.Violations()) != len(b.replay.Violations()) {
		t.Errorf("revision %d, %d stale, %v; want %d, 1, %v",
			replay.Revision(), replay.Stale(), replay.Violations(), b.revision, b.replay.Violations())
	}
}

func TestReplayFollowsADeletionAndANewIncarnation(t *testing.T) {
	b := newBook(t)
	b.everything()
	b.purge("completed")
	b.finish("completed")
	b.admit("completed")
	b.step("completed", "one", b.claim("completed", "p1"))
	if v := b.replay.Violations(); len(v) != 0 {
		t.Errorf("%v, want no violation", v)
	}
}
