package start

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// EndOf returns the store as whose change the end of the execution is told: that is
// where a step is registered that waits for it.
func EndOf(id execution.ID) execution.StoreID {
	store := keyspace.Ending(string(id))
	return execution.StoreID{Name: store.Name, ID: store.ID}
}

// Ended returns what the execution has come to; nil: it goes on, as was seen at the
// revision. An execution that was deleted gives a [*DeletedError], also if another one
// has its id now.
func (c *Client) Ended(ctx context.Context, target Answer) (outcome *execution.Outcome, seen int64, err error) {
	if err := target.ID.Validate(); err != nil {
		return nil, 0, err
	}
	key := c.cfg.Space.State(string(target.ID))
	res, _, err := fencing.Send(ctx, c.cfg.Store, &etcd.Txn{Then: []etcd.Op{etcd.Get{Key: key}}})
	if err != nil {
		return nil, 0, fmt.Errorf("look for the end of %q: %w", string(target.ID), err)
	}
	return target.look(res.Results[0])
}

// look reads the state of what is waited for.
func (a Answer) look(state etcd.Result) (outcome *execution.Outcome, seen int64, err error) {
	kv, there := state.One()
	if !there || kv.Created != a.Incarnation {
		return nil, 0, &DeletedError{ID: a.ID}
	}
	s, err := record.DecodeState(kv.Value)
	if err != nil {
		return nil, 0, fmt.Errorf("key %q: %w", kv.Key, err)
	}
	if s.Terminal() {
		outcome = &execution.Outcome{Kind: s.Outcome, Result: s.Result, Error: s.Error}
	}
	return outcome, kv.Modified, nil
}

// A Waiting asks for the end of an execution.
type Waiting struct {
	Target Answer // what is waited for
	// Seen is the revision at which [Client.Ended] saw it go on, to begin with; default:
	// Await looks first.
	Seen int64

	Step     execution.StepID // that waits
	Epoch    string           // of its lease
	Attempt  int64            // with which the step's answer will be recorded
	Workflow string           // of the step's execution, for readers
}

// An Ending is what became of an Await. Exactly one field is set.
type Ending struct {
	Outcome  *execution.Outcome // the execution has ended
	Armed    bool               // the step is registered: its execution is woken by the end
	Resolved bool               // the step's answer is recorded already
}

// Await returns what the execution came to, or registers the step that waits for its
// end, unless the step's answer is recorded. The step's wait is recorded before: a
// registration that no record tells of could be left behind for ever.
//
//	compare  state as read, which has not ended; epoch; the step's execution is there, in
//	         its run, and is not being deleted; the step's answer is not there
//	then     the registration, in the place of an earlier one of the step
//	keeps    I9
//
// An execution that was deleted gives a [*DeletedError], also if another one has its id
// now; a step whose own execution was deleted, or whose run has ended, an
// [execution.ErrLost].
func (c *Client) Await(ctx context.Context, w Waiting) (Ending, error) {
	if err := w.Step.Validate(); err != nil {
		return Ending{}, err
	}
	if err := w.Target.ID.Validate(); err != nil {
		return Ending{}, err
	}
	txn := &etcd.Txn{Then: c.waitGets(&w)}
	if w.Seen != 0 {
		txn = c.registration(&w, w.Seen)
	}
	for {
		res, _, err := fencing.Send(ctx, c.cfg.Store, txn)
		if err != nil {
			return Ending{}, fmt.Errorf("wait of step %q of %q for %q: %w", w.Step.Step, string(w.Step.Execution), string(w.Target.ID), err)
		}
		if len(txn.If) > 0 && res.Succeeded {
			return Ending{Armed: true}, nil
		}
		ending, seen, err := w.look(res.Results)
		if err != nil || ending != (Ending{}) {
			return ending, err
		}
		txn = c.registration(&w, seen)
	}
}

// waitGets are the operations whose results look reads.
func (c *Client) waitGets(w *Waiting) []etcd.Op {
	space := c.cfg.Space
	return append([]etcd.Op{
		etcd.Get{Key: space.State(string(w.Target.ID))}, etcd.Get{Key: c.answerKey(w), KeysOnly: true}, etcd.Get{Key: space.Epoch()},
	}, fencing.ReceiptedGets(space, w.Step)...)
}

// answerKey is where the step's answer will be recorded.
func (c *Client) answerKey(w *Waiting) string {
	return c.cfg.Space.Step(keyspace.Step{
		ID: string(w.Step.Execution), Incarnation: w.Step.Incarnation, Run: w.Step.Run, Key: w.Step.Step, Attempt: w.Attempt,
	})
}

// look says what there is to know, or at which revision the execution goes on.
func (w *Waiting) look(results []etcd.Result) (Ending, int64, error) {
	outcome, seen, err := w.Target.look(results[0])
	if err != nil || outcome != nil {
		return Ending{Outcome: outcome}, 0, err
	}
	if _, answered := results[1].One(); answered {
		return Ending{Resolved: true}, 0, nil
	}
	if why := fencing.Gone(w.Step, results[3:]); why != "" {
		return Ending{}, 0, lost("wait", w.Step, why)
	}
	if epoch, _ := results[2].One(); string(epoch.Value) != w.Epoch {
		return Ending{}, 0, lost("wait", w.Step, restored)
	}
	return Ending{}, seen, nil
}

// registration registers the step at an end that was still to come at the revision.
func (c *Client) registration(w *Waiting, seen int64) *etcd.Txn {
	space, id := c.cfg.Space, string(w.Target.ID)
	rec := record.AwaitEnding(w.Target.Incarnation, time.Now().UnixMilli(), w.Workflow)
	return &etcd.Txn{
		If: append([]etcd.Compare{
			etcd.ModIs(space.State(id), seen), etcd.Absent(c.answerKey(w)), etcd.ValueIs(space.Epoch(), w.Epoch),
		}, fencing.Receipted(space, w.Step)...),
		Then: []etcd.Op{etcd.Put{Key: space.Waiter(keyspace.Ending(id), callKey(w.Step)), Value: rec.Encode()}},
		Else: c.waitGets(w),
	}
}
