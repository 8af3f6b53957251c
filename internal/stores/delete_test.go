package stores_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

func TestDeletionJSON(t *testing.T) {
	t.Parallel()
	expected := stores.Version{Instance: "a-1", Version: 0}
	for _, c := range []struct {
		name string
		d    stores.Deletion
		want string
	}{
		{"deleted", stores.Deletion{Deleted: true}, `{"deleted":true}`},
		{
			"not found",
			stores.Deletion{Reason: stores.ReasonNotFound, Expected: expected},
			`{"deleted":false,"reason":"not-found","expectedInstanceId":"a-1","expectedVersion":0}`,
		},
		{
			"conflict",
			stores.Deletion{Reason: stores.ReasonConflict, Expected: expected, Actual: &stores.Version{Instance: "b-2", Version: 0}},
			`{"deleted":false,"reason":"conflict","expectedInstanceId":"a-1","expectedVersion":0,"actualInstanceId":"b-2","actualVersion":0}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			raw, err := json.Marshal(c.d)
			if err != nil || string(raw) != c.want {
				t.Fatalf("got %s, %v; want %s", raw, err, c.want)
			}
			var back stores.Deletion
			if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(back, c.d) {
				t.Fatalf("read back: %+v, %v", back, err)
			}
		})
	}
	if err := json.Unmarshal([]byte(`{"deleted":1}`), new(stores.Deletion)); err == nil {
		t.Error("a number for a boolean is accepted")
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(b.Delete(t.Context(), counter)) // there is none
	b.none(b.space.All())
	b.create(counter, "0")
	b.add(counter, 1)
	b.must(b.Delete(t.Context(), counter))
	b.must(b.Delete(t.Context(), counter))
	b.none(b.space.All())
	if _, err := b.Get(t.Context(), counter); !errors.Is(err, execution.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	if err := b.Delete(t.Context(), execution.StoreID{Name: "x"}); err == nil {
		t.Error("a store without an id is accepted")
	}
}

func TestDeleteFrom(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	zero, s := b.create(counter, "0"), step("x")
	b.add(counter, 1)
	one := b.get(counter)
	before := b.dump()
	for name, c := range map[string]struct {
		key  execution.StoreID
		at   stores.Version
		want stores.Deletion
	}{
		"an older version": {counter, zero.At(), stores.Deletion{Reason: stores.ReasonConflict, Actual: new(one.At())}},
		"another instance": {counter, stores.Version{Instance: "0-0", Version: 1}, stores.Deletion{Reason: stores.ReasonConflict, Actual: new(one.At())}},
		"another store":    {execution.StoreID{Name: "counter", ID: "two"}, one.At(), stores.Deletion{Reason: stores.ReasonNotFound}},
	} {
		c.want.Expected = c.at
		if got, err := b.DeleteFrom(t.Context(), c.key, &s, c.at); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Fatalf("%s: got %+v, %v", name, got, err)
		}
	}
	b.unchanged(before)
	for i := range 2 {
		got, err := b.DeleteFrom(t.Context(), counter, &s, one.At())
		if err != nil || !reflect.DeepEqual(got, stores.Deletion{Deleted: true}) {
			t.Fatalf("deletion %d: %+v, %v", i, got, err)
		}
		later := b.create(counter, "7") // the second deletion is by the receipt
		if later.Instance == one.Instance {
			t.Fatal("the same instance")
		}
	}
	raw, found, err := b.Receipt(t.Context(), counter, s)
	if err != nil || !found || string(raw) != `{"deleted":true}` {
		t.Fatalf("receipt: %s, %v, %v", raw, found, err)
	}
}

// Somebody commits between the look and the write, or deletes.
func TestDeleteFromThatLosesARace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		race func(*bench)
		want string
	}{
		"a commit":                  {func(b *bench) { b.add(counter, 1) }, stores.ReasonConflict},
		"a deletion":                {func(b *bench) { b.must(b.Delete(b.t.Context(), counter)) }, stores.ReasonNotFound},
		"a deletion and a creation": {func(b *bench) { b.must(b.Delete(b.t.Context(), counter)); b.create(counter, "0") }, stores.ReasonConflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			snap, s := b.create(counter, "0"), step("x")
			peer := b.peer(b.before(b.space.Store(storeKey(counter)), then(func() { c.race(b) })))
			if got, err := peer.DeleteFrom(t.Context(), counter, &s, snap.At()); err != nil || got.Deleted || got.Reason != c.want {
				t.Fatalf("got %+v, %v", got, err)
			}
			b.none(b.space.Receipts())
		})
	}
}

func TestUnansweredDeletion(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.space.Store(storeKey(counter))
	s := step("x")
	snap := b.create(counter, "0")
	got, err := b.peer(b.unanswered(key, nothing)).DeleteFrom(t.Context(), counter, &s, snap.At())
	if err != nil || !got.Deleted {
		t.Fatalf("with a step: %+v, %v", got, err)
	}
	snap = b.create(counter, "0")
	if got, err = b.peer(b.unanswered(key, nothing)).DeleteFrom(t.Context(), counter, nil, snap.At()); !errors.Is(err, fencing.ErrUnknown) {
		t.Fatalf("without a step: %+v, %v", got, err)
	}
	b.create(counter, "0")
	b.must(b.peer(b.unanswered(key, nothing)).Delete(t.Context(), counter))
	b.none(b.space.AllStores())
}

// The store is created anew before the deletion, which was applied, is sent again.
func TestDeletionLeavesALaterInstanceAlone(t *testing.T) {
	t.Parallel()
	for _, answered := range []bool{true, false} {
		t.Run(fmt.Sprint("answered: ", answered), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.create(counter, "0")
			var later stores.Snapshot
			key := b.space.Store(storeKey(counter))
			hook := b.unanswered(key, func() { later = b.create(counter, "7") })
			if answered {
				hook = b.before(key, then(func() {
					b.must(b.Delete(t.Context(), counter))
					later = b.create(counter, "7")
				}))
			}
			b.must(b.peer(hook).Delete(t.Context(), counter))
			if got := b.get(counter); got.At() != later.At() {
				t.Fatalf("got %+v, want %+v", got, later)
			}
		})
	}
}

// A deletion takes what belongs to its store, and nothing of any other.
func TestDeletionTakesItsOwn(t *testing.T) {
	t.Parallel()
	names := []string{"a", "a/b", "ab", "a%2Fb", "a0", "a.", "🙂", "a\u0001", "b"}
	var keys []execution.StoreID
	for _, name := range names {
		for _, id := range names {
			keys = append(keys, execution.StoreID{Name: name, ID: id})
		}
	}
	b := newBench(t)
	for _, key := range keys {
		b.furnish(key)
	}
	for i, key := range keys {
		before := b.dump()
		if i%2 == 0 {
			b.must(b.Delete(t.Context(), key))
		} else if d, err := b.DeleteFrom(t.Context(), key, nil, b.get(key).At()); err != nil || !d.Deleted {
			t.Fatalf("%v: %+v, %v", key, d, err)
		}
		for _, k := range b.belongings(key) {
			if _, there := before[k]; !there {
				t.Fatalf("%v had no %q", key, k)
			}
			delete(before, k)
		}
		b.unchanged(before)
	}
	b.none(b.space.AllStores(), b.space.Waiters(), b.space.Outbox(), b.space.AllPulled())
	if got := len(b.keys(b.space.Receipts())); got != len(keys) {
		t.Fatalf("%d receipts are left of %d", got, len(keys))
	}
}

// furnish makes a store that has one of everything.
func (b *bench) furnish(key execution.StoreID) {
	b.t.Helper()
	b.create(key, "0")
	s, k := step("x/🙂"), storeKey(key)
	_, err := b.Update(b.t.Context(), key, &s, "update", add(1))
	b.must(err)
	b.wait(s, key, "")
	change := record.Change{Instance: b.get(key).Instance, Version: 1, Paths: []byte("[[]]")}
	owed := record.Owed{Execution: "x", Step: "s"}
	b.txn(
		etcd.Put{Key: b.space.Change(k, 1), Value: change.Encode()},
		etcd.Put{Key: b.space.Owed(k, "w"), Value: owed.Encode()},
		etcd.Put{Key: b.space.Pulled(k, "w"), Value: owed.Encode()},
	)
}

// belongings returns the keys of a furnished store, without that of its receipt.
func (b *bench) belongings(key execution.StoreID) []string {
	k := storeKey(key)
	root := len(b.space.All().Start)
	return []string{
		b.space.Store(k)[root:], b.space.Waiter(k, callKey(step("x/🙂")))[root:],
		b.space.Change(k, 1)[root:], b.space.Owed(k, "w")[root:], b.space.Pulled(k, "w")[root:],
	}
}
