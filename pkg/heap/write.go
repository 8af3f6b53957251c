package heap

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// WriteStep records one attempt of a step. (RFC 002, writeStep.)
//
//	compare  mod(state) == token, epoch, the record is absent; the event that the
//	         step applies is there
//	then     the record; of a step that waited and is done, the deletion of its
//	         registration at the store; of one that applies an event, its receipt in
//	         the event's place
//	keeps    I3, I4, I5, I10
//
// If the attempt is recorded already, the recorded one is returned unchanged, and
// the caller goes on with it. An event that is not there, while the record is not
// either, gives an [execution.ErrEventGone]. A stale token gives an [execution.ErrLost]; a bad
// key, attempt, response or store an [*execution.InvalidError]; either way nothing
// is stored. Other errors wrap [fencing.ErrUnknown] or say what etcd refused.
func (c *Client) WriteStep(ctx context.Context, lease execution.Lease, w execution.StepWrite) (execution.Step, error) {
	if err := c.validate(lease, w); err != nil {
		return execution.Step{}, err
	}
	key := c.cfg.Space.Step(keyspace.Step{ID: string(lease.ID), Incarnation: lease.Incarnation, Run: lease.Run, Key: w.Key, Attempt: w.Attempt})
	rec := newRecord(lease, w)
	call := fencing.Call{Store: c.cfg.Store, Space: c.cfg.Space, Observer: c.cfg.Observer, Lease: lease, Operation: "writeStep"}
	ans, err := call.Do(ctx, c.demands(key, lease, w), append(c.writes(key, rec, lease, w), c.applies(lease, w)...), []etcd.Op{etcd.Get{Key: key}})
	switch {
	case err != nil:
		return execution.Step{}, fmt.Errorf("step %q: %w", w.Key, err)
	case ans.Applied:
		return step(w.Key, w.Attempt, rec), nil
	}
	old, there, err := c.recorded(ans.Rest[0])
	switch {
	case err != nil:
		return execution.Step{}, fmt.Errorf("step %q attempt %d of %q: %w", w.Key, w.Attempt, string(lease.ID), err)
	case ans.Lost == nil && there, ans.Again && there && old.Token == lease.Token:
		return step(w.Key, w.Attempt, old), nil
	case ans.Lost == nil:
		return execution.Step{}, refused(lease, w)
	case ans.Again && (ans.State == nil || ans.State.Terminal() || ans.State.Run > lease.Run):
		// Its steps may have been deleted since, and this one with them.
		return execution.Step{}, fmt.Errorf("step %q of %q: the execution, or its run, has ended: %w", w.Key, string(lease.ID), fencing.ErrUnknown)
	}
	return execution.Step{}, call.Refuse(ans.Lost)
}

// newRecord is told where the step waits only while it does: by that, the deletion of
// an execution finds its registrations.
func newRecord(lease execution.Lease, w execution.StepWrite) *record.Step {
	rec := &record.Step{Done: w.Done, Place: w.Place, Token: lease.Token, Written: time.Now().UnixMilli(), Response: w.Response}
	if w.Waiter != nil && !w.Done {
		rec.Waiter = new(*w.Waiter)
	}
	return rec
}

// writes puts the record. With the answer of a step that waited, its registration
// goes in the same transaction, so that none outlives its wait.
func (c *Client) writes(key string, rec *record.Step, lease execution.Lease, w execution.StepWrite) []etcd.Op {
	ops := []etcd.Op{etcd.Put{Key: key, Value: rec.Encode()}}
	if w.Waiter == nil || !w.Done {
		return ops
	}
	call := keyspace.CallKey{ID: string(lease.ID), Incarnation: lease.Incarnation, Run: lease.Run, Step: w.Key}
	return append(ops, etcd.Delete{Key: c.cfg.Space.Waiter(keyspace.StoreKey(*w.Waiter), call)})
}

func (c *Client) validate(lease execution.Lease, w execution.StepWrite) error {
	if err := lease.ID.Validate(); err != nil {
		return err
	}
	if err := execution.ValidateName("step key", w.Key); err != nil {
		return err
	}
	if w.Attempt < 0 || w.Attempt > keyspace.MaxCounter {
		return &execution.InvalidError{What: "step attempt", Value: strconv.FormatInt(w.Attempt, 10), Reason: fmt.Sprintf("is not between 0 and %d", int64(keyspace.MaxCounter))}
	}
	if w.Waiter != nil {
		if err := w.Waiter.Validate(); err != nil {
			return fmt.Errorf("step %q waits: %w", w.Key, err)
		}
	}
	if err := validateEvent(w); err != nil {
		return fmt.Errorf("step %q: %w", w.Key, err)
	}
	what := fmt.Sprintf("response of step %q:", w.Key)
	if err := execution.ValidateSize(what, w.Response, c.cfg.MaxResponseBytes); err != nil {
		return err
	}
	if !json.Valid(w.Response) {
		return &execution.InvalidError{What: what, Value: string(w.Response), Reason: "is not JSON"}
	}
	return nil
}

func (c *Client) recorded(r etcd.Result) (*record.Step, bool, error) {
	kv, there := r.One()
	if !there {
		return nil, false, nil
	}
	rec, err := record.DecodeStep(kv.Value)
	return rec, true, err
}

func step(key string, attempt int64, rec *record.Step) execution.Step {
	return execution.Step{
		Key: key, Attempt: attempt, Done: rec.Done, Response: rec.Response,
		Token: rec.Token, Written: time.UnixMilli(rec.Written), Waiter: rec.Waiter, Place: rec.Place,
	}
}
