package stores_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }

// counter is the store that most tests are about.
var counter = execution.StoreID{Name: "counter", ID: "one"}

// everything is what a waiter has read that is woken by every change.
var everything = stores.Paths{{}}

var (
	errReset   = errors.New("connection reset") // an answer that got lost
	errRefused = errors.New("refused")
)

// A bench is a namespace, with a client that acts on its stores and a record of whom
// the clients have woken.
type bench struct {
	*stores.Client
	t     *testing.T
	store etcd.Store
	space keyspace.Space
	wakes *wakes
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOn(t, testetcd.Start(t))
}

// newMemoryBench is for bubbles of testing/synctest.
func newMemoryBench(t *testing.T) (*bench, *memetcd.Server) {
	t.Helper()
	server, err := memetcd.New(memetcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return benchOn(t, server.Client("", nil)), server
}

func benchOn(t *testing.T, store etcd.Store) *bench {
	t.Helper()
	b := &bench{t: t, store: store, space: testetcd.Space(t), wakes: newWakes()}
	b.Client = b.peer(store)
	return b
}

// peer returns another client of the same namespace.
func (b *bench) peer(store etcd.Store, more ...func(*stores.Config)) *stores.Client {
	b.t.Helper()
	cfg := stores.Config{
		Store: store, Space: b.space, Wake: b.wakes.wake,
		Jitter: func(time.Duration) time.Duration { return 0 },
	}
	for _, change := range more {
		change(&cfg)
	}
	client, err := stores.New(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	return client
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// txn changes keys behind the clients' backs.
func (b *bench) txn(ops ...etcd.Op) int64 {
	b.t.Helper()
	res, err := b.store.Txn(b.t.Context(), &etcd.Txn{Then: ops})
	b.must(err)
	return res.Revision
}

// step returns a step of another runtime's execution.
func step(id execution.ID) execution.StepID { return execution.StepID{Execution: id, Step: "s"} }

// admit makes an execution of the engine, as far as stores look at one, and returns a
// step of it.
func (b *bench) admit(id execution.ID) execution.StepID {
	b.t.Helper()
	return execution.StepID{Execution: id, Incarnation: b.txn(etcd.Put{Key: b.space.State(string(id))}), Step: "s"}
}

func (b *bench) create(key execution.StoreID, state string) stores.Snapshot {
	b.t.Helper()
	snap, err := b.Create(b.t.Context(), key, func() ([]byte, error) { return []byte(state), nil })
	b.must(err)
	return snap
}

func (b *bench) get(key execution.StoreID) stores.Snapshot {
	b.t.Helper()
	snap, err := b.Get(b.t.Context(), key)
	b.must(err)
	return snap
}

// add makes an update that adds to the number in the store. Its result is the sum.
func add(n int) func(stores.Snapshot) (*stores.Mutation, error) {
	return func(s stores.Snapshot) (*stores.Mutation, error) {
		var now int
		if err := json.Unmarshal(s.State, &now); err != nil {
			return nil, err
		}
		sum := fmt.Appendf(nil, "%d", now+n)
		return &stores.Mutation{State: sum, Result: sum, Changed: everything}, nil
	}
}

// add commits an update that nobody hinders.
func (b *bench) add(key execution.StoreID, n int) {
	b.t.Helper()
	_, err := b.Update(b.t.Context(), key, nil, "update", add(n))
	b.must(err)
}

// wait registers a waiter who has seen the store as it is.
func (b *bench) wait(step execution.StepID, key execution.StoreID, event string) {
	b.t.Helper()
	stale, err := b.Register(b.t.Context(), waiter(step, key, b.get(key), event))
	if err != nil || stale {
		b.t.Fatalf("register %v: stale %v, %v", step, stale, err)
	}
}

// waiter makes a waiter who has seen the snapshot. Without an event its wake is
// delivered.
func waiter(step execution.StepID, key execution.StoreID, seen stores.Snapshot, event string) stores.Waiter {
	w := stores.Waiter{Store: key, Step: step, Instance: seen.Instance, Since: seen.Version, Reads: everything}
	if event != "" {
		w.Event = []byte(event)
	}
	return w
}

func storeKey(key execution.StoreID) keyspace.StoreKey {
	return keyspace.StoreKey{Name: key.Name, ID: key.ID}
}

func callKey(s execution.StepID) keyspace.CallKey {
	return keyspace.CallKey{ID: string(s.Execution), Incarnation: s.Incarnation, Run: s.Run, Step: s.Step}
}

// keys returns the keys of a span.
func (b *bench) keys(span keyspace.Span) []string {
	b.t.Helper()
	res, _, err := b.store.Get(context.WithoutCancel(b.t.Context()), etcd.Get{Key: span.Start, End: span.End, KeysOnly: true})
	b.must(err)
	keys := make([]string, len(res.KVs))
	for i, kv := range res.KVs {
		keys[i] = strings.TrimPrefix(kv.Key, b.space.All().Start)
	}
	return keys
}

// none fails if there is a key in one of the spans.
func (b *bench) none(spans ...keyspace.Span) {
	b.t.Helper()
	for _, span := range spans {
		if keys := b.keys(span); len(keys) > 0 {
			b.t.Fatalf("left behind: %q", keys)
		}
	}
}

// dump returns all that the namespace holds, by key.
func (b *bench) dump() map[string]string {
	b.t.Helper()
	span := b.space.All()
	res, _, err := b.store.Get(b.t.Context(), etcd.Get{Key: span.Start, End: span.End})
	b.must(err)
	all := map[string]string{}
	for _, kv := range res.KVs {
		all[strings.TrimPrefix(kv.Key, span.Start)] = fmt.Sprintf("%d %s", kv.Modified, kv.Value)
	}
	return all
}

// unchanged fails if anything was written since the dump was made.
func (b *bench) unchanged(before map[string]string) {
	b.t.Helper()
	if after := b.dump(); !maps.Equal(before, after) {
		b.t.Fatalf("something was written:\nbefore %q\nafter  %q", before, after)
	}
}

// stored reads the store's record.
func (b *bench) stored(key execution.StoreID) (etcd.KV, *record.Store) {
	b.t.Helper()
	res, _, err := b.store.Get(b.t.Context(), etcd.Get{Key: b.space.Store(storeKey(key))})
	b.must(err)
	kv, found := res.One()
	if !found {
		return kv, nil
	}
	rec, err := record.DecodeStore(kv.Value)
	b.must(err)
	return kv, rec
}

// Wakes are what the clients have asked for.
type wakes struct {
	mu    sync.Mutex
	fail  func(context.Context, execution.StepID) error // called without the lock; nil: none fails
	tries map[execution.StepID]int
	woken map[execution.StepID]int // those that did not fail
}

func newWakes() *wakes {
	return &wakes{tries: map[execution.StepID]int{}, woken: map[execution.StepID]int{}}
}

func (w *wakes) wake(ctx context.Context, step execution.StepID) error {
	w.mu.Lock()
	w.tries[step]++
	fail := w.fail
	w.mu.Unlock()
	if fail != nil {
		if err := fail(ctx, step); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken[step]++
	return nil
}

func (w *wakes) failing(fail func(context.Context, execution.StepID) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = fail
}

// of returns how often the step was woken.
func (w *wakes) of(step execution.StepID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.woken[step]
}

func (w *wakes) triesOf(step execution.StepID) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tries[step]
}

// total returns how many steps were woken, and how often together.
func (w *wakes) total() (steps, times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.woken {
		times += n
	}
	return len(w.woken), times
}

// puts says whether the transaction could put the key, in whatever branch.
func puts(txn *etcd.Txn, key string) bool {
	return slices.ContainsFunc(slices.Concat(txn.Then, txn.Else), func(op etcd.Op) bool {
		switch op := op.(type) {
		case etcd.Put:
			return op.Key == key
		case *etcd.Txn:
			return puts(op, key)
		}
		return false
	})
}

// removes says the same of a deletion that begins with the key.
func removes(txn *etcd.Txn, key string) bool {
	return slices.ContainsFunc(slices.Concat(txn.Then, txn.Else), func(op etcd.Op) bool {
		switch op := op.(type) {
		case etcd.Delete:
			return op.Key == key
		case *etcd.Txn:
			return removes(op, key)
		}
		return false
	})
}

// before returns a hook that does something before each of the first transactions that
// write the key; what it returns, if it is an error, is what becomes of that one.
func (b *bench) before(key string, do ...func() error) *testetcd.Hook {
	return &testetcd.Hook{Store: b.store, BeforeTxn: func(txn *etcd.Txn) error {
		if len(do) == 0 || !puts(txn, key) && !removes(txn, key) {
			return nil
		}
		next := do[0]
		do = do[1:]
		return next()
	}}
}

// unanswered returns a hook that drops the answers of the first transactions that write
// the key, after having done something.
func (b *bench) unanswered(key string, do ...func()) *testetcd.Hook {
	return &testetcd.Hook{Store: b.store, AfterTxn: func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if len(do) == 0 || err != nil || !puts(txn, key) && !removes(txn, key) {
			return res, err
		}
		next := do[0]
		do = do[1:]
		next()
		return nil, errReset
	}}
}

func nothing() {}

// then lets what can't fail stand where an error is asked for.
func then(do func()) func() error {
	return func() error {
		do()
		return nil
	}
}

// cost is how etcd counts the operations of a transaction: the longest of its three
// lists, and on top of that the greatest cost of a nested one.
func cost(txn *etcd.Txn) int {
	inner := 0
	for _, op := range slices.Concat(txn.Then, txn.Else) {
		if nested, is := op.(*etcd.Txn); is {
			inner = max(inner, cost(nested))
		}
	}
	return max(len(txn.If), len(txn.Then), len(txn.Else)) + inner
}
