package store_test

import (
	"errors"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// The engine's own stores are not to be had: not to read, and not to change.
func TestReservedNames(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	own := store.Define[board]("holdfast:effect")
	h := own.At("a").On(s.client())
	_, getErr := h.Get(t.Context())
	_, createErr := h.GetOrCreate(t.Context(), board{})
	_, updateErr := h.Update(t.Context(), refuse(t))
	_, listErr := own.List(t.Context(), s.client())
	_, stepErr := store.GetOrCreate(s, "s", own.At("a"), board{})
	for _, err := range []error{getErr, createErr, updateErr, h.Delete(t.Context()), listErr, stepErr} {
		if bad, is := errors.AsType[*execution.InvalidError](err); !is || bad.What != "store name" || bad.Value != "holdfast:effect" {
			t.Errorf("got %v", err)
		}
	}
	if span := s.space.AllStores(); len(s.read(span.Start, span.End)) != 0 {
		t.Error("something was stored")
	}
}
