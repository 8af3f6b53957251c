package stores_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// seat registers waiters for the store as it is, every fourth of whom pulls its wake.
// They are written in groups, since most tests need many.
func (b *bench) seat(key execution.StoreID, n int) (delivered []execution.StepID, pulled []string) {
	b.t.Helper()
	snap := b.get(key)
	var ops []etcd.Op
	for i := range n {
		s := step(execution.ID(fmt.Sprintf("w%03d", i)))
		rec := record.Waiter{Instance: snap.Instance, Since: snap.Version, Paths: []byte("[[]]")}
		if i%4 == 3 {
			rec.Pulled, rec.Event = true, fmt.Appendf(nil, `{"n":%d}`, i)
			pulled = append(pulled, string(rec.Event))
		} else {
			delivered = append(delivered, s)
		}
		ops = append(ops, etcd.Put{Key: b.space.Waiter(storeKey(key), callKey(s)), Value: rec.Encode()})
		if len(ops) == 100 || i == n-1 {
			b.txn(ops...)
			ops = nil
		}
	}
	return delivered, pulled
}

// allWoken fails unless each was woken at least once and at most so often, and nothing
// is left to be done.
func (b *bench) allWoken(delivered []execution.StepID, pulled []string, most int) {
	b.t.Helper()
	b.none(b.space.Waiters(), b.space.Outbox())
	for _, s := range delivered {
		if n := b.wakes.of(s); n < 1 || n > most {
			b.t.Fatalf("%q was woken %d times", s.Execution, n)
		}
	}
	steps, _ := b.wakes.total()
	if steps != len(delivered) {
		b.t.Fatalf("%d were woken, want %d", steps, len(delivered))
	}
	events := b.events()
	slices.Sort(events)
	slices.Sort(pulled)
	if !slices.Equal(events, pulled) {
		b.t.Fatalf("%d events are to be pulled, want %d, each once", len(events), len(pulled))
	}
}

// A commit wakes 500, and no transaction of it comes near etcd's limit of 128 operations.
func TestCommitWakesFiveHundred(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	delivered, pulled := b.seat(counter, 500)
	var most, sent atomic.Int64
	peer := b.peer(&testetcd.Hook{Store: b.store, BeforeTxn: func(txn *etcd.Txn) error {
		sent.Add(1)
		for n := int64(cost(txn)); ; {
			if seen := most.Load(); seen >= n || most.CompareAndSwap(seen, n) {
				return nil
			}
		}
	}})
	_, err := peer.Update(t.Context(), counter, nil, "update", add(1))
	b.must(err)
	t.Logf("%d transactions of at most %d operations", sent.Load(), most.Load())
	if most.Load() > 128 || most.Load() < 16 {
		t.Errorf("the largest transaction has %d operations", most.Load())
	}
	if sent.Load() > 30 {
		t.Errorf("%d transactions", sent.Load())
	}
	b.allWoken(delivered, pulled, 1)
}

// Only who has read what was changed is woken, and only who has not seen it.
func TestCommitWakesWhomItConcerns(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	snap := b.create(counter, "0")
	b.add(counter, 1)
	for name, c := range map[string]struct {
		reads    stores.Paths
		instance string
		since    int64
		woken    bool
	}{
		"the path":          {stores.Paths{{"a", "b"}}, snap.Instance, 1, true},
		"one of the paths":  {stores.Paths{{"x"}, {"c", int64(0)}}, snap.Instance, 1, true},
		"what is above":     {stores.Paths{{"a"}}, snap.Instance, 1, true},
		"what is below":     {stores.Paths{{"a", "b", "c", "d"}}, snap.Instance, 1, true},
		"everything":        {everything, snap.Instance, 1, true},
		"an older version":  {everything, snap.Instance, 0, true},
		"beside it":         {stores.Paths{{"a", "c"}}, snap.Instance, 1, false},
		"another type":      {stores.Paths{{"c", "0"}}, snap.Instance, 1, false},
		"nothing":           {stores.Paths{}, snap.Instance, 1, false},
		"what it brings":    {everything, snap.Instance, 2, false},
		"another instance":  {everything, "0-0", 1, false},
		"a longer sibling":  {stores.Paths{{"ab"}}, snap.Instance, 1, false},
		"a shorter sibling": {stores.Paths{{"a", "bb"}}, snap.Instance, 1, false},
	} {
		raw, err := c.reads.MarshalJSON()
		b.must(err)
		rec := record.Waiter{Instance: c.instance, Since: c.since, Paths: raw}
		b.txn(etcd.Put{Key: b.space.Waiter(storeKey(counter), callKey(step(execution.ID(name)))), Value: rec.Encode()})
		defer func() {
			if n := b.wakes.of(step(execution.ID(name))); n != map[bool]int{true: 1}[c.woken] {
				t.Errorf("%s: woken %d times", name, n)
			}
		}()
	}
	_, err := b.Update(t.Context(), counter, nil, "update", func(stores.Snapshot) (*stores.Mutation, error) {
		return &stores.Mutation{State: []byte("2"), Result: []byte("2"), Changed: stores.Paths{{"a", "b"}, {"c", int64(0)}}}, nil
	})
	b.must(err)
	b.none(b.space.Outbox())
	if n := len(b.keys(b.space.Waiters())); n != 7 {
		t.Errorf("%d waiters are left", n)
	}
}

// A commit that changes nothing that anybody can read leaves everybody asleep.
func TestCommitWithoutPathsWakesNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	s := b.admit("x")
	b.wait(s, counter, "")
	_, err := b.Update(t.Context(), counter, nil, "update", func(stores.Snapshot) (*stores.Mutation, error) {
		return &stores.Mutation{State: []byte("0"), Result: []byte("0")}, nil
	})
	b.must(err)
	b.none(b.space.Outbox())
	if n := len(b.keys(b.space.Waiters())); n != 1 || b.wakes.triesOf(s) != 0 {
		t.Fatalf("%d waiters, %d wakes", n, b.wakes.triesOf(s))
	}
}

// A mortal store's client dies with its n-th request, before it is sent or after it was
// applied: all later ones fail, and it wakes nobody any more.
type mortal struct {
	testetcd.Hook

	left    atomic.Int64
	applied bool
}

func (b *bench) mortal(requests int, applied bool) (*stores.Client, *mortal) {
	m := &mortal{Hook: testetcd.Hook{Store: b.store}, applied: applied}
	m.left.Store(int64(requests))
	before := func() error {
		if n := m.left.Add(-1); n < 0 || n == 0 && !applied {
			return etcd.ErrClosed
		}
		return nil
	}
	m.BeforeTxn = func(*etcd.Txn) error { return before() }
	m.BeforeGet = func(etcd.Get) error { return before() }
	m.AfterTxn = func(_ *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if m.dead() {
			return nil, etcd.ErrClosed
		}
		return res, err
	}
	m.AfterGet = func(_ etcd.Get, res etcd.Result, rev int64, err error) (etcd.Result, int64, error) {
		if m.dead() {
			return etcd.Result{}, 0, etcd.ErrClosed
		}
		return res, rev, err
	}
	return b.peer(m, func(cfg *stores.Config) {
		cfg.Wake = func(ctx context.Context, s execution.StepID) error {
			if m.dead() {
				return errReset
			}
			return b.wakes.wake(ctx, s)
		}
	}), m
}

func (m *mortal) dead() bool { return m.left.Load() <= 0 }

// A crash is a commit whose process dies with its n-th request. The step is then
// delivered anew, and somebody drains what is left. It returns false if the process
// survived.
func (b *bench) crash(requests int, applied bool, waiters int, drain func(*stores.Client)) bool {
	b.t.Helper()
	b.create(counter, "0")
	delivered, pulled := b.seat(counter, waiters)
	s := step("committer")
	client, m := b.mortal(requests, applied)
	_, err := client.Update(b.t.Context(), counter, &s, "update", add(1))
	if err == nil && !m.dead() {
		b.allWoken(delivered, pulled, 1)
		return false
	}
	other := b.peer(b.store)
	res, err := other.Update(b.t.Context(), counter, &s, "update", add(1))
	if got := b.get(counter); err != nil || string(res.Raw) != "1" || got.Version != 1 {
		b.t.Fatalf("the step again: %+v, %v; stored %+v", res, err, got)
	}
	drain(other)
	b.allWoken(delivered, pulled, 2)
	return true
}

// Wherever a process dies, everybody is woken by those who are left.
func TestCrashAtEveryRequest(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprint("applied: ", applied), func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n++ {
				b := newBench(t)
				if !b.crash(n, applied, 7, func(c *stores.Client) { b.must(c.Drain(t.Context(), counter)) }) {
					if n < 8 {
						t.Fatalf("a commit with its drain has %d requests only", n-1)
					}
					return
				}
			}
		})
	}
}

// The same, where nobody commits and the workers' Run is all there is.
func TestCrashAtEveryRequestIsSeenByRun(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		survived := false
		for n := 1; !survived; n++ {
			synctest.Test(t, func(t *testing.T) {
				b, _ := newMemoryBench(t)
				survived = !b.crash(n, applied, 7, func(c *stores.Client) { b.run(c, time.Minute) })
			})
		}
	}
}

// run lets the client's Run work for so long.
func (b *bench) run(c *stores.Client, d time.Duration) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), d)
	defer cancel()
	b.must(c.Run(ctx))
}

// The small case has one page, this one has many.
func TestCrashAmongFiveHundred(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 4, 5, 6, 7, 12, 19, 34} {
		t.Run(fmt.Sprint("request ", n), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			if !b.crash(n, n%2 == 0, 500, func(c *stores.Client) { b.must(c.Drain(t.Context(), counter)) }) {
				t.Fatal("it survived")
			}
		})
	}
}

// A process dies while it wakes: after so many wakes it is gone.
func TestCrashAmongTheWakes(t *testing.T) {
	t.Parallel()
	for _, wakes := range []int64{0, 1, 20, 100, 374} {
		t.Run(fmt.Sprint("after ", wakes), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.create(counter, "0")
			delivered, pulled := b.seat(counter, 500)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			left := atomic.Int64{}
			left.Store(wakes)
			b.wakes.failing(func(context.Context, execution.StepID) error {
				if left.Add(-1) < 0 {
					cancel()
					return errReset
				}
				return nil
			})
			_, err := b.Update(ctx, counter, nil, "update", add(1))
			b.must(err) // the commit stands
			b.wakes.failing(nil)
			b.must(b.peer(b.store).Drain(t.Context(), counter))
			b.allWoken(delivered, pulled, 2)
		})
	}
}

// A step that is woken registers anew before the drain has come to an end. That
// registration stays, and so does the wake of the next change.
func TestDrainLeavesALaterRegistrationAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	b.create(counter, "0")
	b.wait(s, counter, "")
	other := b.peer(b.store)
	b.wakes.failing(func(ctx context.Context, _ execution.StepID) error {
		snap, err := other.Get(ctx, counter)
		if err == nil && snap.Version < 3 {
			_, err = other.Arm(ctx, waiter(s, counter, snap, ""), 0)
		}
		return err
	})
	for want := 1; want <= 3; want++ {
		if b.add(counter, 1); b.wakes.of(s) != want {
			t.Fatalf("woken %d times, want %d", b.wakes.of(s), want)
		}
	}
	b.none(b.space.Waiters(), b.space.Outbox())
}

// While a change is told the store is deleted and created again, and changed by one who
// dies: that change has the same key, and is told too.
func TestDrainLeavesALaterChangeAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, later := b.admit("x"), b.admit("later")
	b.create(counter, "0")
	b.wait(s, counter, "")
	first := true
	b.wakes.failing(func(context.Context, execution.StepID) error {
		if first {
			first = false
			b.must(b.peer(b.store).Delete(t.Context(), counter))
			b.create(counter, "0")
			b.wait(later, counter, "")
			b.commitAndDie(counter)
		}
		return nil
	})
	b.add(counter, 1)
	if n := len(b.keys(b.space.AllChanges())); n != 1 {
		t.Fatalf("%d changes are left to be told", n)
	}
	b.must(b.Drain(t.Context(), counter))
	if b.wakes.of(s) != 1 || b.wakes.of(later) != 1 {
		t.Fatalf("woken %d and %d times", b.wakes.of(s), b.wakes.of(later))
	}
	b.none(b.space.Waiters(), b.space.Outbox())
}

// Changes that nobody has told for a long time are told together, in small pieces.
func TestDrainOfManyChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	snap := b.create(counter, "0")
	delivered, pulled := b.seat(counter, 50)
	for page := range 3 {
		var ops []etcd.Op
		for i := range 100 {
			version := int64(100*page + i + 1)
			rec := record.Change{Instance: snap.Instance, Version: version, Paths: []byte(`[["a"]]`)}
			ops = append(ops, etcd.Put{Key: b.space.Change(storeKey(counter), version), Value: rec.Encode()})
		}
		b.txn(ops...)
	}
	most := 0
	peer := b.peer(&testetcd.Hook{Store: b.store, BeforeTxn: func(txn *etcd.Txn) error {
		most = max(most, cost(txn))
		return nil
	}})
	b.must(peer.Drain(t.Context(), counter))
	if most > 128 {
		t.Errorf("the largest transaction has %d operations", most)
	}
	b.allWoken(delivered, pulled, 1)
}

// Many drain at once: each wake is delivered, by whomever, and nothing is left.
func TestManyDrainAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	delivered, pulled := b.seat(counter, 100)
	b.commitAndDie(counter)
	done := make(chan error)
	const drains = 6
	for range drains {
		go func() { done <- b.peer(b.store).Drain(t.Context(), counter) }()
	}
	for range drains {
		b.must(<-done)
	}
	b.allWoken(delivered, pulled, drains)
}

// A wake that fails hinders no other, does not fail the commit, and stays owed until it
// is delivered: by the next commit, whatever that changes.
func TestFailingWakeHindersNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	delivered, pulled := b.seat(counter, 100)
	bad := delivered[0]
	b.wakes.failing(func(_ context.Context, s execution.StepID) error {
		if s == bad {
			return errRefused
		}
		return nil
	})
	var told atomic.Int64
	observed := b.peer(b.store, func(cfg *stores.Config) {
		cfg.Observer = func(e execution.Event) {
			if e.Kind == execution.EventWakeFailed && e.ID == bad.Execution && e.Operation == bad.Step && e.Err == errRefused { //nolint:errorlint // it is passed on as it is
				told.Add(1)
			}
		}
	})
	_, err := observed.Update(t.Context(), counter, nil, "update", add(1))
	b.must(err)
	for _, s := range delivered[1:] {
		if b.wakes.of(s) != 1 {
			t.Fatalf("%q was woken %d times", s.Execution, b.wakes.of(s))
		}
	}
	if told.Load() == 0 {
		t.Error("the observer was not told")
	}
	b.none(b.space.Waiters(), b.space.AllChanges())
	if n := len(b.keys(b.space.AllOwed())); n != 1 {
		t.Fatalf("%d wakes are owed", n)
	}
	tried := b.wakes.triesOf(bad)
	b.add(counter, 1)
	if n := b.wakes.triesOf(bad); n <= tried {
		t.Fatalf("tried %d times, and not again", n)
	}
	b.wakes.failing(nil)
	_, err = b.Update(t.Context(), counter, nil, "update", func(stores.Snapshot) (*stores.Mutation, error) {
		return &stores.Mutation{State: []byte("9"), Result: []byte("9")}, nil
	})
	b.must(err)
	b.allWoken(delivered, pulled, 1)
}

// Nobody there to wake is no failure.
func TestWakeOfNobodyIsDelivered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	s := b.admit("x")
	b.wait(s, counter, "")
	b.wakes.failing(func(context.Context, execution.StepID) error { return fmt.Errorf("wake: %w", execution.ErrNotFound) })
	b.add(counter, 1)
	b.none(b.space.Waiters(), b.space.Outbox())
}

// Wakes that hang are given up together, not one after the other, whether they are of
// waiters or owed from before.
func TestHangingWakesHangTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		b.create(counter, "0")
		b.wakes.failing(func(ctx context.Context, _ execution.StepID) error {
			<-ctx.Done()
			return ctx.Err()
		})
		delivered, _ := b.seat(counter, 16)
		began := time.Now()
		b.add(counter, 1)
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("a commit with %d hanging wakes took %v", len(delivered), took)
		}
		began = time.Now()
		b.must(b.Drain(t.Context(), counter))
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("a drain of %d hanging wakes took %v", len(delivered), took)
		}
		if n := len(b.keys(b.space.AllOwed())); n != len(delivered) {
			t.Errorf("%d wakes are owed", n)
		}
	})
}

// Nobody is forgotten because a record can't be read: a change is told to everybody, and
// a waiter is woken by every change, and stays for a release that can read it.
func TestUnreadableRecordsWakeWhomTheyMay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	s, bad := b.admit("x"), b.admit("bad")
	w := waiter(s, counter, b.get(counter), "")
	w.Reads = stores.Paths{{"elsewhere"}}
	if stale, err := b.Register(t.Context(), w); stale || err != nil {
		t.Fatal(stale, err)
	}
	garbled := b.space.Waiter(storeKey(counter), callKey(bad))
	b.txn(
		etcd.Put{Key: garbled, Value: []byte("?")},
		etcd.Put{Key: b.space.Change(storeKey(counter), 7), Value: []byte("?")},
	)
	var told atomic.Int64
	observed := b.peer(b.store, func(cfg *stores.Config) {
		cfg.Observer = func(e execution.Event) {
			if e.Kind == execution.EventBadRecord && strings.HasPrefix(e.Operation, b.space.All().Start) && e.Err != nil {
				told.Add(1)
			}
		}
	})
	b.must(observed.Drain(t.Context(), counter))
	if b.wakes.of(s) != 1 || b.wakes.of(bad) != 1 || told.Load() != 2 {
		t.Fatalf("woken %d and %d times; %d records told of", b.wakes.of(s), b.wakes.of(bad), told.Load())
	}
	b.none(b.space.Outbox())
	if keys := b.keys(b.space.Waiters()); len(keys) != 1 {
		t.Fatalf("left: %q", keys)
	}
	b.add(counter, 1)
	if b.wakes.of(bad) != 2 {
		t.Fatalf("woken %d times", b.wakes.of(bad))
	}
	// Where even that fails it is owed, though the waiter stays.
	b.wakes.failing(func(context.Context, execution.StepID) error { return errRefused })
	b.add(counter, 1)
	b.wakes.failing(nil)
	b.must(b.Drain(t.Context(), counter))
	if b.wakes.of(bad) != 3 {
		t.Fatalf("woken %d times after a failure", b.wakes.of(bad))
	}
	b.none(b.space.Outbox())
}

// An unreadable registration of another runtime can't be woken: its event is unknown.
// No execution of the engine is woken in its place.
func TestUnreadableRegistrationOfAnotherRuntime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	s := step("py")
	b.txn(etcd.Put{Key: b.space.Waiter(storeKey(counter), callKey(s)), Value: []byte("?")})
	b.add(counter, 1)
	if b.wakes.triesOf(s) != 0 || len(b.keys(b.space.Waiters())) != 1 {
		t.Fatalf("woken %d times; waiters %q", b.wakes.triesOf(s), b.keys(b.space.Waiters()))
	}
	b.none(b.space.Outbox(), b.space.AllPulled())
}

// What is owed and can't be read is told of, stays, and hinders no other.
func TestUnreadableOwedWakeStays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	key := b.space.Owed(storeKey(counter), "0")
	rec := record.Owed{Execution: "x", Step: "s"}
	b.txn(etcd.Put{Key: key, Value: []byte("?")}, etcd.Put{Key: b.space.Owed(storeKey(counter), "1"), Value: rec.Encode()})
	b.must(b.Drain(t.Context(), counter))
	if keys := b.keys(b.space.Outbox()); len(keys) != 1 || b.wakes.of(step("x")) != 1 {
		t.Fatalf("left %q; woken %d times", keys, b.wakes.of(step("x")))
	}
}

// Events of any size are moved in transactions that etcd takes.
func TestLargeEventsAreMovedInPieces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	var want []string
	for i, size := range []int{510 << 10, execution.MaxPayloadBytes, 1, 300 << 10, 300 << 10, 300 << 10, execution.MaxPayloadBytes, execution.MaxPayloadBytes} {
		event := `"` + strings.Repeat("x", max(size-2, 0)) + `"`
		b.wait(execution.StepID{Execution: execution.ID(fmt.Sprint(i)), Step: strings.Repeat("s", 512)}, counter, event)
		want = append(want, event)
	}
	b.add(counter, 1)
	b.none(b.space.Waiters(), b.space.Outbox())
	got := b.events()
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
}

// Small events with the longest names weigh too.
func TestLongNamesAreMovedInPieces(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	long := strings.Repeat("\x01", 508)
	key := execution.StoreID{Name: long, ID: long}
	b.create(key, "0")
	for i := range 64 {
		s := execution.StepID{Execution: execution.ID(fmt.Sprintf("%03d%s", i, long)), Step: long}
		w := waiter(s, key, b.get(key), `"`+strings.Repeat("e", 12<<10)+`"`)
		w.Workflow = long
		if stale, err := b.Register(t.Context(), w); stale || err != nil {
			t.Fatal(stale, err)
		}
	}
	b.add(key, 1)
	b.none(b.space.Waiters(), b.space.Outbox())
	if got := len(b.events()); got != 64 {
		t.Fatalf("%d events", got)
	}
}
