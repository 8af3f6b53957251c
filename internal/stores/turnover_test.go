package stores_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// turnOver lets the step's execution go on as its next run, and returns the step of
// that name in there.
func (b *bench) turnOver(s execution.StepID) execution.StepID {
	b.t.Helper()
	id, ended := string(s.Execution), s.Run
	s.Run++
	ops := []etcd.Op{etcd.Put{Key: b.space.Params(id, s.Incarnation, s.Run), Value: (&record.Params{Params: []byte(`1`)}).Encode()}}
	if ended > 0 {
		ops = append(ops, etcd.Delete{Key: b.space.Params(id, s.Incarnation, ended)})
	}
	b.txn(ops...)
	return s
}

// acts are the calls that a step makes at a store at this snapshot.
var acts = map[string]func(ctx context.Context, c *stores.Client, s execution.StepID, at stores.Snapshot) error{
	"update": func(ctx context.Context, c *stores.Client, s execution.StepID, _ stores.Snapshot) error {
		_, err := c.Update(ctx, counter, &s, "update", add(1))
		return err
	},
	"commit": func(ctx context.Context, c *stores.Client, s execution.StepID, at stores.Snapshot) error {
		_, err := c.Commit(ctx, counter, &s, "update", at.At(), add(1))
		return err
	},
	"delete": func(ctx context.Context, c *stores.Client, s execution.StepID, at stores.Snapshot) error {
		_, err := c.DeleteFrom(ctx, counter, &s, at.At())
		return err
	},
	"register": func(ctx context.Context, c *stores.Client, s execution.StepID, at stores.Snapshot) error {
		_, err := c.Register(ctx, waiter(s, counter, at, ""))
		return err
	},
	"wait": func(ctx context.Context, c *stores.Client, s execution.StepID, at stores.Snapshot) error {
		_, err := c.Arm(ctx, waiter(s, counter, at, ""), 1)
		return err
	},
}

// Nothing of a run that is not the current one is applied: not of an earlier one, and
// not of one that is yet to come.
func TestOnlyTheCurrentRunActs(t *testing.T) {
	for name, act := range acts {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			first := b.admit("x")
			// An execution with another id, and one with the same that was deleted.
			other := b.admit("x/1")
			b.turnOver(other)
			b.turnOver(execution.StepID{Execution: "x", Incarnation: first.Incarnation - 1, Run: 4})
			second := b.turnOver(first)
			third := second
			third.Run++
			seen := b.create(counter, `7`)
			before := b.dump()
			for _, s := range []execution.StepID{first, third} {
				err := act(t.Context(), b.Client, s, seen)
				lost, is := errors.AsType[*execution.LostError](err)
				if !is || lost.Reason != "the execution went on as another run" {
					t.Errorf("run %d: %v, want lost", s.Run, err)
				}
			}
			b.unchanged(before)
			if err := act(t.Context(), b.Client, second, seen); err != nil {
				t.Errorf("the current run: %v", err)
			}
		})
	}
}

// The run ends between what a step has seen and its transaction.
func TestRunEndsBeforeItsStepCommits(t *testing.T) {
	for name, act := range acts {
		for _, run := range []string{"the first run", "a later run"} {
			t.Run(name+"/"+run, func(t *testing.T) {
				b := newBench(t)
				s := b.admit("x")
				if run == "a later run" {
					s = b.turnOver(s)
				}
				seen := b.create(counter, `7`)
				key := b.space.Store(storeKey(counter))
				if name == "register" || name == "wait" {
					key = b.space.Waiter(storeKey(counter), callKey(s))
				}
				var after map[string]string
				hook := b.before(key, then(func() {
					b.turnOver(s)
					after = b.dump()
				}))
				if err := act(t.Context(), b.peer(hook), s, seen); !errors.Is(err, execution.ErrLost) || after == nil {
					t.Fatalf("%v, want lost", err)
				}
				b.unchanged(after)
			})
		}
	}
}

// Each run has receipts of its own: the same step of two runs is applied twice, and
// one that is repeated within its run once.
func TestEachRunHasItsReceipts(t *testing.T) {
	b := newBench(t)
	s := b.admit("x")
	b.create(counter, `0`)
	for range 3 {
		for range 2 {
			if _, err := b.Update(t.Context(), counter, &s, "update", add(1)); err != nil {
				t.Fatal(err)
			}
		}
		s = b.turnOver(s)
	}
	if got := b.get(counter); string(got.State) != `3` || got.Version != 3 {
		t.Errorf("%s at version %d, want 3 at 3", got.State, got.Version)
	}
}

// A receipt answers its step as long as it is there, whatever run goes on.
func TestReceiptAnswersAfterItsRun(t *testing.T) {
	b := newBench(t)
	s := b.admit("x")
	b.create(counter, `0`)
	if _, err := b.Update(t.Context(), counter, &s, "update", add(1)); err != nil {
		t.Fatal(err)
	}
	b.turnOver(s)
	res, err := b.Update(t.Context(), counter, &s, "update", add(1))
	if err != nil || !res.Repeated || string(res.Raw) != `1` {
		t.Errorf("%+v, %v", res, err)
	}
}

// The answer of a commit is lost, and before it is sent again the run has ended and its
// receipts are deleted: nothing tells whether it was applied, so it is not called lost.
func TestUnansweredCommitOfARunThatHasEnded(t *testing.T) {
	b := newBench(t)
	s := b.admit("x")
	b.create(counter, `0`)
	hook := b.unanswered(b.space.Store(storeKey(counter)), func() {
		b.turnOver(s)
		b.txn(etcd.Delete{Key: b.space.Receipt(callKey(s), storeKey(counter))})
	})
	_, err := b.peer(hook).Update(t.Context(), counter, &s, "update", add(1))
	if !errors.Is(err, fencing.ErrUnknown) || errors.Is(err, execution.ErrLost) || !strings.Contains(err.Error(), "went on") {
		t.Errorf("%v, want an unknown outcome", err)
	}
	if got := b.get(counter); string(got.State) != `1` {
		t.Errorf("%s, want the one commit that was made", got.State)
	}
}
