package audit_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestCheckFindsPlantedViolationsOfStores(t *testing.T) {
	waiter := func(b *book) string { return b.space.Waiter(stock, b.call("suspended", "wait")) }
	take := func(b *book) string { return b.space.Receipt(b.call("claimed", "take"), stock) }
	for _, c := range []planted{
		{"a registration at another instance", audit.I6, "", func(b *book) { b.reword(waiter(b), "a-1", "a-2") }},
		{"a registration at no store", audit.I6, "", func(b *book) {
			w := record.Waiter{Instance: "c-1", Paths: []byte(`[]`)}
			b.txn(put(b.space.Waiter(gone, foreign("wait")), w.Encode()))
		}},
		{"a registration from the future", audit.I9, "", func(b *book) { b.reword(waiter(b), `"since":0`, `"since":4`) }},
		{"a registration of an earlier incarnation", audit.I6, "admitted", func(b *book) {
			b.wait(stock, keyspace.CallKey{ID: "admitted", Incarnation: 1, Step: "wait"}, `[]`)
		}},
		{"a registration of nobody", audit.I6, "ghost", func(b *book) {
			b.wait(stock, keyspace.CallKey{ID: "ghost", Incarnation: 1, Step: "wait"}, `[]`)
		}},
		{"a registration of a step that is done", audit.I6, "claimed", func(b *book) { b.doneWith("claimed", "wait") }},
		{"a change of no store", audit.I6, "", func(b *book) {
			c := record.Change{Instance: "c-1", Version: 1, Paths: []byte(`[]`)}
			b.txn(put(b.space.Change(gone, 1), c.Encode()))
		}},
		{"a change of another instance", audit.I6, "", func(b *book) { b.reword(b.space.Change(stock, 1), "a-1", "a-2") }},
		{"a change of a version to come", audit.I10, "", func(b *book) { b.txn(b.change(stock, 9)) }},
		{"a change under another version's key", audit.I10, "", func(b *book) {
			b.reword(b.space.Change(stock, 1), `"version":1`, `"version":2`)
		}},
		{"a store that was written and kept its version", audit.I10, "", func(b *book) {
			b.create(gone, "c-2")
			b.create(gone, "c-2")
		}},
		{"a store that was created with a version", audit.I10, "", func(b *book) {
			b.txn(put(b.space.Store(gone), (&record.Store{Instance: "c-2", Version: 4}).Encode()))
		}},
		{"a store without an instance", audit.Format, "", func(b *book) { b.reword(b.space.Store(bare), "b-1", "") }},
		{"paths that are none", audit.Format, "", func(b *book) { b.reword(b.space.Change(stock, 1), `["left"]`, `[null]`) }},
		{"a store that is cut short", audit.Format, "", func(b *book) { b.forge(b.space.Store(stock), []byte(`{"v":1`)) }},
		{"a registration that is cut short", audit.Format, "suspended", func(b *book) { b.forge(waiter(b), []byte(`{"v":1`)) }},
		{"a receipt for a version to come", audit.I10, "claimed", func(b *book) { b.reword(take(b), `"version":1`, `"version":9`) }},
		{"a receipt of a deletion that was not", audit.I10, "claimed", func(b *book) { b.reword(take(b), `"take"`, `"delete"`) }},
		{"two receipts of one mutation", audit.I10, "claimed", func(b *book) { b.reword(take(b), `"version":1`, `"version":2`) }},
		{"a receipt that was changed", audit.I10, "claimed", func(b *book) { b.txn(put(take(b), b.kvs[take(b)].Value)) }},
		{"a receipt of nobody", audit.I6, "ghost", func(b *book) {
			b.txn(b.receipt(stock, keyspace.CallKey{ID: "ghost", Incarnation: 1, Step: "s"}, "update"))
		}},
		{"a receipt of an earlier incarnation", audit.I6, "claimed", func(b *book) {
			b.mutate(stock, b.receipt(stock, keyspace.CallKey{ID: "claimed", Incarnation: 1, Step: "s"}, "update"))
		}},
		{"a receipt of a run to come", audit.I6, "claimed", func(b *book) {
			call := b.call("claimed", "s")
			call.Run = 3
			b.mutate(stock, b.receipt(stock, call, "update"))
		}},
		{"a receipt of an execution that is being deleted", audit.I10, "purged", func(b *book) {
			b.mutate(stock, b.receipt(stock, b.call("purged", "late"), "update"))
		}},
		{"a deletion of an execution that goes on", audit.I5, "claimed", func(b *book) { b.purge("claimed") }},
		{"a deletion of another incarnation", audit.I6, "completed", func(b *book) {
			b.txn(put(b.space.Purging("completed"), (&record.Purging{Incarnation: 1}).Encode()))
		}},
		{"a deletion of nobody", audit.I6, "ghost", func(b *book) { b.txn(put(b.space.Purging("ghost"), (&record.Purging{}).Encode())) }},
		{"params of the first run", audit.I6, "claimed", func(b *book) {
			s, _ := b.state("claimed")
			b.txn(put(b.space.Params("claimed", s.Incarnation, 0), (&record.Params{}).Encode()))
		}},
		{"params that are missing", audit.I6, "claimed", func(b *book) {
			b.turn("claimed")
			s, _ := b.state("claimed")
			b.txn(del(b.space.Params("claimed", s.Incarnation, 1)))
		}},
		{"params of nobody", audit.I6, "ghost", func(b *book) { b.txn(put(b.space.Params("ghost", 1, 1), (&record.Params{}).Encode())) }},
		{"a step that is done and waits", audit.Format, "claimed", func(b *book) {
			b.forgeStep("claimed", func(_ *etcd.KV, s *record.Step) { s.Waiter = &execution.StoreID{Name: "stock", ID: "bare"} })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.shelf()
			c.plant(b)
			found := false
			for _, v := range b.check().Violations {
				if v.ID != c.id && v.ID != "" && v.ID != "foreign" {
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

func TestAuditAcceptsStoresAndDeletions(t *testing.T) {
	b := newBook(t)
	b.shelf()
	accepted := func(when string) {
		t.Helper()
		for _, v := range b.check().Violations {
			t.Errorf("%s: %v", when, v)
		}
		for _, v := range b.replay.Violations() {
			t.Errorf("%s: replay: %v", when, v)
		}
	}
	accepted("a full shelf")
	if r := b.check(); r.Keys[keyspace.KindStore] != 2 || r.Keys[keyspace.KindReceipt] != 5 || r.Keys[keyspace.KindWaiter] != 3 || r.Keys[keyspace.KindPurging] != 1 {
		t.Errorf("counts: %v", r.Keys)
	}
	child := b.call("suspended", "child")
	b.awaitEnd("claimed", child)
	accepted("somebody waits for the end of an execution")
	b.finish("purged")
	b.admit("purged")
	b.mutate(bare, b.receipt(bare, b.call("purged", "one"), "update"))
	accepted("the deletion was finished and the id admitted again")
	b.txn(del(b.space.Waiter(stock, b.call("suspended", "wait"))))
	for _, key := range b.keys(b.space.ChangesOf(stock)) {
		b.txn(del(key))
	}
	b.doneWith("claimed", "wait", del(b.space.Waiter(stock, b.call("claimed", "wait"))))
	accepted("everyone was woken")
	for range 2 {
		b.turn("claimed")
		b.claim("claimed", "p1")
	}
	for _, key := range append(b.keys(b.space.StepsOf("claimed")), b.keys(b.space.ReceiptsOf("claimed"))...) {
		b.txn(del(key))
	}
	accepted("the claimed one went on as other runs")
	b.fence("claimed")
	b.cancelled("claimed")
	accepted("there is a notice of the end")
	b.purge("claimed")
	b.finish("claimed")
	accepted("deleted before its holder was told of the eviction, and before who waits for its end was woken")
	for _, span := range []keyspace.Span{b.space.Waiters(), b.space.AllChanges()} {
		for _, key := range b.keys(span) {
			b.txn(del(key))
		}
	}
	accepted("who waited for the end was woken")
	b.drop(stock)
	b.create(stock, "a-2")
	accepted("created anew")
	b.txn(del(b.space.Receipt(foreign("take"), stock)))
	accepted("another runtime's receipt dropped with its namespace")
}

func TestCheckOfStoresAloneNeedsNoEpoch(t *testing.T) {
	b := newBook(t)
	b.create(stock, "a-1")
	b.mutate(stock, b.receipt(stock, foreign("add"), "update"))
	b.txn(del(b.space.Epoch()))
	if r := b.check(); !r.OK() {
		t.Errorf("%v, want no violation", r.Violations)
	}
}

// What a later snapshot no longer shows.
func TestReplayFindsWhatStoresCoverUp(t *testing.T) {
	for _, c := range []struct {
		name      string
		invariant audit.Invariant
		harm      func(b *book)
	}{
		{"a version left out", audit.I10, func(b *book) {
			s := b.store(bare)
			s.Version += 2
			b.txn(put(b.space.Store(bare), s.Encode()))
		}},
		{"a version written twice", audit.I10, func(b *book) {
			b.mutate(bare)
			b.txn(put(b.space.Store(bare), b.kvs[b.space.Store(bare)].Value))
		}},
		{"another instance in place of one", audit.I10, func(b *book) {
			s := b.store(bare)
			s.Version, s.Instance = s.Version+1, "b-2"
			b.txn(put(b.space.Store(bare), s.Encode()))
		}},
		{"an instance that comes back", audit.I10, func(b *book) { b.create(gone, "c-1") }},
		{"a receipt without its mutation", audit.I10, func(b *book) { b.txn(b.receipt(bare, b.call("claimed", "add"), "update")) }},
		{"a receipt of a deletion, with a mutation", audit.I10, func(b *book) {
			b.mutate(bare, b.receipt(bare, b.call("claimed", "add"), "delete"))
		}},
		{"a receipt of a mutation, with a deletion", audit.I10, func(b *book) {
			b.drop(bare, b.receipt(bare, b.call("claimed", "add"), "update"))
		}},
		{"a receipt replaced", audit.I10, func(b *book) {
			b.mutate(stock, b.receipt(stock, b.call("claimed", "take"), "take"))
		}},
		{"a receipt deleted and written again", audit.I10, func(b *book) {
			b.txn(del(b.space.Receipt(b.call("claimed", "take"), stock)))
			b.mutate(stock, b.receipt(stock, b.call("claimed", "take"), "take"))
		}},
		{"a wake that outlives its store", audit.I6, func(b *book) {
			owed := b.kvs[b.space.Owed(stock, "w")]
			b.drop(stock)
			b.create(stock, "a-2")
			b.txn(del(b.space.Store(stock)), put(owed.Key, owed.Value))
		}},
		{"a change written later", audit.I10, func(b *book) {
			b.mutate(bare)
			b.txn(b.change(bare, b.store(bare).Version))
		}},
		{"a registration of one who came too late", audit.I9, func(b *book) {
			w := record.Waiter{Instance: "a-1", Since: 2, Paths: []byte(`[["left"]]`)}
			b.txn(put(b.space.Waiter(stock, foreign("late")), w.Encode()))
		}},
		{"a change forgotten before all were woken", audit.I9, func(b *book) { b.txn(del(b.space.Change(stock, 2))) }},
		{"a step deleted before the deletion began", audit.I5, func(b *book) {
			b.txn(del(b.keys(b.space.StepsOf("completed"))[0]))
			b.purge("completed")
			b.finish("completed")
		}},
		{"deleted without a beginning", audit.I5, func(b *book) {
			b.txn(del(b.space.Spec("completed")), del(b.space.State("completed")), del(b.space.Done(unix(3000), "completed")))
		}},
		{"a run that begins by itself", audit.I5, func(b *book) {
			b.end("claimed", execution.HowSuspended, func(s *record.State) {
				s.Base, s.Run, s.Due = execution.StatusSuspended, 1, 0
			}, put(b.space.Params("claimed", b.call("claimed", "").Incarnation, 1), (&record.Params{}).Encode()))
		}},
		{"a receipt of a run that has ended", audit.I10, func(b *book) {
			call := b.call("claimed", "late")
			b.turn("claimed")
			b.mutate(bare, b.receipt(bare, call, "update"))
		}},
		{"a deletion given up", audit.I5, func(b *book) { b.txn(del(b.space.Purging("purged"))) }},
		{"a deletion of an execution that goes on", audit.I5, func(b *book) {
			b.purge("suspended")
			b.finish("suspended")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBook(t)
			b.shelf()
			if c.harm(b); !has(b.replay.Violations(), c.invariant) {
				t.Errorf("%v, want one of %s", b.replay.Violations(), c.invariant)
			}
		})
	}
}
