package stores_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// An update whose answers are dropped after the commit, several times, is applied once.
func TestUnansweredUpdateIsAppliedOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		step *execution.StepID
	}{{"without a step", nil}, {"with a step", new(step("x"))}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.create(counter, "1")
			peer := b.peer(b.unanswered(b.space.Store(storeKey(counter)), nothing, nothing, nothing))
			runs := 0
			res, err := peer.Update(t.Context(), counter, c.step, "update", func(s stores.Snapshot) (*stores.Mutation, error) {
				runs++
				return add(1)(s)
			})
			if got := b.get(counter); err != nil || string(res.Raw) != "2" || runs != 1 || string(got.State) != "2" || got.Version != 1 {
				t.Fatalf("got %+v, %v, %d runs; stored %+v", res, err, runs, got)
			}
		})
	}
}

// The answer is dropped, or the request is, and others commit before it is sent again.
// Without a step the nonce tells the two apart, until it is not kept any more; with one,
// the receipt does.
func TestUnansweredUpdateAmongOthers(t *testing.T) {
	t.Parallel()
	const unknown = -1
	for _, c := range []struct {
		name    string
		applied bool
		others  int
		step    *execution.StepID
		want    int // times that it is applied in the end
	}{
		{"applied, 1 other", true, 1, nil, 1},
		{"applied, 7 others", true, 7, nil, 1},
		{"applied, 8 others", true, 8, nil, unknown},
		{"applied, 20 others", true, 20, nil, unknown},
		{"not applied, 1 other", false, 1, nil, 1},
		{"not applied, 8 others", false, 8, nil, 1},
		{"not applied, 9 others", false, 9, nil, unknown},
		{"applied, 20 others, with a step", true, 20, new(step("x")), 1},
		{"not applied, 20 others, with a step", false, 20, new(step("x")), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.create(counter, "0")
			others := func() {
				for range c.others {
					b.add(counter, 1)
				}
			}
			key := b.space.Store(storeKey(counter))
			hook := b.unanswered(key, others)
			if !c.applied {
				hook = b.before(key, func() error { others(); return errReset })
			}
			_, err := b.peer(hook).Update(t.Context(), counter, c.step, "update", add(100))
			got := b.get(counter)
			if c.want == unknown {
				before := map[bool]int{true: 100}[c.applied]
				if !errors.Is(err, fencing.ErrUnknown) || errors.Is(err, execution.ErrLost) || string(got.State) != fmt.Sprint(before+c.others) {
					t.Fatalf("got %v; stored %+v", err, got)
				}
				return
			}
			if want := fmt.Sprint(100*c.want + c.others); err != nil || string(got.State) != want || got.Version != int64(c.others+c.want) {
				t.Fatalf("got %v; stored %+v", err, got)
			}
		})
	}
}

// Meanwhile the store is deleted and created anew.
func TestUnansweredUpdateOfAnotherInstance(t *testing.T) {
	t.Parallel()
	for _, s := range []*execution.StepID{nil, new(step("x"))} {
		t.Run(fmt.Sprint("with a step: ", s != nil), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.create(counter, "0")
			peer := b.peer(b.unanswered(b.space.Store(storeKey(counter)), func() {
				b.must(b.Delete(t.Context(), counter))
				b.create(counter, "50")
			}))
			res, err := peer.Update(t.Context(), counter, s, "update", add(1))
			if s == nil && !errors.Is(err, fencing.ErrUnknown) {
				t.Fatalf("nobody can know: %+v, %v", res, err)
			}
			if s != nil && (err != nil || string(res.Raw) != "1" || !res.Repeated) {
				t.Fatalf("the receipt is not found: %+v, %v", res, err)
			}
			if got := b.get(counter); string(got.State) != "50" || got.Version != 0 {
				t.Fatalf("the new store was changed: %+v", got)
			}
		})
	}
}

// A commit that is told by its receipt wakes whom it has to wake, as if it had been
// answered.
func TestUnansweredCommitWakes(t *testing.T) {
	t.Parallel()
	for _, s := range []*execution.StepID{nil, new(step("x"))} {
		t.Run(fmt.Sprint("with a step: ", s != nil), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			waiting := b.admit("w")
			b.create(counter, "0")
			b.wait(waiting, counter, "")
			peer := b.peer(b.unanswered(b.space.Store(storeKey(counter)), nothing))
			_, err := peer.Update(t.Context(), counter, s, "update", add(1))
			if b.must(err); b.wakes.of(waiting) != 1 {
				t.Fatalf("woken %d times", b.wakes.of(waiting))
			}
			b.none(b.space.Outbox(), b.space.Waiters())
		})
	}
}

// Every call of a step whose execution was deleted is lost, and changes nothing.
func TestStepsOfADeletedExecutionAreLost(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*stores.Client, context.Context, execution.StepID, stores.Snapshot) error{
		"update": func(c *stores.Client, ctx context.Context, s execution.StepID, _ stores.Snapshot) error {
			_, err := c.Update(ctx, counter, &s, "update", add(1))
			return err
		},
		"commit": func(c *stores.Client, ctx context.Context, s execution.StepID, snap stores.Snapshot) error {
			_, err := c.Commit(ctx, counter, &s, "updateFrom", snap.At(), add(1))
			return err
		},
		"deletion": func(c *stores.Client, ctx context.Context, s execution.StepID, snap stores.Snapshot) error {
			_, err := c.DeleteFrom(ctx, counter, &s, snap.At())
			return err
		},
		"register": func(c *stores.Client, ctx context.Context, s execution.StepID, snap stores.Snapshot) error {
			_, err := c.Register(ctx, waiter(s, counter, snap, ""))
			return err
		},
		"stale register": func(c *stores.Client, ctx context.Context, s execution.StepID, _ stores.Snapshot) error {
			_, err := c.Register(ctx, waiter(s, counter, stores.Snapshot{Instance: "0-0"}, ""))
			return err
		},
		"arm": func(c *stores.Client, ctx context.Context, s execution.StepID, snap stores.Snapshot) error {
			_, err := c.Arm(ctx, waiter(s, counter, snap, ""), 0)
			return err
		},
	}
	ends := map[string]func(*bench){
		"gone":    func(b *bench) { b.txn(etcd.Delete{Key: b.space.State("x")}) },
		"purging": func(b *bench) { b.txn(etcd.Put{Key: b.space.Purging("x")}) },
		"another": func(b *bench) {
			b.txn(etcd.Delete{Key: b.space.State("x")})
			b.admit("x")
		},
	}
	for name, call := range calls {
		for end, do := range ends {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, late: %v", name, end, late), func(t *testing.T) {
					t.Parallel()
					b := newBench(t)
					s, snap := b.admit("x"), b.create(counter, "0")
					client, before := b.Client, map[string]string{}
					deletion := func() error {
						do(b)
						before = b.dump()
						return nil
					}
					if late { // between the look and the write
						first := true
						client = b.peer(&testetcd.Hook{Store: b.store, BeforeTxn: func(txn *etcd.Txn) error {
							if !first || len(txn.If) == 0 {
								return nil
							}
							first = false
							return deletion()
						}})
					} else {
						b.must(deletion())
					}
					err := call(client, t.Context(), s, snap)
					if lost, is := errors.AsType[*execution.LostError](err); !is || lost.ID != "x" || !errors.Is(err, execution.ErrLost) {
						t.Fatalf("got %v", err)
					}
					b.unchanged(before)
				})
			}
		}
	}
}

// While the receipt is there it is the answer, also of an execution that goes.
func TestReceiptComesBeforeTheEndOfTheExecution(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	b.create(counter, "0")
	_, err := b.Update(t.Context(), counter, &s, "update", add(1))
	b.must(err)
	b.txn(etcd.Put{Key: b.space.Purging("x")})
	if res, err := b.Update(t.Context(), counter, &s, "update", never(t)); err != nil || !res.Repeated || string(res.Raw) != "1" {
		t.Fatalf("got %+v, %v", res, err)
	}
}

// Whether it was applied can't be told where the execution, with its receipts, was
// deleted before the answer came; lost would say that it was not.
func TestUnansweredUpdateOfADeletedExecutionIsUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	b.create(counter, "0")
	peer := b.peer(b.unanswered(b.space.Store(storeKey(counter)), func() {
		receipts := b.space.ReceiptsOf("x")
		b.txn(etcd.Delete{Key: b.space.State("x")}, etcd.Delete{Key: receipts.Start, End: receipts.End})
	}))
	if _, err := peer.Update(t.Context(), counter, &s, "update", add(1)); !errors.Is(err, fencing.ErrUnknown) || errors.Is(err, execution.ErrLost) {
		t.Fatalf("got %v", err)
	}
}

// A receipt belongs to one store and one step, not to an instance of the store.
func TestReceiptsAreTheirStepsOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	two := execution.StoreID{Name: "counter", ID: "two"}
	b.create(counter, "0")
	b.create(two, "0")
	engine := b.admit("x")
	steps := []execution.StepID{
		engine,
		{Execution: "x", Incarnation: engine.Incarnation, Step: "t"},
		{Execution: "x", Incarnation: engine.Incarnation, Run: 1, Step: "s"},
		{Execution: "x", Step: "s"}, // another runtime's
		{Execution: "x", Step: "t"},
		{Execution: "x/0", Step: "s"},
		{Execution: "🙂", Step: "s"},
	}
	for _, key := range []execution.StoreID{counter, two} {
		for i, s := range steps {
			if s.Run > 0 {
				b.txn(etcd.Put{Key: b.space.Params("x", s.Incarnation, 1)})
			}
			res, err := b.Update(t.Context(), key, &s, "update", add(1))
			if want := fmt.Sprint(i + 1); err != nil || res.Repeated || string(res.Raw) != want {
				t.Fatalf("step %+v: %+v, %v; want %s", s, res, err, want)
			}
			if s.Run > 0 {
				b.txn(etcd.Delete{Key: b.space.Params("x", s.Incarnation, 1)})
			}
		}
		b.must(b.Delete(t.Context(), key))
		b.create(key, "100")
		for i, s := range steps {
			res, err := b.Update(t.Context(), key, &s, "update", never(t))
			if want := fmt.Sprint(i + 1); err != nil || !res.Repeated || string(res.Raw) != want {
				t.Fatalf("step %+v again, at another instance: %+v, %v; want %s", s, res, err, want)
			}
		}
		if got := b.get(key); string(got.State) != "100" || got.Version != 0 {
			t.Fatalf("the new instance: %+v", got)
		}
	}
}

// An updater that panics, or ends its goroutine, leaves the turn to the next one.
func TestUpdaterThatPanicsLeavesTheTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not come through")
			}
		}()
		_, _ = b.Update(t.Context(), counter, nil, "update", func(stores.Snapshot) (*stores.Mutation, error) { panic("of the updater") })
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := b.Update(ctx, counter, nil, "update", add(1)); err != nil {
		t.Fatal(err)
	}
}

// An update that etcd refuses, or whose context has ended, is no mystery where it was
// not sent.
func TestErrorsOfEtcdAreTold(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{"refused": etcd.ErrPermission, "out of space": etcd.ErrNoSpace, "the connection is closed": etcd.ErrClosed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.create(counter, "0")
			before := b.dump()
			peer := b.peer(b.before(b.space.Store(storeKey(counter)), func() error { return want }))
			_, err := peer.Update(t.Context(), counter, nil, "update", add(1))
			if !errors.Is(err, want) || errors.Is(err, fencing.ErrUnknown) == etcd.IsDefinite(want) {
				t.Fatalf("got %v", err)
			}
			b.unchanged(before)
		})
	}
}

// The namespace is restored, which changes its epoch, between the look and the write:
// what is written then is an update of what is there then.
func TestEpochIsCompared(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	for version, epoch := range []string{"", "a"} {
		if epoch != "" {
			b.txn(etcd.Put{Key: b.space.Epoch(), Value: []byte(epoch)})
		}
		runs := 0
		peer := b.peer(b.before(b.space.Store(storeKey(counter)), then(func() { b.txn(etcd.Put{Key: b.space.Epoch(), Value: []byte("restored")}) })))
		_, err := peer.Update(t.Context(), counter, nil, "update", func(s stores.Snapshot) (*stores.Mutation, error) {
			runs++
			return add(1)(s)
		})
		if got := b.get(counter); err != nil || runs != 2 || got.Version != int64(version)+1 {
			t.Fatalf("from epoch %q: %v; %d runs; stored %+v", epoch, err, runs, got)
		}
	}
}

// A try that was left without an answer may have been applied, also where what is there
// now can't be read.
func TestUnansweredBeforeADamagedRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "1")
	key := b.space.Store(storeKey(counter))
	peer := b.peer(b.unanswered(key, func() { b.txn(etcd.Put{Key: key, Value: []byte("?")}) }))
	_, err := peer.Update(t.Context(), counter, nil, "update", add(1))
	if !errors.Is(err, fencing.ErrUnknown) || !strings.Contains(err.Error(), key) {
		t.Errorf("got %v", err)
	}
}
