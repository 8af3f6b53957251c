package stores_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func (b *bench) pending() []stores.PendingWake {
	b.t.Helper()
	wakes, err := b.Pending(b.t.Context())
	b.must(err)
	return wakes
}

// Each wake has an id of its own, keeps its event byte for byte, and stays until it is
// acknowledged.
func TestPendingWakes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if wakes := b.pending(); wakes == nil || len(wakes) != 0 {
		t.Fatalf("of nothing: %v", wakes)
	}
	keys := []execution.StoreID{{Name: "a", ID: "a"}, {Name: "a", ID: "a/b"}, {Name: "a/a", ID: "🙂"}}
	var want []string
	for i, key := range keys {
		b.create(key, "0")
		for j := range 40 { // more than one page
			event := fmt.Sprintf("\n{ \"z\":%d.0, \"a\":[%d,\"\\u00e9é🙂\",12345678901234567890123] }", i, j)
			want = append(want, event)
			b.wait(step(execution.ID(fmt.Sprint("x", j))), key, event)
		}
		b.add(key, 1)
	}
	wakes := b.pending()
	ids, events := map[string]bool{}, []string{}
	for _, w := range wakes {
		ids[w.ID] = true
		events = append(events, string(w.Event))
	}
	slices.Sort(want)
	slices.Sort(events)
	if !slices.Equal(events, want) || len(ids) != len(want) {
		t.Fatalf("%d events with %d ids, want %d", len(events), len(ids), len(want))
	}
	for i, w := range wakes {
		for range 2 { // again is fine
			b.must(b.AckWake(t.Context(), w.ID))
		}
		if left := len(b.keys(b.space.AllPulled())); left != len(wakes)-i-1 {
			t.Fatalf("%d are left after %d", left, i+1)
		}
	}
	b.none(b.space.AllPulled(), b.space.Outbox(), b.space.Waiters())
}

// Two wakes of one waiter are two, and the acknowledgement of one removes nothing else:
// not the other, and not the waiter who has registered anew.
func TestAcknowledgementIsOfOneWake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := step("x")
	b.create(counter, "0")
	for range 2 {
		b.wait(s, counter, `"event"`)
		b.add(counter, 1)
	}
	wakes := b.pending()
	if len(wakes) != 2 || wakes[0].ID == wakes[1].ID {
		t.Fatalf("got %+v", wakes)
	}
	b.wait(s, counter, `"newer"`)
	b.must(b.AckWake(t.Context(), wakes[0].ID))
	if left := b.pending(); len(left) != 1 || left[0].ID != wakes[1].ID {
		t.Fatalf("left: %+v", left)
	}
	b.must(b.AckWake(t.Context(), wakes[1].ID))
	b.add(counter, 1)
	if left := b.pending(); len(left) != 1 || string(left[0].Event) != `"newer"` {
		t.Fatalf("the newer one: %+v", left)
	}
}

func TestAcknowledgementOfAnUnknownWake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.furnish(counter)
	id := b.pending()[0].ID
	before := b.dump()
	for _, id := range []string{
		"", "x", "!", "WyJhIiwiYiJd", "bnVsbA", "WyJhIiwiYiIsImMiLCJkIl0", "WyJhIiwiYiIsIiJd", "WyJhIiwiYiIsIlx1MDAwMCJd",
		strings.Repeat("A", 100_000), id + "A", id + "=", "WyJjb3VudGVyIiwib25lIiwiIl0", "WyJjb3VudGVyIiwib25lIiwieiJd",
	} {
		if err := b.AckWake(t.Context(), id); err != nil {
			t.Errorf("%.20q: %v", id, err)
		}
	}
	b.unchanged(before)
}

// Who pulls is given what a dead process has not told anybody.
func TestPendingTellsWhatIsUntold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"one", "two"} {
		key := execution.StoreID{Name: "counter", ID: id}
		b.create(key, "0")
		b.wait(step("x"), key, `"`+id+`"`)
		b.commitAndDie(key)
	}
	b.none(b.space.AllPulled())
	if events := b.events(); !slices.Equal(events, []string{`"one"`, `"two"`}) {
		t.Fatalf("got %q", events)
	}
}

// A record that can't be read is left out, and stays.
func TestUnreadablePulledWake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rec := record.Owed{Execution: "x", Step: "s", Event: []byte("1")}
	b.txn(
		etcd.Put{Key: b.space.Pulled(storeKey(counter), "a"), Value: []byte("?")},
		etcd.Put{Key: b.space.Pulled(storeKey(counter), "b"), Value: rec.Encode()},
	)
	if events := b.events(); !slices.Equal(events, []string{"1"}) {
		t.Fatalf("got %q", events)
	}
	if n := len(b.keys(b.space.AllPulled())); n != 2 {
		t.Fatalf("%d are left", n)
	}
}

// Whoever pulls and dies before it acknowledges pulls the same again; the wake of a
// store that is deleted is gone, and no wake of the store that takes its name.
func TestWakesOfADeletedStoreAreGone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	b.wait(step("x"), counter, `"event"`)
	b.add(counter, 1)
	first, again := b.pending(), b.pending()
	if len(first) != 1 || len(again) != 1 || first[0].ID != again[0].ID {
		t.Fatalf("got %+v, then %+v", first, again)
	}
	b.must(b.Delete(t.Context(), counter))
	b.create(counter, "0")
	b.add(counter, 1)
	if wakes := b.pending(); len(wakes) != 0 {
		t.Fatalf("got %+v", wakes)
	}
	b.must(b.AckWake(t.Context(), first[0].ID))
}

// A store whose changes can't be told just now hinders no wake of another one.
func TestPendingWakesOfOtherStores(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stuck, well := execution.StoreID{Name: "a", ID: "stuck"}, execution.StoreID{Name: "a", ID: "well"}
	for _, key := range []execution.StoreID{stuck, well} {
		b.create(key, "0")
		b.wait(step("x"), key, `"`+key.ID+`"`)
		b.commitAndDie(key)
	}
	changes := b.space.ChangesOf(keyspace.StoreKey(stuck))
	client := b.peer(&testetcd.Hook{Store: b.store, BeforeGet: func(get etcd.Get) error {
		if get.Key == changes.Start {
			return etcd.ErrPermission
		}
		return nil
	}})
	wakes, err := client.Pending(t.Context())
	if err != nil || len(wakes) != 1 || string(wakes[0].Event) != `"well"` {
		t.Errorf("got %v, %v; want the wake of the store that is well", wakes, err)
	}
	if wakes := b.pending(); len(wakes) != 2 {
		t.Errorf("%d wakes later, want 2", len(wakes))
	}
}
