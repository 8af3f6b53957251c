package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// An act is one call for one store: of a step, or of nobody.
type act[T any] struct {
	store  *Store[T]
	client *stores.Client
	key    execution.StoreID
	step   *execution.StepID // nil outside of workflows
}

// get reads the store.
func (a *act[T]) get(ctx context.Context) (Snapshot[T], error) {
	snap, err := a.client.Get(ctx, a.key)
	if err != nil {
		return Snapshot[T]{}, err
	}
	return a.store.snapshot(a.key, snap)
}

// create makes the store if there is none.
func (a *act[T]) create(ctx context.Context, initial T) (Snapshot[T], error) {
	snap, err := a.client.Create(ctx, a.key, func() ([]byte, error) {
		raw, err := a.store.encode(a.key, initial)
		if err == nil && a.step != nil && len(raw) > stores.MaxRecordedBytes {
			err = &InvalidStateError{Store: a.key, Err: fmt.Errorf("it is too large for the step's record: %d bytes, the limit is %d", len(raw), stores.MaxRecordedBytes)}
		}
		return raw, err
	})
	if err != nil {
		return Snapshot[T]{}, err
	}
	return a.store.snapshot(a.key, snap)
}

// update returns a Result as JSON.
func (a *act[T]) update(ctx context.Context, fn func(*T) error) (json.RawMessage, error) {
	out := a.outcome()
	res, err := a.client.Update(ctx, a.key, a.step, stores.KindUpdate, func(now stores.Snapshot) (*stores.Mutation, error) {
		m, err := a.store.change(a.key, now, now.State, fn)
		if err != nil {
			return nil, err
		}
		return m, out.put(m, Result[json.RawMessage]{State: m.State, Previous: now.Version, Version: now.Version + 1})
	})
	return out.result(res.Raw), err
}

// updateFrom returns a Conditional as JSON.
func (a *act[T]) updateFrom(ctx context.Context, from Snapshot[T], fn func(*T) error) (json.RawMessage, error) {
	out := a.outcome()
	res, err := a.client.Commit(ctx, a.key, a.step, stores.KindUpdateFrom, from.at(), func(now stores.Snapshot) (*stores.Mutation, error) {
		base, _, err := roundTrip(from.State)
		if err != nil {
			return nil, &InvalidStateError{Store: a.key, Err: err}
		}
		m, err := a.store.change(a.key, now, base, fn)
		if err != nil {
			return nil, err
		}
		made := Result[json.RawMessage]{State: m.State, Previous: now.Version, Version: now.Version + 1}
		return m, out.put(m, Conditional[json.RawMessage]{Updated: true, Result: made})
	})
	switch {
	case err != nil:
		return nil, err
	case res.Status == stores.Conflict:
		return frame(a.key, Conditional[json.RawMessage]{Reason: ReasonConflict, Expected: Version(from.at()), Actual: Version(res.Current.At())})
	}
	return out.result(res.Result), nil
}

// deleteFrom deletes the store if it is as the snapshot says.
func (a *act[T]) deleteFrom(ctx context.Context, from Snapshot[T]) (stores.Deletion, error) {
	return a.client.DeleteFrom(ctx, a.key, a.step, from.at())
}
