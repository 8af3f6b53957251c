package store

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// decode returns a copy of a state of its own.
func decode[T any](key execution.StoreID, raw []byte) (T, error) {
	var v, zero T
	if err := json.Unmarshal(raw, &v); err != nil {
		return zero, &misfitError{store: key, into: v, err: err}
	}
	return v, nil
}

// encode renders a state that may be stored. It is validated as it would be read.
func (s *Store[T]) encode(key execution.StoreID, state T) (json.RawMessage, error) {
	refuse := func(err error) (json.RawMessage, error) {
		return nil, &InvalidStateError{Store: key, Err: err}
	}
	raw, copied, err := roundTrip(state)
	if err != nil {
		return refuse(err)
	}
	if len(raw) > execution.MaxPayloadBytes {
		return refuse(fmt.Errorf("it is too large: %d bytes, the limit is %d", len(raw), execution.MaxPayloadBytes))
	}
	if s.validate != nil {
		if err := s.validate(copied); err != nil {
			return refuse(err)
		}
	}
	return raw, nil
}

// roundTrip renders a value as JSON that can be decoded again, and decodes it.
func roundTrip[V any](v V) (json.RawMessage, V, error) {
	var copied V
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, copied, fmt.Errorf("it can't be encoded as JSON: %w", err)
	}
	if stores.Depth(raw) > stores.MaxDepth {
		return nil, copied, fmt.Errorf("it is nested deeper than %d levels", stores.MaxDepth)
	}
	if err := json.Unmarshal(raw, &copied); err != nil {
		return nil, copied, fmt.Errorf("it can't be decoded from its own JSON: %w", err)
	}
	return raw, copied, nil
}

// snapshot decodes what the protocol has read.
func (s *Store[T]) snapshot(key execution.StoreID, snap stores.Snapshot) (Snapshot[T], error) {
	state, err := decode[T](key, snap.State)
	if err != nil {
		return Snapshot[T]{}, err
	}
	return Snapshot[T]{State: state, Instance: snap.Instance, Version: snap.Version}, nil
}

// change runs the updater on a copy of the base and returns what the store is to hold;
// now is what it holds.
func (s *Store[T]) change(key execution.StoreID, now stores.Snapshot, base []byte, fn func(*T) error) (*stores.Mutation, error) {
	state, err := decode[T](key, base)
	if err != nil {
		return nil, err
	}
	if err := fn(&state); err != nil {
		return nil, &callerError{err}
	}
	return s.mutation(key, now, state)
}

// mutation returns the commit of the state.
func (s *Store[T]) mutation(key execution.StoreID, now stores.Snapshot, state T) (*stores.Mutation, error) {
	raw, err := s.encode(key, state)
	if err != nil {
		return nil, err
	}
	changed, err := stores.Diff(now.State, raw)
	if err != nil {
		return nil, err
	}
	return &stores.Mutation{State: raw, Changed: changed}, nil
}

// frame renders what is recorded of the store. What can't be recorded now can't be later.
func frame(key execution.StoreID, value any) (json.RawMessage, error) {
	raw, err := json.Marshal(value)
	if err == nil && stores.Depth(raw) > stores.MaxResultDepth {
		err = fmt.Errorf("it is nested deeper than %d levels", stores.MaxDepth)
	}
	if err != nil {
		return nil, &InvalidStateError{Store: key, Err: fmt.Errorf("what it comes to can't be recorded: %w", err)}
	}
	return raw, nil
}

// An outcome keeps what a mutation came to. With a step it is left to the receipt,
// which may be of an earlier call; without one there is none, and nothing to write.
type outcome struct {
	key  execution.StoreID
	step *execution.StepID
	kept json.RawMessage
}

// outcome returns an empty one.
func (a *act[T]) outcome() outcome { return outcome{key: a.key, step: a.step} }

// put gives the mutation its result.
func (o *outcome) put(m *stores.Mutation, result any) error {
	raw, err := frame(o.key, result)
	if err != nil {
		return err
	}
	o.kept, m.Result = raw, raw
	if o.step == nil {
		m.Result = []byte("null")
	}
	return nil
}

// result returns the result, given the one that the protocol returned.
func (o *outcome) result(returned []byte) json.RawMessage {
	if o.step == nil {
		return o.kept
	}
	return returned
}
