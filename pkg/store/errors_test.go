package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// errAway is what etcd says when it is asked.
var errAway = errors.New("refused by the test")

// TestErrorsNameTheStoreOnce: an error says what was to be done with which store, each
// once, the same in every way that leads there.
func TestErrorsNameTheStoreOnce(t *testing.T) {
	t.Parallel()
	type calls map[string]func(context.Context, store.Handle[board]) error
	all := calls{
		"get":      func(ctx context.Context, h store.Handle[board]) error { return last(h.Get(ctx)) },
		"creation": func(ctx context.Context, h store.Handle[board]) error { return last(h.GetOrCreate(ctx, board{})) },
		"update":   func(ctx context.Context, h store.Handle[board]) error { return last(h.Update(ctx, title("new"))) },
		"deletion": func(ctx context.Context, h store.Handle[board]) error { return h.Delete(ctx) },
		"take":     func(ctx context.Context, h store.Handle[board]) error { return last(store.TakeNow(ctx, h, open, done)) },
		"conditional update": func(ctx context.Context, h store.Handle[board]) error {
			return last(h.UpdateFrom(ctx, store.Snapshot[board]{Instance: "a"}, title("new")))
		},
		"conditional deletion": func(ctx context.Context, h store.Handle[board]) error {
			return last(h.DeleteFrom(ctx, store.Snapshot[board]{Instance: "a"}))
		},
	}
	w := newWorld(t)
	other := store.Define[int]("board").At("number").On(w.client())
	if _, err := other.GetOrCreate(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	away := *w
	away.gate = func(context.Context, memetcd.Call) error { return errAway }
	nowhere := store.Snapshot[board]{}
	for name, call := range all {
		for when, h := range map[string]store.Handle[board]{
			"without a client": boards.At("x").On(nil),
			"without an id":    boards.At("").On(w.client()),
			"of no store":      boards.At("none").On(w.client()),
			"of a number":      boards.At("number").On(w.client()),
			"without etcd":     boards.At("x").On(away.client()),
		} {
			ctx, cancel := context.WithCancel(t.Context())
			if when == "without etcd" {
				cancel() // it is not tried again
			}
			err := call(ctx, h)
			cancel()
			if err == nil {
				continue // of a store that is absent a creation makes one, say
			}
			text := err.Error()
			if strings.Count(text, `"board"`) != 1 {
				t.Errorf("%s %s: %s", name, when, text)
			}
			if when == "without a client" || when == "without etcd" {
				if !strings.HasPrefix(text, name+` of store "board" with id "x": `) {
					t.Errorf("%s %s: %s", name, when, text)
				}
			}
		}
	}
	h := boards.At("none").On(w.client())
	_, updateErr := h.UpdateFrom(t.Context(), nowhere, title("new"))
	_, deleteErr := h.DeleteFrom(t.Context(), nowhere)
	for want, err := range map[string]error{
		`conditional update of store "board" with id "none": missing instanceId: instance "" is empty; pass the one of the snapshot`:   updateErr,
		`conditional deletion of store "board" with id "none": missing instanceId: instance "" is empty; pass the one of the snapshot`: deleteErr,
	} {
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}
