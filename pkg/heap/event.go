package heap

import (
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func eventKey(lease execution.Lease, e *execution.AppliedEvent) keyspace.EventKey {
	return keyspace.EventKey{ID: string(lease.ID), Incarnation: lease.Incarnation, Name: e.Name, Event: e.ID}
}

// demands returns the compares of the write beside the guard: the record is not there,
// and the event that it applies is. Nothing but the record of a step deletes an event.
func (c *Client) demands(key string, lease execution.Lease, w execution.StepWrite) []etcd.Compare {
	compares := []etcd.Compare{etcd.Absent(key)}
	if w.Event != nil {
		compares = append(compares, etcd.Present(c.cfg.Space.Event(eventKey(lease, w.Event))))
	}
	return compares
}

// applies returns the operations by which the step applies its event: the receipt comes
// in the event's place.
func (c *Client) applies(lease execution.Lease, w execution.StepWrite) []etcd.Op {
	if w.Event == nil {
		return nil
	}
	key := eventKey(lease, w.Event)
	receipt := record.Applied{
		Digest: w.Event.Digest, Run: lease.Run, Step: w.Key, Token: lease.Token, Written: time.Now().UnixMilli(),
	}
	return []etcd.Op{
		etcd.Delete{Key: c.cfg.Space.Event(key)},
		etcd.Put{Key: c.cfg.Space.Applied(key), Value: receipt.Encode()},
	}
}

func validateEvent(w execution.StepWrite) error {
	switch {
	case w.Event == nil:
		return nil
	case !w.Done:
		return &execution.InvalidError{What: "event", Value: w.Event.Name, Reason: "is applied by a step that is not done"}
	}
	return w.Event.Validate()
}

// refused says why a current token's record is not there and can't be written.
func refused(lease execution.Lease, w execution.StepWrite) error {
	if w.Event != nil {
		return fmt.Errorf("step %q of %q: event %q, %q: %w", w.Key, string(lease.ID), w.Event.Name, w.Event.ID, execution.ErrEventGone)
	}
	return fmt.Errorf("step %q attempt %d of %q: refused without a reason", w.Key, w.Attempt, string(lease.ID))
}
