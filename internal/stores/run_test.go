package stores_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A running is a client's Run in a bubble.
type running struct {
	*bench

	counts *testetcd.Counts
	events map[execution.EventKind]int // what the observer was told; read it when all is at rest
}

// start runs a client of the bench until the test ends.
func (b *bench) start(store etcd.Store) *running {
	b.t.Helper()
	r := &running{bench: b, events: map[execution.EventKind]int{}}
	store, r.counts = testetcd.Recorder(b.t, store)
	client := b.peer(store, func(cfg *stores.Config) {
		cfg.Observer = func(e execution.Event) { r.events[e.Kind]++ }
	})
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- client.Run(ctx) }()
	b.t.Cleanup(func() {
		cancel()
		began := time.Now()
		if err := <-done; err != nil || time.Since(began) > 0 {
			b.t.Errorf("Run ended with %v after %v", err, time.Since(began))
		}
	})
	synctest.Wait()
	return r
}

// pass lets so much time pass, and everything come to rest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wanted says by when a wake is to be there: the grace, and no more than as long again.
const wanted = 2*time.Second + time.Millisecond

func TestRunAtRestCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		b.create(counter, "0")
		b.wait(step("x"), counter, "")
		r := b.start(b.store)
		pass(24 * time.Hour)
		if r.counts.Total() > 2 {
			t.Errorf("a day without anything to do: %v", r.counts)
		}
		b.add(counter, 1) // by a client that wakes
		pass(time.Minute)
		r.counts.Reset()
		pass(24 * time.Hour)
		if r.counts.Total() > 0 || b.wakes.of(step("x")) != 1 {
			t.Errorf("a day after a change: %v; woken %d times", r.counts, b.wakes.of(step("x")))
		}
	})
}

// What is owed when it begins is delivered, and what comes later, but not before the one
// who committed has had his time.
func TestRunWakesForTheDead(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} {
		t.Run(fmt.Sprint("before it begins: ", early), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, _ := newMemoryBench(t)
				b.create(counter, "0")
				delivered, pulled := b.seat(counter, 40)
				if !early {
					b.start(b.store)
					pass(time.Hour)
				}
				b.commitAndDie(counter)
				if early {
					b.start(b.store)
				}
				pass(900 * time.Millisecond)
				if _, times := b.wakes.total(); times > 0 {
					t.Fatal("nobody was given time to wake")
				}
				pass(wanted - 900*time.Millisecond)
				b.allWoken(delivered, pulled, 1)
			})
		})
	}
}

// One who is slow at waking, but alive, is left to it.
func TestRunLeavesTheLivingAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		b.create(counter, "0")
		delivered, _ := b.seat(counter, 8)
		r := b.start(b.store)
		b.wakes.failing(func(context.Context, execution.StepID) error {
			<-time.After(800 * time.Millisecond)
			return nil
		})
		b.add(counter, 1)
		pass(time.Minute)
		b.none(b.space.Outbox(), b.space.Waiters())
		for _, s := range delivered {
			if b.wakes.triesOf(s) != 1 {
				t.Errorf("%q was woken %d times; %v", s.Execution, b.wakes.triesOf(s), r.counts)
			}
		}
	})
}

// Nor is one whose commit comes shortly before the time of another, who is dead.
func TestRunGivesEachItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		dead, slow := execution.StoreID{Name: "counter", ID: "dead"}, execution.StoreID{Name: "counter", ID: "slow"}
		b.create(dead, "0")
		b.wait(step("d"), dead, "")
		b.create(slow, "0")
		b.wait(step("s"), slow, "")
		b.start(b.store)
		b.commitAndDie(dead)
		pass(700 * time.Millisecond)
		b.wakes.failing(func(_ context.Context, s execution.StepID) error {
			if s == step("s") {
				<-time.After(800 * time.Millisecond)
			}
			return nil
		})
		b.add(slow, 1)
		pass(time.Minute)
		if b.wakes.of(step("d")) != 1 || b.wakes.triesOf(step("s")) != 1 {
			t.Errorf("woken %d and %d times", b.wakes.of(step("d")), b.wakes.triesOf(step("s")))
		}
		b.none(b.space.Outbox(), b.space.Waiters())
	})
}

// Commits that come without end are told all the same, each within its time.
func TestRunAmongManyCommits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		b.create(counter, "0")
		b.start(b.store)
		var steps []execution.StepID
		for i := range 100 {
			s := step(execution.ID(fmt.Sprint(i)))
			steps = append(steps, s)
			key := execution.StoreID{Name: "counter", ID: fmt.Sprint(i % 7)}
			b.create(key, "0")
			b.wait(s, key, "")
			b.commitAndDie(key)
			pass(250 * time.Millisecond)
			if due := i - 9; due >= 0 && b.wakes.of(steps[due]) == 0 {
				t.Fatalf("%d is asleep still", due)
			}
		}
		pass(wanted)
		for _, s := range steps {
			if b.wakes.of(s) != 1 {
				t.Errorf("%q was woken %d times", s.Execution, b.wakes.of(s))
			}
		}
		b.none(b.space.Outbox(), b.space.Waiters())
	})
}

// A wake that fails is tried again, more and more seldom, and delays nobody else's.
func TestRunBacksOffFromAWakeThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		bad, good := step("bad"), step("good")
		b.create(counter, "0")
		b.wait(bad, counter, "")
		b.wakes.failing(func(_ context.Context, s execution.StepID) error {
			if s == bad {
				return errRefused
			}
			return nil
		})
		r := b.start(b.store)
		b.add(counter, 1)
		pass(time.Minute)
		if n := b.wakes.triesOf(bad); n < 4 || n > 10 {
			t.Errorf("tried %d times in a minute", n)
		}
		pass(5 * time.Minute)
		tried := b.wakes.triesOf(bad)
		r.counts.Reset()
		pass(time.Hour)
		if n := b.wakes.triesOf(bad) - tried; n < 100 || n > 130 {
			t.Errorf("tried %d times in an hour", n)
		}
		if n := r.counts.Total(); n > 1000 {
			t.Errorf("an hour of a wake that fails: %v", r.counts)
		}
		other := execution.StoreID{Name: "counter", ID: "two"}
		b.create(other, "0")
		b.wait(good, other, "")
		b.commitAndDie(other)
		pass(wanted + time.Second)
		if b.wakes.of(good) != 1 {
			t.Error("another store's waiter is kept waiting")
		}
		b.wakes.failing(nil)
		pass(31 * time.Second)
		if b.wakes.of(bad) != 1 {
			t.Errorf("woken %d times when it could be", b.wakes.of(bad))
		}
		b.none(b.space.Outbox(), b.space.Waiters())
		pass(time.Minute)
		r.counts.Reset()
		pass(time.Hour)
		if r.counts.Total() > 0 {
			t.Errorf("an hour at rest: %v", r.counts)
		}
	})
}

// A store that can't be drained hinders no other.
func TestRunGoesOnAfterAStoreThatCanNotBeDrained(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		broken := execution.StoreID{Name: "a", ID: "first"}
		span := b.space.WaitersOf(storeKey(broken))
		var barred atomic.Bool
		barred.Store(true)
		r := b.start(&testetcd.Hook{Store: b.store, BeforeGet: func(get etcd.Get) error {
			if barred.Load() && strings.HasPrefix(get.Key, span.Start) {
				return etcd.ErrPermission
			}
			return nil
		}})
		for _, key := range []execution.StoreID{broken, counter} {
			b.create(key, "0")
			b.wait(step(execution.ID(key.ID)), key, "")
			b.commitAndDie(key)
		}
		pass(wanted)
		if b.wakes.of(step("one")) != 1 || b.wakes.of(step("first")) != 0 {
			t.Fatalf("woken %d and %d times", b.wakes.of(step("one")), b.wakes.of(step("first")))
		}
		pass(time.Hour)
		if n := r.counts.Total(); n > 2000 {
			t.Errorf("an hour of a store that can't be drained: %v", r.counts)
		}
		barred.Store(false)
		pass(time.Minute)
		if b.wakes.of(step("first")) != 1 {
			t.Fatal("not woken when it could be")
		}
		b.none(b.space.Outbox(), b.space.Waiters())
	})
}

// A key that nobody can read is told of, stays, and is no reason to look for ever.
func TestRunLeavesAnUnreadableKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		b.create(counter, "0")
		key := b.space.Outbox().Start + "later/form/of/a/key"
		b.txn(etcd.Put{Key: key})
		b.wait(step("x"), counter, "")
		b.commitAndDie(counter)
		r := b.start(b.store)
		pass(time.Minute)
		if b.wakes.of(step("x")) != 1 || r.events[execution.EventBadRecord] == 0 {
			t.Fatalf("woken %d times; told %v", b.wakes.of(step("x")), r.events)
		}
		r.counts.Reset()
		pass(time.Hour)
		if r.counts.Total() > 0 || len(b.keys(b.space.Outbox())) != 1 {
			t.Errorf("an hour later: %v", r.counts)
		}
		b.txn(etcd.Delete{Key: key})
		pass(time.Hour)
		if r.counts.Total() > 0 {
			t.Errorf("an hour after somebody has removed it: %v", r.counts)
		}
	})
}

// An owed wake whose record can't be read is looked at seldom: a release may come that
// reads it.
func TestRunLooksSeldomAtAnUnreadableWake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		b.txn(etcd.Put{Key: b.space.Owed(storeKey(counter), "w"), Value: []byte("?")})
		r := b.start(b.store)
		pass(time.Hour)
		if n := r.events[execution.EventBadRecord]; n < 2 || n > 130 {
			t.Errorf("told %d times in an hour", n)
		}
		rec := record.Owed{Execution: "x", Step: "s"}
		b.txn(etcd.Put{Key: b.space.Owed(storeKey(counter), "w"), Value: rec.Encode()})
		pass(time.Minute)
		if b.wakes.of(step("x")) != 1 {
			t.Errorf("woken %d times", b.wakes.of(step("x")))
		}
	})
}

// The watch breaks, also because what it wants to see is compacted; nothing is missed,
// and every break is told.
func TestRunBeginsAnewAfterABrokenWatch(t *testing.T) {
	t.Parallel()
	for name, reason := range map[string]error{"compacted": &etcd.CompactedError{Revision: 1}, "a lost connection": errReset} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, server := newMemoryBench(t)
				b.create(counter, "0")
				breaks := 3
				r := b.start(server.Client("runner", func(_ context.Context, call memetcd.Call) error {
					if call.Operation == memetcd.Watch && call.Phase == memetcd.Before && breaks > 0 {
						breaks--
						return reason
					}
					return nil
				}))
				for i := range 5 {
					s := step(execution.ID(fmt.Sprint(i)))
					b.wait(s, counter, "")
					b.commitAndDie(counter)
					pass(10 * time.Second)
					if b.wakes.of(s) != 1 {
						t.Fatalf("%d was woken %d times", i, b.wakes.of(s))
					}
				}
				if r.events[execution.EventWatchRestart] != 3 {
					t.Errorf("told %v", r.events)
				}
				b.none(b.space.Outbox(), b.space.Waiters())
			})
		})
	}
}

// While etcd can't be reached Run asks seldom, and it goes on when it can.
func TestRunWaitsForEtcd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		b.create(counter, "0")
		var down atomic.Bool
		down.Store(true)
		r := b.start(&testetcd.Hook{Store: b.store, BeforeGet: func(etcd.Get) error {
			if down.Load() {
				return errReset
			}
			return nil
		}})
		pass(time.Hour)
		if n := r.events[execution.EventWatchRestart]; n < 100 || n > 300 {
			t.Errorf("asked %d times in an hour", n)
		}
		b.wait(step("x"), counter, "")
		b.commitAndDie(counter)
		down.Store(false)
		pass(time.Minute)
		if b.wakes.of(step("x")) != 1 {
			t.Error("not woken")
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := newMemoryBench(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.must(b.Run(ctx))
		b.create(counter, "0")
		b.wait(step("x"), counter, "")
		b.commitAndDie(counter)
		for _, d := range []time.Duration{time.Nanosecond, 500 * time.Millisecond, time.Second, 1100 * time.Millisecond} {
			began := time.Now()
			b.wakes.failing(func(ctx context.Context, _ execution.StepID) error {
				<-ctx.Done()
				return ctx.Err()
			})
			b.run(b.Client, d)
			if took := time.Since(began); took != d {
				t.Errorf("after %v it took %v", d, took)
			}
		}
	})
}
