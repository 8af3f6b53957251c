package keyspace_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/internal/keyspace"
)

// The forms are frozen, as those of TestKeyGoldens are.
func TestStoreKeyGoldens(t *testing.T) {
	t.Parallel()
	s := space(t, "/holdfast", "shop/eu")
	store := keyspace.StoreKey{Name: "stock", ID: "a/b"}
	call := keyspace.CallKey{ID: "order/42", Incarnation: 7, Run: 1, Step: "take one"}
	foreign := keyspace.CallKey{ID: "py-1", Step: "0"}
	wide := keyspace.CallKey{ID: "a", Incarnation: 1<<63 - 1, Run: keyspace.MaxCounter + 1, Step: "k"}
	narrow := keyspace.CallKey{ID: "a", Incarnation: -1, Run: -1, Step: "k"}
	const root = "/holdfast/v1/shop%2Feu/"
	for _, c := range []struct{ name, got, want string }{
		{"store", s.Store(store), "store/stock/a%2Fb"},
		{"receipt", s.Receipt(call, store), "receipt/order%2F42/0000000000000000007/0000000001/take one/stock/a%2Fb"},
		{"receipt of another runtime", s.Receipt(foreign, store), "receipt/py-1/0000000000000000000/0000000000/0/stock/a%2Fb"},
		{"receipt beyond the widths", s.Receipt(wide, store), "receipt/a/9223372036854775807/9999999999/k/stock/a%2Fb"},
		{"receipt below zero", s.Receipt(narrow, store), "receipt/a/0000000000000000000/0000000000/k/stock/a%2Fb"},
		{"waiter", s.Waiter(store, call), "waiter/stock/a%2Fb/order%2F42/0000000000000000007/0000000001/take one"},
		{"waiter beyond the widths", s.Waiter(store, wide), "waiter/stock/a%2Fb/a/9223372036854775807/9999999999/k"},
		{"change", s.Change(store, 12), "outbox/change/stock/a%2Fb/0000000000000000012"},
		{"the last change", s.Change(store, 1<<63-1), "outbox/change/stock/a%2Fb/9223372036854775807"},
		{"change below zero", s.Change(store, -1), "outbox/change/stock/a%2Fb/0000000000000000000"},
		{"owed", s.Owed(store, "w/1"), "outbox/wake/stock/a%2Fb/w%2F1"},
		{"pulled", s.Pulled(store, "w/1"), "pulled/stock/a%2Fb/w%2F1"},
		{"purging", s.Purging("order/42"), "purging/order%2F42"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.got != root+c.want {
				t.Errorf("got  %q\nwant %q", c.got, root+c.want)
			}
		})
	}
}

func TestStoreSpanGoldens(t *testing.T) {
	t.Parallel()
	s := space(t, "/holdfast", "n")
	store := keyspace.StoreKey{Name: "s/1", ID: "a"}
	const root = "/holdfast/v1/n/"
	for name, c := range map[string]struct {
		got        keyspace.Span
		start, end string
	}{
		"stores":          {s.Stores("s/1"), "store/s%2F1/", "store/s%2F10"},
		"all stores":      {s.AllStores(), "store/", "store0"},
		"receipts of":     {s.ReceiptsOf("a"), "receipt/a/", "receipt/a0"},
		"receipts of run": {s.ReceiptsOfRun("a", 7, 2), "receipt/a/0000000000000000007/0000000002/", "receipt/a/0000000000000000007/00000000020"},
		"receipts":        {s.Receipts(), "receipt/", "receipt0"},
		"waiters of":      {s.WaitersOf(store), "waiter/s%2F1/a/", "waiter/s%2F1/a0"},
		"waiters":         {s.Waiters(), "waiter/", "waiter0"},
		"changes of":      {s.ChangesOf(store), "outbox/change/s%2F1/a/", "outbox/change/s%2F1/a0"},
		"all changes":     {s.AllChanges(), "outbox/change/", "outbox/change0"},
		"owed of":         {s.OwedOf(store), "outbox/wake/s%2F1/a/", "outbox/wake/s%2F1/a0"},
		"all owed":        {s.AllOwed(), "outbox/wake/", "outbox/wake0"},
		"outbox":          {s.Outbox(), "outbox/", "outbox0"},
		"pulled of":       {s.PulledOf(store), "pulled/s%2F1/a/", "pulled/s%2F1/a0"},
		"all pulled":      {s.AllPulled(), "pulled/", "pulled0"},
		"purgings":        {s.Purgings(), "purging/", "purging0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if want := (keyspace.Span{Start: root + c.start, End: root + c.end}); c.got != want {
				t.Errorf("got  %q\nwant %q", c.got, want)
			}
		})
	}
}
