package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/store"
)

// open selects the first note that is not done, in the state itself.
func open(b board) (*note, bool) {
	for i := range b.Notes {
		if !b.Notes[i].Done {
			return &b.Notes[i], true
		}
	}
	return nil, false
}

// done claims a note that was selected in the state itself.
func done(_ *board, n *note) error {
	n.Done = true
	return nil
}

func TestTakeNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.make("x", board{Notes: []note{{Text: "old", Done: true}, {Text: "one"}}})
	instance := w.get(h).Instance

	got, err := store.TakeNow(t.Context(), h, open, done)
	want := store.Taken[*note]{Matched: true, Selected: &note{"one", true}, Instance: instance, Version: 1}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	got, err = store.TakeNow(t.Context(), h, open, done)
	if want := (store.Taken[*note]{Instance: instance, Version: 1}); err != nil || got != want {
		t.Errorf("nothing matches: got %+v, %v; want %+v", got, err, want)
	}
	if s := w.get(h); s.Version != 1 || !s.State.Notes[1].Done {
		t.Errorf("the store is %+v", s)
	}
}

// TestSelectedValues: what is selected is recorded as it is after the claim where it is
// a pointer into the state, and as it was where it is a copy. Anything matches with
// true.
func TestSelectedValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := func(b board) (note, bool) { return b.Notes[0], true }
	for _, c := range []struct {
		name string
		take func(store.Handle[board]) (any, error)
		want any
	}{
		{"a pointer", func(h store.Handle[board]) (any, error) {
			r, err := store.TakeNow(t.Context(), h, open, done)
			return r.Selected, err
		}, &note{"one", true}},
		{"a copy", func(h store.Handle[board]) (any, error) {
			r, err := store.TakeNow(t.Context(), h, first, func(b *board, n note) error { b.Notes[0].Done = true; return nil })
			return r.Selected, err
		}, note{"one", false}},
		{"a map of the state", func(h store.Handle[board]) (any, error) {
			r, err := store.TakeNow(t.Context(), h, func(b board) (map[string]int, bool) { return b.Marks, true },
				func(b *board, m map[string]int) error { b.Marks["a"]++; return nil })
			return r.Selected, err
		}, map[string]int{"a": 2}},
		{"zero", func(h store.Handle[board]) (any, error) {
			r, err := store.TakeNow(t.Context(), h, func(b board) (int, bool) { return 0, true }, func(*board, int) error { return nil })
			return fmt.Sprint(r.Matched, r.Selected), err
		}, "true 0"},
		{"nil", func(h store.Handle[board]) (any, error) {
			r, err := store.TakeNow(t.Context(), h, func(b board) (*note, bool) { return nil, true }, func(*board, *note) error { return nil })
			return fmt.Sprint(r.Matched, r.Selected), err
		}, "true <nil>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := w.make(c.name, board{Notes: []note{{Text: "one"}}, Marks: map[string]int{"a": 1}})
			if got, err := c.take(h); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
			if s := w.get(h); s.Version != 1 {
				t.Errorf("the store is %+v", s)
			}
		})
	}
}

func TestTakeNowErrorsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.make("x", board{Notes: []note{{Text: "one"}}})
	before := w.get(h)
	channel := func(board) (chan int, bool) { return make(chan int), true }
	for _, c := range []struct {
		name, want string
		err        error
	}{
		{"the claim's own", "full", func() error {
			_, err := store.TakeNow(t.Context(), h, open, func(b *board, n *note) error { n.Done = true; return errFull })
			return err
		}()},
		{"no result", "what the selector selected is no result: it can't be encoded", func() error {
			_, err := store.TakeNow(t.Context(), h, channel, func(b *board, _ chan int) error { b.Title = "changed"; return nil })
			return err
		}()},
		{"no selector", "the selector is nil", func() error {
			_, err := store.TakeNow[board, *note](t.Context(), h, nil, done)
			return err
		}()},
		{"no claim", "the claim is nil", func() error {
			_, err := store.TakeNow(t.Context(), h, open, nil)
			return err
		}()},
		{"no client", "the client is nil", func() error {
			_, err := store.TakeNow(t.Context(), boards.At("x").On(nil), open, done)
			return err
		}()},
		{"no store", "does not exist", func() error {
			_, err := store.TakeNow(t.Context(), boards.At("y").On(w.client()), open, done)
			return err
		}()},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got %v; want %q", c.name, c.err, c.want)
		}
	}
	if _, err := store.TakeNow(t.Context(), h, open, func(*board, *note) error { return errFull }); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	if got := w.get(h); !reflect.DeepEqual(got, before) {
		t.Errorf("the store is %+v", got)
	}
}

// TestEachIsTakenOnce: of many takers, in many processes, each note goes to one.
func TestEachIsTakenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var notes []note
	for i := range 30 {
		notes = append(notes, note{Text: fmt.Sprintf("%02d", i)})
	}
	h := w.make("x", board{Notes: notes})
	var mu sync.Mutex
	var taken []string
	var all sync.WaitGroup
	for range 5 {
		mine := boards.At("x").On(w.client())
		all.Go(func() {
			for {
				got, err := store.TakeNow(t.Context(), mine, open, done)
				if err != nil {
					t.Error(err)
				}
				if !got.Matched || err != nil {
					return
				}
				mu.Lock()
				taken = append(taken, got.Selected.Text)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(taken)
	if n := len(slices.Compact(taken)); n != 30 || len(taken) != 30 {
		t.Errorf("taken %q", taken)
	}
	if s := w.get(h); s.Version != 30 {
		t.Errorf("version %d", s.Version)
	}
}
