package stores_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestGet(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.Get(t.Context(), counter)
	missing, is := errors.AsType[*stores.NotFoundError](err)
	if !is || missing.Store != counter || missing.Code() != "STORE_NOT_FOUND" || !errors.Is(err, execution.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	if want := `store "counter" with id "one" does not exist`; err.Error() != want {
		t.Fatalf("got %q, want %q", err, want)
	}
	b.create(counter, "[1]")
	got := b.get(counter)
	got.State[1] = '2' // the caller's own
	if got = b.get(counter); string(got.State) != "[1]" {
		t.Fatalf("got %s", got.State)
	}
	if _, err := b.Get(t.Context(), execution.StoreID{Name: "counter"}); err == nil {
		t.Error("no id is accepted")
	}
}

func TestErrorsOfReads(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	failing := b.peer(&testetcd.Hook{
		Store:     b.store,
		BeforeTxn: func(*etcd.Txn) error { return errReset },
		BeforeGet: func(etcd.Get) error { return errReset },
	})
	_, getErr := failing.Get(t.Context(), counter)
	_, listErr := failing.List(t.Context(), "counter")
	_, _, receiptErr := failing.Receipt(t.Context(), counter, step("x"))
	_, pendingErr := failing.Pending(t.Context())
	for _, err := range []error{getErr, listErr, receiptErr, pendingErr, failing.Drain(t.Context(), counter), failing.Drop(t.Context())} {
		if !errors.Is(err, errReset) || errors.Is(err, execution.ErrNotFound) {
			t.Errorf("got %v", err)
		}
	}
}

// Ids are listed in the order of their bytes, which is not that of the keys, over more
// than one page, and only those of the name.
func TestList(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if ids, err := b.List(t.Context(), "counter"); err != nil || ids == nil || len(ids) != 0 {
		t.Fatalf("of nothing: %q, %v", ids, err)
	}
	rec := record.Store{Instance: "a", State: []byte("0")}
	var want []string
	var ops []etcd.Op
	put := func(name, id string) {
		ops = append(ops, etcd.Put{Key: b.space.Store(storeKey(execution.StoreID{Name: name, ID: id})), Value: rec.Encode()})
		if len(ops) == 100 {
			b.txn(ops...)
			ops = nil
		}
	}
	for i := range 1100 {
		want = append(want, fmt.Sprintf("id/%04d", i))
	}
	want = append(want, "a", "a/b", "ab", "a b", "a%", "a(b", "a-b", "A", "~", "é", "🙂")
	for _, id := range want {
		put("counter", id)
	}
	for _, other := range []string{"counter/", "counte", "counters", "counter\x01"} {
		put(other, "x")
	}
	b.txn(ops...)
	slices.Sort(want)
	if ids, err := b.List(t.Context(), "counter"); err != nil || !slices.Equal(ids, want) {
		t.Fatalf("%d ids, %v; want %d", len(ids), err, len(want))
	}
	if ids, err := b.List(t.Context(), "counter/"); err != nil || !slices.Equal(ids, []string{"x"}) {
		t.Fatalf("got %q, %v", ids, err)
	}
	if _, err := b.List(t.Context(), ""); err == nil {
		t.Error("no name is accepted")
	}
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := step("x")
	b.create(counter, "0")
	if raw, found, err := b.Receipt(t.Context(), counter, s); raw != nil || found || err != nil {
		t.Fatalf("before: %s, %v, %v", raw, found, err)
	}
	const result = "{\"b\":1.0,\n \"a\":null}"
	_, err := b.Update(t.Context(), counter, &s, "update", to("1", result))
	b.must(err)
	if raw, found, err := b.Receipt(t.Context(), counter, s); string(raw) != result || !found || err != nil {
		t.Fatalf("after: %s, %v, %v", raw, found, err)
	}
	for name, other := range map[string]execution.StepID{
		"step": {Execution: "x", Step: "t"}, "execution": {Execution: "y", Step: "s"},
		"incarnation": {Execution: "x", Incarnation: 1, Step: "s"}, "run": {Execution: "x", Run: 1, Step: "s"},
	} {
		if _, found, err := b.Receipt(t.Context(), counter, other); found || err != nil {
			t.Errorf("of another %s: %v, %v", name, found, err)
		}
	}
	if _, found, err := b.Receipt(t.Context(), execution.StoreID{Name: "counter", ID: "two"}, s); found || err != nil {
		t.Errorf("of another store: %v, %v", found, err)
	}
	if _, _, err := b.Receipt(t.Context(), counter, execution.StepID{}); err == nil {
		t.Error("no step is accepted")
	}
	key := b.space.Receipt(callKey(s), storeKey(counter))
	b.txn(etcd.Put{Key: key, Value: []byte("?")})
	if _, _, err := b.Receipt(t.Context(), counter, s); err == nil || !strings.Contains(err.Error(), key) {
		t.Errorf("an unreadable one: %v", err)
	}
	if _, err := b.Update(t.Context(), counter, &s, "update", never(t)); err == nil || !strings.Contains(err.Error(), key) {
		t.Errorf("an update by it: %v", err)
	}
}
