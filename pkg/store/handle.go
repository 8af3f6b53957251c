package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/stores"
)

// A Handle is how code outside of workflows acts on one store. It is plain data and
// may be copied; [Ref.On] makes one. In a workflow use the package's functions, which
// record what they come to.
//
// Of a change that was not answered, because ctx ended or etcd did not come back, the
// error is a fencing.ErrUnknown, by errors.Is, and it may have been made: read, and
// decide. With any other error nothing has changed.
//
// The calls of one process for one store take turns. One that is made by an updater of
// the same store waits for that, and so for itself, until ctx ends.
type Handle[T any] struct {
	client *Client
	ref    Ref[T]
}

var errNoUpdater = errors.New("the function is nil")

// act begins a call.
func (h Handle[T]) act(op string) (*act[T], error) {
	key, err := h.ref.key("")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	raw, err := stores.Of(h.client)
	if err != nil {
		return nil, fmt.Errorf("%s of %s: %w", op, describe(key), err)
	}
	return &act[T]{store: h.ref.store, client: raw, key: key}, nil
}

// Get reads the store. One that does not exist gives an [ErrNotFound].
func (h Handle[T]) Get(ctx context.Context) (Snapshot[T], error) {
	a, err := h.act("get")
	if err != nil {
		return Snapshot[T]{}, err
	}
	snap, err := a.get(ctx)
	return snap, plain(a.key, err)
}

// GetOrCreate reads the store and, if it does not exist, creates it with the initial
// state. Of several creators one wins, and all are given its store; the initial state
// of the others is neither looked at nor validated.
func (h Handle[T]) GetOrCreate(ctx context.Context, initial T) (Snapshot[T], error) {
	a, err := h.act("creation")
	if err != nil {
		return Snapshot[T]{}, err
	}
	snap, err := a.create(ctx, initial)
	return snap, plain(a.key, err)
}

// Update changes the store by fn, which is given a copy of the state to change. If
// somebody else commits in between, fn runs again, on what is there then; so it does
// nothing but change the copy, and in particular calls no store. Its error is returned
// as it is, and nothing has changed. A store that does not exist gives an
// [ErrNotFound], a state that may not be stored an [*InvalidStateError].
func (h Handle[T]) Update(ctx context.Context, fn func(*T) error) (Result[T], error) {
	a, err := h.act("update")
	if err == nil && fn == nil {
		err = fmt.Errorf("update of %s: %w", describe(a.key), errNoUpdater)
	}
	if err != nil {
		return Result[T]{}, err
	}
	raw, err := a.update(ctx, fn)
	return answer[Result[T]](a, raw, err)
}

// UpdateFrom is Update of a store that must still be at the snapshot's version: fn is
// given a copy of the snapshot's state, runs once, and nothing is tried again. Where
// the store has changed, or is another instance, fn does not run (unless that happened
// just then), and the answer says what is there. A snapshot without an instance is
// refused; a store that does not exist gives an [ErrNotFound].
func (h Handle[T]) UpdateFrom(ctx context.Context, from Snapshot[T], fn func(*T) error) (Conditional[T], error) {
	a, err := h.act("conditional update")
	if err == nil && fn == nil {
		err = fmt.Errorf("conditional update of %s: %w", describe(a.key), errNoUpdater)
	}
	if err != nil {
		return Conditional[T]{}, err
	}
	raw, err := a.updateFrom(ctx, from, fn)
	return answer[Conditional[T]](a, raw, err)
}

// Delete deletes the store, whatever is in it; one that does not exist is fine. Who
// waits for it is not woken.
func (h Handle[T]) Delete(ctx context.Context) error {
	a, err := h.act("deletion")
	if err != nil {
		return err
	}
	return plain(a.key, a.client.Delete(ctx, a.key))
}

// DeleteFrom deletes the store if it is still at the snapshot's version; else the
// answer says what is there. A snapshot without an instance is refused.
func (h Handle[T]) DeleteFrom(ctx context.Context, from Snapshot[T]) (Deletion, error) {
	a, err := h.act("conditional deletion")
	if err != nil {
		return Deletion{}, err
	}
	d, err := a.deleteFrom(ctx, from)
	return deletion(d), plain(a.key, err)
}

// answer decodes what a call has come to.
func answer[R, T any](a *act[T], raw json.RawMessage, err error) (R, error) {
	var out, zero R
	if err != nil {
		return zero, plain(a.key, err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return zero, fmt.Errorf("result of %s does not fit %T: %w", describe(a.key), out, err)
	}
	return out, nil
}
