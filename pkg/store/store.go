package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Store is a kind of state: a name, and the type T of what such stores hold, which
// travels as JSON. [Define] makes one. Each store of the kind has an id of its own: see
// [Store.At].
type Store[T any] struct {
	name     string
	validate func(T) error
	missing  bool // an option was nil; check tells
}

// An Option configures a [Store].
type Option[T any] func(*Store[T])

// Define makes a kind of store. The name, 1 to 512 bytes of UTF-8 without NUL, is part
// of where the state is kept, so it must not change. Names that begin with "holdfast:"
// are the engine's own. A bad name is reported by the first use.
//
// A T must survive its own JSON: what it doesn't encode is lost. Members that others
// have written and T doesn't have are dropped by the next update. In a T, any,
// map[string]any and float64 round numbers beyond 2^53: where others store greater ones
// use json.Number or json.RawMessage.
func Define[T any](name string, opts ...Option[T]) *Store[T] {
	s := &Store[T]{name: name}
	for _, o := range opts {
		if o == nil {
			s.missing = true
			continue
		}
		o(s)
	}
	return s
}

// Validate makes check decide which states may be stored: it is called before every
// creation and every commit, and its error, in an [*InvalidStateError], refuses the
// write. Default: every state is good. check may be called in many goroutines at once
// and must not call a store.
func Validate[T any](check func(T) error) Option[T] {
	return func(s *Store[T]) { s.validate, s.missing = check, s.missing || check == nil }
}

// Name returns the name.
func (s *Store[T]) Name() string { return s.name }

// At refers to the store with the id, 1 to 512 bytes of UTF-8 without NUL, whether it
// exists or not. Whoever uses the same id shares the state.
func (s *Store[T]) At(id string) Ref[T] { return Ref[T]{store: s, id: id} }

// Own refers, in a workflow, to the store whose id is the execution's. It outlives the
// execution unless it is deleted.
func (s *Store[T]) Own() Ref[T] { return Ref[T]{store: s, own: true} }

// List returns the ids of the stores of this kind that exist, in ascending order.
func (s *Store[T]) List(ctx context.Context, c *Client) ([]string, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	raw, err := stores.Of(c)
	if err != nil {
		return nil, fmt.Errorf("list of stores %q: %w", s.name, err)
	}
	return raw.List(ctx, s.name)
}

// check returns what is wrong with the definition.
func (s *Store[T]) check() error {
	switch {
	case s == nil:
		return errors.New("store is nil; make it with Define")
	case s.missing:
		return fmt.Errorf("store %q: an option is nil", s.name)
	}
	return stores.CheckName(s.name)
}

// A Ref refers to one store. It is plain data, and may be copied and kept.
type Ref[T any] struct {
	store *Store[T]
	id    string
	own   bool
}

var errOwn = errors.New("a Ref made by Own is for workflows; use At with the execution's id")

// key returns the store's name and id; own is the execution's, or empty.
func (r Ref[T]) key(own execution.ID) (execution.StoreID, error) {
	if r.store == nil {
		return execution.StoreID{}, errors.New("the Ref is empty; make it with At or Own of a Store")
	}
	if err := r.store.check(); err != nil {
		return execution.StoreID{}, err
	}
	key := execution.StoreID{Name: r.store.name, ID: r.id}
	if r.own {
		if own == "" {
			return key, errOwn
		}
		key.ID = string(own)
	}
	if err := key.Validate(); err != nil {
		return key, fmt.Errorf("store %q: %w", r.store.name, err)
	}
	return key, nil
}

// On returns a handle by which any code, outside of workflows, acts on the store.
func (r Ref[T]) On(c *Client) Handle[T] { return Handle[T]{client: c, ref: r} }
