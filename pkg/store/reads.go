package store

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A WaitOption configures one [When], [WhenUntil], [Take] or [TakeUntil].
type WaitOption func(*waitConfig)

type waitConfig struct{ reads [][]string }

// Reads narrows what a wait looks at to the named members of the state, as they are
// called in its JSON. The selector is given a state that has only these, all else is
// zero, and only their changes wake the execution. Default: everything. Options add
// up. A member whose name differs in case alone, as another writer may have it, is the
// same one, as it is to encoding/json.
func Reads(members ...string) WaitOption {
	return func(c *waitConfig) {
		if len(members) == 0 {
			c.reads = append(c.reads, nil)
		}
		for _, m := range members {
			c.reads = append(c.reads, []string{m})
		}
	}
}

// ReadsPath is Reads of one member inside others: ReadsPath("customer", "name"). A path
// that leads through a list looks at all of the list.
func ReadsPath(names ...string) WaitOption {
	return func(c *waitConfig) { c.reads = append(c.reads, slices.Clone(names)) }
}

// newWaitConfig applies the options of a wait for a store of T's.
func newWaitConfig[T any](opts []WaitOption) (waitConfig, error) {
	var c waitConfig
	for _, o := range opts {
		if o == nil {
			return c, errors.New("an option is nil")
		}
		o(&c)
	}
	for _, path := range c.reads {
		if len(path) == 0 {
			return c, errors.New("Reads names no member: such a wait would never be woken")
		}
		if err := checkMember(reflect.TypeFor[T](), path); err != nil {
			return c, err
		}
	}
	return c, nil
}

// checkMember finds a misspelt member, whose wait would never be woken.
func checkMember(t reflect.Type, path []string) error {
	for i, name := range path {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		switch {
		case ownForm(t), t.Kind() == reflect.Map, t.Kind() == reflect.Interface, t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
			return nil // its JSON can't be told from its type, or it is looked at whole
		case t.Kind() != reflect.Struct:
			return fmt.Errorf("Reads names member %q of a %v, which has none", strings.Join(path[:i+1], "."), t)
		}
		field, found := member(t, name)
		if !found {
			return fmt.Errorf("Reads names member %q, which the JSON of a %v doesn't have", strings.Join(path[:i+1], "."), t)
		}
		t = field.Type
	}
	return nil
}

// ownForm says whether the type decides about its JSON itself.
func ownForm(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// member finds the field that is called name in a struct's JSON.
func member(t reflect.Type, name string) (reflect.StructField, bool) {
	for _, f := range reflect.VisibleFields(t) {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Tag.Get("json") == "-", !f.IsExported(), f.Anonymous && tag == "":
		case tag == name && name != "", tag == "" && f.Name == name:
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// A query is what a wait looks for in a state.
type query[T, S any] struct {
	waitConfig
	pick func(T) (S, bool)
}

func newQuery[T, S any](pick func(T) (S, bool), opts []WaitOption) (query[T, S], error) {
	c, err := newWaitConfig[T](opts)
	if pick == nil {
		err = errNoSelector
	}
	return query[T, S]{c, pick}, err
}

var errNoSelector = errors.New("the selector is nil")

// evaluate runs the selector. reads are the paths of which a change may make it match.
func (q *query[T, S]) evaluate(key execution.StoreID, state []byte) (selected S, matched bool, reads stores.Paths, err error) {
	view, reads := json.RawMessage(state), stores.Paths{stores.Path{}}
	if len(q.reads) > 0 {
		if view, reads, err = stores.Project(state, q.reads); err != nil {
			return selected, false, nil, fmt.Errorf("state of %s: %w", describe(key), err)
		}
	}
	t, err := decode[T](key, view)
	if err != nil {
		return selected, false, nil, err
	}
	selected, matched = q.pick(t)
	return selected, matched, reads, nil
}

// encodeSelected renders what a selector has selected.
func encodeSelected[S any](selected S) (json.RawMessage, error) {
	raw, _, err := roundTrip(selected)
	if err != nil {
		return nil, &callerError{fmt.Errorf("what the selector selected is no result: %w", err)}
	}
	return raw, nil
}
