package stores_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestDrop(t *testing.T) {
	t.Parallel()
	b, other := newBench(t), newBench(t)
	b.must(b.Drop(t.Context())) // of nothing
	for _, id := range []string{"one", "a/b", "🙂"} {
		b.furnish(execution.StoreID{Name: "counter", ID: id})
	}
	other.furnish(counter)
	kept := other.dump()
	epoch := etcd.Put{Key: b.space.Epoch(), Value: []byte("e")}
	b.txn(epoch)
	b.must(b.Drop(t.Context()))
	if left := b.keys(b.space.All()); len(left) != 1 || left[0] != "epoch" {
		t.Fatalf("left: %q", left)
	}
	other.unchanged(kept)
	b.create(counter, "0") // it can be used again
}

// Everything goes in pieces, and what a crash leaves goes with the next call.
func TestDropGoesInPieces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rec := record.Store{Instance: "a", State: []byte("0")}
	for i := range 12 {
		var ops []etcd.Op
		for j := range 100 {
			ops = append(ops, etcd.Put{Key: b.space.Store(storeKey(execution.StoreID{Name: fmt.Sprint(i), ID: fmt.Sprint(j)})), Value: rec.Encode()})
		}
		b.txn(ops...)
	}
	sent := 0
	dying := b.peer(&testetcd.Hook{Store: b.store, BeforeTxn: func(*etcd.Txn) error {
		if sent++; sent > 1 {
			return etcd.ErrClosed
		}
		return nil
	}})
	if err := dying.Drop(t.Context()); !errors.Is(err, etcd.ErrClosed) {
		t.Fatalf("got %v", err)
	}
	if left := len(b.keys(b.space.All())); left != 700 {
		t.Fatalf("the first piece left %d", left)
	}
	b.must(b.Drop(t.Context()))
	b.none(b.space.All())
}

// A namespace in which executions are is refused, whatever became of them.
func TestDropRefusesANamespaceInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.furnish(counter)
	b.txn(etcd.Put{Key: b.space.Spec("x"), Value: []byte("?")})
	before := b.dump()
	if err := b.Drop(t.Context()); !errors.Is(err, stores.ErrInUse) {
		t.Fatalf("got %v", err)
	}
	b.unchanged(before)
}
