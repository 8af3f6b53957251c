package audit_test

import (
	"strings"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The stores of a book.
var (
	stock = keyspace.StoreKey{Name: "stock", ID: "a/b"} // at version 3, with everything
	bare  = keyspace.StoreKey{Name: "stock", ID: "bare"}
	gone  = keyspace.StoreKey{Name: "stock", ID: "gone"} // deleted
)

// call names a step of the execution.
func (b *book) call(id, step string) keyspace.CallKey {
	s, _ := b.state(id)
	return keyspace.CallKey{ID: id, Incarnation: s.Incarnation, Step: step}
}

// foreign names a step of another runtime's execution.
func foreign(step string) keyspace.CallKey { return keyspace.CallKey{ID: "foreign", Step: step} }

func (b *book) store(k keyspace.StoreKey) *record.Store {
	s, err := record.DecodeStore(b.kvs[b.space.Store(k)].Value)
	if err != nil {
		b.t.Fatalf("store %v: %v", k, err)
	}
	return s
}

func (b *book) create(k keyspace.StoreKey, instance string) {
	b.txn(put(b.space.Store(k), (&record.Store{Instance: instance, State: []byte(`{}`)}).Encode()))
}

// mutate makes the store's next version, with its change if anybody waits.
func (b *book) mutate(k keyspace.StoreKey, more ...etcd.Event) {
	s := b.store(k)
	s.Version++
	more = append(more, put(b.space.Store(k), s.Encode()))
	if len(b.keys(b.space.WaitersOf(k))) > 0 {
		more = append(more, b.change(k, s.Version))
	}
	b.txn(more...)
}

func (b *book) change(k keyspace.StoreKey, version int64) etcd.Event {
	c := record.Change{Instance: b.store(k).Instance, Version: version, Paths: []byte(`[["left"]]`)}
	return put(b.space.Change(k, version), c.Encode())
}

// receipt is for the store's next version, or with the kind "delete" for its last.
func (b *book) receipt(k keyspace.StoreKey, call keyspace.CallKey, kind string) etcd.Event {
	s := b.store(k)
	r := record.Receipt{Kind: kind, Instance: s.Instance, Version: s.Version + 1, Result: []byte(`1`)}
	if kind == "delete" {
		r.Version--
	}
	return put(b.space.Receipt(call, k), r.Encode())
}

// wait registers the step, at the store's version.
func (b *book) wait(k keyspace.StoreKey, call keyspace.CallKey, paths string) {
	s := b.store(k)
	w := record.Waiter{Instance: s.Instance, Since: s.Version, Paths: []byte(paths)}
	b.txn(put(b.space.Waiter(k, call), w.Encode()))
}

// owe is a wake that the store owes.
func (b *book) owe(key, instance string) {
	b.txn(put(key, (&record.Owed{Instance: instance, Execution: "claimed", Step: "late"}).Encode()))
}

// drop deletes the store with all that is of its instance.
func (b *book) drop(k keyspace.StoreKey, more ...etcd.Event) {
	more = append(more, del(b.space.Store(k)))
	for _, span := range []keyspace.Span{b.space.WaitersOf(k), b.space.ChangesOf(k), b.space.OwedOf(k), b.space.PulledOf(k)} {
		for _, key := range b.keys(span) {
			more = append(more, del(key))
		}
	}
	b.txn(more...)
}

func (b *book) keys(span keyspace.Span) (keys []string) {
	for key := range b.kvs {
		if key >= span.Start && key < span.End {
			keys = append(keys, key)
		}
	}
	return keys
}

// shelf adds stores with all that belongs to them to a book of everything, and lets
// an execution be deleted by half.
func (b *book) shelf() {
	b.everything()
	b.create(stock, "a-1")
	b.wait(stock, b.call("suspended", "wait"), `[["left"],["right",0]]`)
	b.wait(stock, foreign("wait"), `[["other"]]`)
	b.mutate(stock, b.receipt(stock, b.call("claimed", "take"), "take"))
	b.mutate(stock, b.receipt(stock, foreign("take"), "update"))
	b.mutate(stock)
	b.wait(stock, b.call("claimed", "wait"), `[]`)
	b.owe(b.space.Owed(stock, "w"), "a-1")
	b.owe(b.space.Pulled(stock, "w"), "a-1")
	b.create(bare, "b-1")
	b.create(gone, "c-1")
	b.mutate(gone, b.receipt(gone, b.call("taken", "add"), "update"))
	b.drop(gone, b.receipt(gone, b.call("taken", "drop"), "delete"))
	b.owe(b.space.Owed(gone, "late"), "c-1") // to one who came too late
	b.admit("purged")
	token := b.claim("purged", "p1")
	b.step("purged", "one", token)
	b.step("purged", "two", token)
	b.mutate(bare, b.receipt(bare, b.call("purged", "one"), "update"))
	b.complete("purged")
	b.purge("purged")
	b.txn(del(b.keys(b.space.StepsOf("purged"))[0]))
}

func (b *book) purge(id string) {
	s, _ := b.state(id)
	b.txn(put(b.space.Purging(id), (&record.Purging{Started: 5000, Incarnation: s.Incarnation}).Encode()))
}

// finish ends a deletion that was begun.
func (b *book) finish(id string) {
	s, _ := b.state(id)
	for _, key := range append(b.keys(b.space.StepsOf(id)), b.keys(b.space.ReceiptsOf(id))...) {
		b.txn(del(key))
	}
	last := []etcd.Event{del(b.space.Spec(id)), del(b.space.State(id)), del(b.space.Purging(id)), del(b.space.Done(unix(s.Ended), id))}
	for _, key := range b.keys(b.space.AnyParams(id)) {
		last = append(last, del(key))
	}
	b.txn(last...)
}

// turn ends the run of a claimed execution and begins the next one.
func (b *book) turn(id string) {
	s, _ := b.state(id)
	params := func(run int64) string { return b.space.Params(id, s.Incarnation, run) }
	b.end(id, execution.HowContinued, func(s *record.State) {
		s.Base, s.Unacked, s.NotBefore, s.Due, s.Run = execution.StatusSuspended, 0, 0, 3000, s.Run+1
	}, put(params(s.Run+1), (&record.Params{Params: []byte(`2`)}).Encode()), del(params(s.Run)))
}

// reword changes a record in place, by replacing text in it: as if it had been
// written so.
func (b *book) reword(key, old, now string) {
	value := string(b.kvs[key].Value)
	if !strings.Contains(value, old) {
		b.t.Fatalf("key %q: %s has no %q", key, value, old)
	}
	b.forge(key, []byte(strings.Replace(value, old, now, 1)))
}

// doneWith records the answer of a step.
func (b *book) doneWith(id, step string, more ...etcd.Event) {
	s, token := b.state(id)
	key := b.space.Step(keyspace.Step{ID: id, Incarnation: s.Incarnation, Key: step, Attempt: 1})
	b.txn(append(more, put(key, (&record.Step{Done: true, Token: execution.Token(token), Response: []byte(`1`)}).Encode()))...)
}

// cancelled ends an execution that nobody holds.
func (b *book) cancelled(id string) {
	s, _ := b.state(id)
	s.Base, s.Outcome, s.Ended = execution.StatusFailed, execution.Failed, 3000
	s.Error = &execution.Error{Message: "cancelled", Code: execution.CodeCancelled}
	s.Due, s.NotBefore, s.Unacked = 0, 0, 0
	b.write(id, s, append(b.notice(id), put(b.space.Done(unix(3000), id), nil))...)
}
