package audit_test

import (
	"slices"
	"testing"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A planted violation does damage to one execution of a book of everything.
type planted struct {
	name      string
	invariant audit.Invariant
	id        string
	plant     func(b *book)
}

func TestCheckFindsPlantedViolations(t *testing.T) {
	for _, c := range slices.Concat(plantedTokens(), plantedWrites(), plantedDue(), plantedRest()) {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.everything()
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

// plantedTokens are violations of I1 and I2.
func plantedTokens() []planted {
	return []planted{
		{"a token of the history falls", audit.I1, "taken", func(b *book) {
			b.forgeState("taken", func(s *record.State) { s.Deliveries[0].Token = 1 })
		}},
		{"a token of the history is from the future", audit.I1, "released", func(b *book) {
			b.forgeState("released", func(s *record.State) { s.Deliveries[0].Token = 1 << 40 })
		}},
		{"claimed without live", audit.I2, "claimed", func(b *book) { b.txn(del(b.space.Live("claimed"))) }},
		{"live without claimed", audit.I2, "released", func(b *book) {
			b.txn(put(b.space.Live("released"), (&record.Live{Token: record.Own, Proc: "p1"}).Encode()))
		}},
		{"live names another token", audit.I2, "claimed", func(b *book) { b.forgeLive("claimed", func(l *record.Live) { l.Token-- }) }},
		{"live names another process", audit.I2, "claimed", func(b *book) { b.forgeLive("claimed", func(l *record.Live) { l.Proc = "p9" }) }},
		{"a claimed execution without a running delivery", audit.I2, "claimed", func(b *book) {
			b.forgeState("claimed", func(s *record.State) { s.Deliveries, s.Claims = nil, 0 })
		}},
		{"two running deliveries", audit.I2, "taken", func(b *book) {
			b.forgeState("taken", func(s *record.State) { s.Deliveries[0].How = execution.HowRunning })
		}},
		{"reaped while its process is there", audit.I2, "claimed", func(b *book) { b.reap("claimed") }},
	}
}

// plantedWrites are violations of I3 and I5.
func plantedWrites() []planted {
	return []planted{
		{"a step after a later claim", audit.I3, "stepped", func(b *book) {
			s, _ := b.state("stepped")
			b.step("stepped", "late", s.Deliveries[0].Token)
		}},
		{"a step after the release", audit.I3, "released", func(b *book) {
			s, _ := b.state("released")
			b.step("released", "late", s.Deliveries[0].Token)
		}},
		{"a step between two claims of the history", audit.I3, "stepped", func(b *book) {
			b.forgeStep("stepped", func(_ *etcd.KV, s *record.Step) { s.Token++ })
		}},
		{"a step with a token from before the admission", audit.I3, "claimed", func(b *book) {
			b.forgeStep("claimed", func(_ *etcd.KV, s *record.Step) { s.Token = 1 })
		}},
		{"a step with a token from the future", audit.I3, "claimed", func(b *book) {
			b.forgeStep("claimed", func(_ *etcd.KV, s *record.Step) { s.Token += 1000 })
		}},
		{"a step was changed", audit.I5, "claimed", func(b *book) {
			_, token := b.state("claimed")
			b.step("claimed", "one", execution.Token(token))
		}},
		{"a spec was changed", audit.I5, "admitted", func(b *book) {
			b.txn(put(b.space.Spec("admitted"), (&record.Spec{Workflow: "w", Queue: "q"}).Encode()))
		}},
		{"terminal without an outcome", audit.I5, "completed", func(b *book) {
			b.forgeState("completed", func(s *record.State) { s.Outcome = "" })
		}},
		{"an outcome of an execution that goes on", audit.I5, "suspended", func(b *book) {
			b.forgeState("suspended", func(s *record.State) { s.Outcome, s.Result = execution.Completed, []byte("1") })
		}},
		{"completed by nobody", audit.I5, "completed", func(b *book) {
			b.forgeState("completed", func(s *record.State) { s.Deliveries[0].How = execution.HowReleased; s.Unacked = 1 })
		}},
		{"failed without an error", audit.I5, "completed", func(b *book) {
			b.forgeState("completed", func(s *record.State) { s.Base, s.Outcome = execution.StatusFailed, execution.Failed })
		}},
	}
}

// plantedDue are violations of I6.
func plantedDue() []planted {
	return []planted{
		{"due without an entry", audit.I6, "admitted", func(b *book) { b.txn(del(b.entry("admitted"))) }},
		{"reaped without an entry", audit.I6, "reaped", func(b *book) { b.txn(del(b.entry("reaped"))) }},
		{"an entry of a running execution", audit.I6, "claimed", func(b *book) {
			s, rev := b.state("claimed")
			b.txn(put(b.due("claimed", 1000), (&record.Due{StateRevision: rev}).Encode(s)))
		}},
		{"an entry of a suspended execution that is not due", audit.I6, "suspended", func(b *book) {
			s, rev := b.state("suspended")
			b.txn(put(b.due("suspended", 1000), (&record.Due{StateRevision: rev}).Encode(s)))
		}},
		{"two entries", audit.I6, "admitted", func(b *book) {
			s, rev := b.state("admitted")
			b.txn(put(b.due("admitted", 2000), (&record.Due{StateRevision: rev}).Encode(s)))
		}},
		{"an entry for an older state", audit.I6, "admitted", func(b *book) { b.edit("admitted", func(*record.State) {}) }},
		{"an entry for an older live", audit.I6, "reaped", func(b *book) {
			l, _ := b.live("reaped")
			b.txn(put(b.space.Live("reaped"), l.Encode()))
		}},
		{"an entry with another state", audit.I6, "admitted", func(b *book) {
			s, rev := b.state("admitted")
			s.Claims = 5
			b.forge(b.entry("admitted"), (&record.Due{StateRevision: rev}).Encode(s))
		}},
		{"a wake that nothing will read", audit.I6, "admitted", func(b *book) { b.wake("admitted", 5000) }},
		{"a wake that the claim covers", audit.I6, "woken", func(b *book) {
			kv := b.kvs[b.space.Wake("woken")]
			kv.Created = 1
			b.kvs[kv.Key] = kv
		}},
		{"an eviction of the current token", audit.I6, "claimed", func(b *book) {
			_, token := b.state("claimed")
			b.txn(put(b.space.Evict("p1", "claimed"), (&record.Evict{Token: execution.Token(token)}).Encode()))
		}},
		{"a state without a spec", audit.I6, "admitted", func(b *book) { b.txn(del(b.space.Spec("admitted"))) }},
		{"a terminal execution that retention does not find", audit.I6, "completed", func(b *book) {
			b.txn(del(b.space.Done(unix(3000), "completed")))
		}},
		{"a terminal execution indexed twice", audit.I6, "completed", func(b *book) {
			b.txn(put(b.space.Done(unix(1), "completed"), nil))
		}},
		{"an execution that goes on indexed as terminal", audit.I6, "admitted", func(b *book) {
			b.txn(put(b.space.Done(unix(1), "admitted"), nil))
		}},
		{"a step of another incarnation", audit.I6, "admitted", func(b *book) {
			b.txn(put(b.space.Step(keyspace.Step{ID: "admitted", Incarnation: 1, Key: "k"}), (&record.Step{Token: 1}).Encode()))
		}},
		{"a step of a run to come", audit.I6, "claimed", func(b *book) {
			s, token := b.state("claimed")
			key := b.space.Step(keyspace.Step{ID: "claimed", Incarnation: s.Incarnation, Run: 3, Key: "k"})
			b.txn(put(key, (&record.Step{Token: execution.Token(token)}).Encode()))
		}},
	}
}

// plantedRest are violations of I7, I8 and the format.
func plantedRest() []planted {
	return []planted{
		{"the counter is too high", audit.I7, "released", func(b *book) {
			b.forgeState("released", func(s *record.State) { s.Unacked = 4 })
		}},
		{"the counter was not reset", audit.I7, "suspended", func(b *book) {
			b.forgeState("suspended", func(s *record.State) { s.Unacked = 1 })
		}},
		{"claimable before the not-before", audit.I8, "released", func(b *book) {
			s, rev := b.state("released")
			b.txn(del(b.entry("released")), put(b.due("released", s.Due), (&record.Due{StateRevision: rev}).Encode(s)))
		}},
		{"released without a delay", audit.I8, "released", func(b *book) {
			b.forgeState("released", func(s *record.State) { s.NotBefore = 0 })
		}},
		{"reaped without a delay", audit.I8, "reaped", func(b *book) {
			b.forgeLive("reaped", func(l *record.Live) { l.Reaped = l.Expired })
		}},
		{"a base status that does not exist", audit.Format, "admitted", func(b *book) {
			b.forgeState("admitted", func(s *record.State) { s.Base = execution.StatusRunning })
		}},
		{"a record that is cut short", audit.Format, "claimed", func(b *book) { b.forge(b.space.State("claimed"), []byte(`{"v":1,`)) }},
		{"a record of a later release", audit.Format, "claimed", func(b *book) { b.forge(b.space.Live("claimed"), []byte(`{"v":9}`)) }},
		{"more deliveries than claims", audit.Format, "released", func(b *book) {
			b.forgeState("released", func(s *record.State) { s.Claims = 0 })
		}},
		{"a state bound to an etcd lease", audit.Format, "admitted", func(b *book) {
			kv := b.kvs[b.space.State("admitted")]
			kv.Lease = 9
			b.kvs[kv.Key] = kv
		}},
	}
}
