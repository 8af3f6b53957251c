package leasing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// shelf is the store of these tests.
var shelf = keyspace.StoreKey{Name: "shelf", ID: "a/b"}

// finished admits an execution and completes it, with so many steps, of which every
// tenth waits at the store, and so many receipts.
func (w *world) finished(id execution.ID, steps, receipts int) execution.Delivery {
	w.t.Helper()
	w.admit(id)
	d := w.claim(id)
	w.traces(d, steps, receipts)
	if err := w.Acknowledge(w.t.Context(), d.Lease, completed(`1`)); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// write writes past the engine, to a store that is not there yet.
func (w *world) write(ops ...etcd.Op) {
	w.t.Helper()
	txn := &etcd.Txn{Then: ops}
	if put, ok := ops[0].(etcd.Put); ok && put.Key == w.space.Store(shelf) {
		txn.If = []etcd.Compare{etcd.Absent(put.Key)}
	}
	if _, err := w.hook.Store.Txn(context.Background(), txn); err != nil {
		w.t.Fatal(err)
	}
}

// left returns the keys of the namespace that are not the epoch's, a process's or a
// store's.
func (w *world) left() (keys []string) {
	w.t.Helper()
	all := w.space.All()
	res, _, err := w.hook.Store.Get(context.Background(), etcd.Get{Key: all.Start, End: all.End, KeysOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, kv := range res.KVs {
		k, err := w.space.Parse(kv.Key)
		if err != nil {
			w.t.Fatal(err)
		}
		switch k.Kind {
		case keyspace.KindEpoch, keyspace.KindProc, keyspace.KindStore:
		default:
			keys = append(keys, kv.Key)
		}
	}
	return keys
}

func (w *world) wantNothingLeft(when string) {
	w.t.Helper()
	if keys := w.left(); len(keys) > 0 {
		w.t.Errorf("%s: %d keys are left, such as %q", when, len(keys), keys[0])
	}
}

// operations counts what a transaction does, with its nested ones, and its compares.
func operations(txn *etcd.Txn) int {
	n := 0
	for _, branch := range [][]etcd.Op{txn.Then, txn.Else} {
		in := len(branch)
		for _, op := range branch {
			if nested, ok := op.(*etcd.Txn); ok {
				in += operations(nested)
			}
		}
		n = max(n, in)
	}
	return max(n, len(txn.If))
}

func TestDeleteOfAThousandStepsIsInBoundedPieces(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.finished("x", 1000, 250)
	largest, pieces := 0, 0
	w.hook.BeforeTxn = func(txn *etcd.Txn) error {
		largest, pieces = max(largest, operations(txn)), pieces+1
		return nil
	}
	deleted := 0
	w.hook.AfterTxn = func(_ *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		before := deleted
		if deleted = 1000 + 100 + 250 + 3 - len(w.left()); deleted-before > 164 {
			t.Errorf("one transaction deleted %d keys", deleted-before)
		}
		return res, err
	}
	if err := w.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	w.hook.AfterTxn = nil
	if w.wantNothingLeft("afterwards"); largest > 128 || pieces < 1250/100 {
		t.Errorf("%d transactions, the largest of %d operations, want at most 128", pieces, largest)
	}
	if _, err := w.Get(t.Context(), "x"); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("get: %v, want not found", err)
	}
	if err := w.Delete(t.Context(), "x"); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("deleted again: %v, want not found", err)
	}
}

func TestDeleteRefuses(t *testing.T) {
	w := newWorld(t, time.Hour)
	for _, id := range []execution.ID{"admitted", "claimed", "suspended"} {
		w.admit(id)
	}
	ds, err := w.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 3, Duration: minute})
	if err != nil || len(ds) != 3 {
		t.Fatalf("%d claimed, %v", len(ds), err)
	}
	for _, d := range ds {
		switch d.ID {
		case "admitted":
			err = w.Release(t.Context(), d.Lease, "later")
		case "suspended":
			err = w.Acknowledge(t.Context(), d.Lease, suspended)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before := w.left()
	for _, id := range []execution.ID{"admitted", "claimed", "suspended"} {
		if err := w.Delete(t.Context(), id); !errors.Is(err, execution.ErrNotTerminal) || !strings.Contains(err.Error(), "cancel it first") {
			t.Errorf("%s: %v, want that it must be cancelled first", id, err)
		}
	}
	if err := w.Delete(t.Context(), "nobody"); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if _, is := errors.AsType[*execution.InvalidError](w.Delete(t.Context(), "a\x00b")); !is {
		t.Error("a bad id was not refused")
	}
	if after := w.left(); len(after) != len(before) {
		t.Errorf("%q, want %q", after, before)
	}
	for _, id := range []execution.ID{"admitted", "claimed", "suspended"} {
		if err := errors.Join(w.Cancel(t.Context(), id, ""), w.Delete(t.Context(), id)); err != nil {
			t.Errorf("%s, cancelled: %v", id, err)
		}
	}
	// The holder of the claimed one has yet to be told.
	if keys := w.left(); len(keys) != 1 || !strings.Contains(keys[0], "/evict/") {
		t.Errorf("%q, want the eviction", keys)
	}
}

func TestDeleteLeavesOthersAlone(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	ids := []execution.ID{"a", "a/b", "a//b", "/", "a/steps/1", "a.", "..", "ab", "a0", "a%", "a/b/"}
	for _, id := range ids {
		w.finished(id, 11, 2)
	}
	// Another runtime's execution with the same id is another one.
	theirs := w.space.Receipt(keyspace.CallKey{ID: "a", Step: "add 0000"}, shelf)
	w.write(etcd.Put{Key: theirs, Value: (&record.Receipt{Kind: "update", Instance: "other"}).Encode()})
	for i, id := range ids {
		if err := w.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if want := (len(ids)-i-1)*(3+11+2+2) + 1; len(w.left()) != want {
			t.Fatalf("after %q: %d keys are left, want %d", id, len(w.left()), want)
		}
	}
	if keys := w.left(); keys[0] != theirs {
		t.Errorf("%q, want %q", keys, theirs)
	}
}

// finishers are who may finish a deletion that was interrupted.
var finishers = map[string]func(w *world) error{
	"delete": func(w *world) error { return w.Delete(context.Background(), "x") },
	"sweep": func(w *world) error {
		n, err := w.SweepPurging(context.Background())
		if err == nil && n > 1 {
			err = fmt.Errorf("%d deletions were finished, want at most 1", n)
		}
		return err
	},
	"admit": func(w *world) error {
		adm, err := w.Admit(context.Background(), execution.AdmitRequest{ID: "x", Workflow: "other"})
		if err == nil && adm.Existing {
			err = errors.New("the deleted execution is there")
		}
		return err
	},
}

// interrupt deletes the execution and kills that at its transaction with the number,
// which is applied or not. It returns false if the deletion had come to its end.
func (w *world) interrupt(number int, applied bool) (interrupted bool) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	n := 0
	kill := func() bool {
		if n++; n == number {
			cancel()
		}
		return n >= number
	}
	w.hook.BeforeTxn = func(*etcd.Txn) error {
		if !applied && kill() {
			return context.Canceled
		}
		return nil
	}
	w.hook.AfterTxn = func(_ *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if applied && kill() {
			return nil, context.Canceled
		}
		return res, err
	}
	err := w.Delete(ctx, "x")
	w.hook.BeforeTxn, w.hook.AfterTxn = nil, nil
	if interrupted = n >= number; interrupted == (err == nil) {
		w.t.Fatalf("interrupted: %t, and Delete returned %v", interrupted, err)
	}
	return interrupted
}

func TestDeleteGoesOnAfterAKillAtEachPiece(t *testing.T) {
	for name, finish := range finishers {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/applied=%v", name, applied), func(t *testing.T) {
				kills := 0
				for number := 1; ; number++ {
					w := newWorld(t, time.Millisecond)
					w.finished("x", 70, 150)
					if !w.interrupt(number, applied) {
						break
					}
					kills++
					w.audit()
					rec, err := w.Get(t.Context(), "x")
					switch there := err == nil; {
					case there && rec.Status != execution.StatusCompleted, !there && !errors.Is(err, execution.ErrNotFound):
						t.Fatalf("after kill %d: %+v, %v", number, rec, err)
					case !there && name == "delete":
						continue // it was deleted before the answer was lost
					}
					begun := strings.Contains(strings.Join(w.left(), "\n"), "/purging/")
					if err = finish(w); err != nil && begun {
						t.Fatalf("after kill %d: %v", number, err)
					}
					if name == "admit" && begun {
						if d := w.claim("x"); !d.First || d.Workflow != "other" {
							t.Fatalf("after kill %d: %+v, want the new one", number, d)
						}
						if keys := w.left(); len(keys) != 3 { // spec, state, live
							t.Fatalf("after kill %d: %q, want a clean start", number, keys)
						}
					} else if begun {
						w.wantNothingLeft(fmt.Sprintf("after kill %d", number))
					}
				}
				if kills < 7 { // look, begin, look, 3 of steps, 2 of receipts, the end
					t.Errorf("%d kills", kills)
				}
			})
		}
	}
}

func TestDeleteByManyAtOnce(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.finished("x", 200, 200)
	var mu sync.Mutex
	deleted := 0
	var g errgroup.Group
	for range 8 {
		c := w.peer(time.Millisecond)
		g.Go(func() error {
			err := c.Delete(context.Background(), "x")
			if errors.Is(err, execution.ErrNotFound) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			deleted++
			return err
		})
	}
	if err := g.Wait(); err != nil || deleted == 0 {
		t.Fatalf("%d deleted it, %v", deleted, err)
	}
	w.wantNothingLeft("afterwards")
}

// The answer to the beginning is lost; meanwhile somebody else finishes, and the id is
// admitted again.
func TestDeleteLeavesTheNextIncarnationAlone(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.finished("x", 5, 5)
	other := w.peerOn(w.hook.Store)
	var once sync.Once
	w.hook.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if put, ok := txn.Then[0].(etcd.Put); !ok || put.Key != w.space.Purging("x") {
			return res, err
		}
		once.Do(func() {
			if n, sweepErr := other.SweepPurging(t.Context()); n != 1 || sweepErr != nil {
				t.Errorf("%d finished, %v", n, sweepErr)
			}
			if _, admitErr := other.Admit(t.Context(), execution.AdmitRequest{ID: "x", Workflow: "w"}); admitErr != nil {
				t.Error(admitErr)
			}
			res, err = nil, context.DeadlineExceeded
		})
		return res, err
	}
	if err := w.Delete(t.Context(), "x"); err != nil {
		t.Error(err)
	}
	if rec := w.get("x"); rec.Status != execution.StatusAdmitted {
		t.Errorf("%+v, want the next incarnation", rec)
	}
}

// peerOn returns another client, on the store.
func (w *world) peerOn(store etcd.Store) *leasing.Client {
	w.t.Helper()
	c, err := leasing.New(w.t.Context(), leasing.Config{Store: store, Space: w.space})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// A namespace that was restored from a backup has another epoch; a deletion goes on
// in it.
func TestDeleteGoesOnAfterARestore(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.finished("x", 5, 5)
	if !w.interrupt(4, false) {
		t.Fatal("it was not interrupted")
	}
	w.write(etcd.Put{Key: w.space.Epoch(), Value: []byte("restored")})
	if err := w.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	w.wantNothingLeft("afterwards")
}

func TestHolderFinishesDeletions(t *testing.T) {
	for _, begun := range []string{"before it starts", "while it runs"} {
		t.Run(begun, func(t *testing.T) {
			w := newWorld(t, time.Millisecond)
			w.finished("x", 70, 150)
			h, err := w.peerOn(w.hook.Store).NewHolder(leasing.HolderConfig{
				Duration: minute, Queues: []string{"w"}, Workflows: []string{"w"}, ScanInterval: 50 * time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			var watching sync.WaitGroup
			watch := func() {
				watching.Go(func() { h.Watch(ctx, func(time.Time) {}, func(*execution.LostError) {}, func() {}) })
			}
			t.Cleanup(func() {
				stop()
				watching.Wait()
				h.Close(context.Background())
			})
			if begun == "while it runs" {
				watch()
			}
			if !w.interrupt(4, false) {
				t.Fatal("it was not interrupted")
			}
			if begun == "before it starts" {
				watch()
			}
			eventually(t, func() bool { return len(w.left()) == 0 })
		})
	}
}

// One deletion that fails does not keep the others from being finished.
func TestSweepPurgingGoesOnAfterAnError(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	for _, id := range []execution.ID{"a", "b", "c"} {
		d := w.finished(id, 1, 1)
		w.write(etcd.Put{Key: w.space.Purging(string(id)), Value: (&record.Purging{Incarnation: d.Incarnation}).Encode()})
	}
	fault := &testetcd.Hook{Store: w.hook.Store, BeforeTxn: func(txn *etcd.Txn) error {
		if get, ok := txn.Then[0].(etcd.Get); ok && get.Key == w.space.State("b") {
			return etcd.ErrPermission
		}
		return nil
	}}
	if n, err := w.peerOn(fault).SweepPurging(t.Context()); n != 2 || !errors.Is(err, etcd.ErrPermission) || !strings.Contains(err.Error(), `"b"`) {
		t.Errorf("%d finished, %v; want 2, and an error of b", n, err)
	}
	if n, err := w.SweepPurging(t.Context()); n != 1 || err != nil {
		t.Errorf("%d finished, %v; want b", n, err)
	}
	w.wantNothingLeft("afterwards")
}
