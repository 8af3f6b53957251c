package stores_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// One of those who found a store is its founder, and no receipt is left.
func TestFound(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	first, founder, err := b.Found(t.Context(), counter, s, []byte(`1`))
	if err != nil || !founder || string(first.State) != "1" || first.Version != 0 || first.Instance == "" {
		t.Fatalf("got %+v, %t, %v", first, founder, err)
	}
	again, founder, err := b.Found(t.Context(), counter, s, []byte(`2`))
	if err != nil || founder || string(again.State) != "1" || again.At() != first.At() {
		t.Fatalf("again: %+v, %t, %v", again, founder, err)
	}
	b.add(counter, 1)
	if now, founder, err := b.Found(t.Context(), counter, b.admit("y"), []byte(`2`)); err != nil || founder || now.Version != 1 {
		t.Fatalf("later: %+v, %t, %v", now, founder, err)
	}
	b.none(b.space.Receipts())
}

func TestFoundersRace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var founders atomic.Int64
	var all sync.WaitGroup
	for _, id := range []execution.ID{"a", "b", "c", "d"} {
		s, c := b.admit(id), b.peer(b.store)
		all.Go(func() {
			_, founder, err := c.Found(t.Context(), counter, s, []byte(`1`))
			if err != nil {
				t.Error(err)
			}
			if founder {
				founders.Add(1)
			}
		})
	}
	all.Wait()
	if founders.Load() != 1 {
		t.Errorf("%d founders", founders.Load())
	}
}

// Whoever founds a store knows it, also where the answer was lost; and whoever comes
// second knows that, also where his own answer was lost.
func TestUnansweredFounding(t *testing.T) {
	t.Parallel()
	key := func(b *bench) string { return b.space.Store(storeKey(counter)) }
	for name, c := range map[string]struct {
		hook    func(*bench) *testetcd.Hook
		founder bool
	}{
		"applied": {func(b *bench) *testetcd.Hook { return b.unanswered(key(b), nothing) }, true},
		"applied, and another instance since": {func(b *bench) *testetcd.Hook {
			return b.unanswered(key(b), func() { b.must(b.Delete(b.t.Context(), counter)); b.create(counter, "7") })
		}, false},
		"not sent, and another was faster": {func(b *bench) *testetcd.Hook {
			return b.before(key(b), func() error { b.create(counter, "7"); return errReset })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			now, founder, err := b.peer(c.hook(b)).Found(t.Context(), counter, b.admit("x"), []byte(`1`))
			if want := map[bool]string{true: "1", false: "7"}[c.founder]; err != nil || founder != c.founder || string(now.State) != want {
				t.Errorf("got %+v, %t, %v", now, founder, err)
			}
		})
	}
}

// A step founds nothing when its execution is deleted, or its run has ended: before it
// looked, or since.
func TestFoundIsLost(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		for name, end := range map[string]func(*bench, execution.StepID){
			"deleted":     func(b *bench, _ execution.StepID) { b.txn(etcd.Delete{Key: b.space.State("x")}) },
			"purging":     func(b *bench, _ execution.StepID) { b.txn(etcd.Put{Key: b.space.Purging("x")}) },
			"turned over": func(b *bench, s execution.StepID) { b.turnOver(s) },
		} {
			b := newBench(t)
			s, c := b.admit("x"), b.Client
			if late {
				c = b.peer(b.before(b.space.Store(storeKey(counter)), then(func() { end(b, s) })))
			} else {
				end(b, s)
			}
			if _, _, err := c.Found(t.Context(), counter, s, []byte(`1`)); !errors.Is(err, execution.ErrLost) {
				t.Errorf("%s, late %t: %v", name, late, err)
			}
			b.none(b.space.AllStores())
		}
	}
}

func TestFoundRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		key   execution.StoreID
		step  execution.StepID
		state string
	}{
		"store id": {execution.StoreID{Name: "n"}, step("x"), "1"},
		"step key": {counter, execution.StepID{Execution: "x"}, "1"},
		"is not":   {counter, step("x"), "{"},
	} {
		if _, _, err := b.Found(t.Context(), c.key, c.step, []byte(c.state)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	b.none(b.space.All())
}
