package store_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

func TestLifeOfAStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.client(), t.Context()
	h := boards.At("a/b ☃").On(c)

	if _, err := h.Get(ctx); !errors.Is(err, store.ErrNotFound) || !errors.Is(err, execution.ErrNotFound) || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("get of none: %v", err)
	}
	if _, err := h.Update(ctx, refuse(t)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("update of none: %v", err)
	}
	first, err := h.GetOrCreate(ctx, board{Title: "one"})
	if err != nil || first.Version != 0 || first.Instance == "" || strings.Trim(first.Instance, "0123456789abcdef-") != "" || first.State.Title != "one" {
		t.Fatalf("created %+v, %v", first, err)
	}
	if again, err := h.GetOrCreate(ctx, board{Title: "two"}); err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("created again: %+v, %v; want %+v", again, err, first)
	}
	for i := range int64(3) {
		text := fmt.Sprint("update ", i)
		r, err := h.Update(ctx, title(text))
		if err != nil || r.Previous != i || r.Version != i+1 || r.State.Title != text {
			t.Errorf("updated to %+v, %v", r, err)
		}
	}
	if got := w.get(h); got.Version != 3 || got.Instance != first.Instance || got.State.Title != "update 2" {
		t.Errorf("got %+v", got)
	}
	for range 2 {
		if err := h.Delete(ctx); err != nil {
			t.Errorf("delete: %v", err)
		}
	}
	if _, err := h.Get(ctx); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get of a deleted one: %v", err)
	}
	if second, err := h.GetOrCreate(ctx, board{}); err != nil || second.Instance == first.Instance || second.Version != 0 {
		t.Errorf("created anew %+v, %v", second, err)
	}
}

func TestListIsOfOneKind(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	others := store.Define[int]("boar")
	for _, id := range []string{"b", "a/c", "a", "B", "a0"} {
		w.make(id, board{})
		if _, err := others.At(id+"!").On(c).GetOrCreate(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	ids, err := boards.List(t.Context(), c)
	if want := []string{"B", "a", "a/c", "a0", "b"}; err != nil || !reflect.DeepEqual(ids, want) {
		t.Errorf("got %q, %v; want %q", ids, err, want)
	}
	if none, err := store.Define[int]("nothing").List(t.Context(), c); err != nil || len(none) != 0 {
		t.Errorf("got %q, %v", none, err)
	}
}

func TestUpdateRunsAgainOnWhatIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, other := w.make("x", board{Title: "0"}), boards.At("x").On(w.client())
	runs := 0
	r, err := h.Update(t.Context(), func(b *board) error {
		if runs++; runs <= 2 {
			if _, err := other.Update(t.Context(), title(fmt.Sprint("other ", runs))); err != nil {
				t.Error(err)
			}
		}
		b.Title += " and mine"
		return nil
	})
	if err != nil || runs != 3 || r.State.Title != "other 2 and mine" || r.Previous != 2 || r.Version != 3 {
		t.Errorf("%d runs, %+v, %v", runs, r, err)
	}
}

func TestUpdateFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.make("x", board{Title: "one"})
	from := w.get(h)

	from.State.Title = "mine" // the base is what the caller says
	got, err := h.UpdateFrom(t.Context(), from, func(b *board) error {
		b.Title += "!"
		return nil
	})
	want := store.Conditional[board]{Updated: true, Result: store.Result[board]{State: board{Title: "mine!"}, Previous: 0, Version: 1}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	got, err = h.UpdateFrom(t.Context(), from, refuse(t))
	old, now := store.Version{Instance: from.Instance}, store.Version{Instance: from.Instance, Version: 1}
	want = store.Conditional[board]{Reason: store.ReasonConflict, Expected: old, Actual: now}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}

	if err := h.Delete(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.UpdateFrom(t.Context(), from, refuse(t)); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of a deleted one: %v", err)
	}
	if _, err := h.UpdateFrom(t.Context(), store.Snapshot[board]{}, refuse(t)); err == nil || !strings.Contains(err.Error(), "missing instanceId") {
		t.Errorf("from nowhere: %v", err)
	}
	anew, err := h.GetOrCreate(t.Context(), board{})
	if err != nil {
		t.Fatal(err)
	}
	got, err = h.UpdateFrom(t.Context(), from, refuse(t))
	if err != nil || got.Updated || got.Actual != (store.Version{Instance: anew.Instance}) {
		t.Errorf("of a store created anew: %+v, %v", got, err)
	}
}

func TestDeleteFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.make("x", board{})
	old := w.get(h)
	if _, err := h.Update(t.Context(), title("new")); err != nil {
		t.Fatal(err)
	}
	now := w.get(h)
	at := func(s store.Snapshot[board]) store.Version {
		return store.Version{Instance: s.Instance, Version: s.Version}
	}
	for _, c := range []struct {
		name string
		from store.Snapshot[board]
		want store.Deletion
	}{
		{"an old snapshot", old, store.Deletion{Reason: store.ReasonConflict, Expected: at(old), Actual: at(now)}},
		{"the current one", now, store.Deletion{Deleted: true}},
		{"it is gone", now, store.Deletion{Reason: store.ReasonNotFound, Expected: at(now)}},
	} {
		if got, err := h.DeleteFrom(t.Context(), c.from); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
	if _, err := h.DeleteFrom(t.Context(), store.Snapshot[board]{}); err == nil || !strings.Contains(err.Error(), "missing instanceId") {
		t.Errorf("from nowhere: %v", err)
	}
}

// A failure of the caller's own.
var errFull = errors.New("the board is full")

func TestErrorsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.client(), t.Context()
	picky := store.Define("board", store.Validate(func(b board) error {
		if b.Title == "" {
			return errFull
		}
		return nil
	}))
	h := picky.At("x").On(c)
	if _, err := h.GetOrCreate(ctx, board{}); !errors.Is(err, errFull) {
		t.Errorf("created an invalid one: %v", err)
	}
	if _, err := h.Get(ctx); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it exists: %v", err)
	}
	from, err := h.GetOrCreate(ctx, board{Title: "good"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.GetOrCreate(ctx, board{}); err != nil {
		t.Errorf("the initial state of a store that exists was validated: %v", err)
	}
	for _, test := range []struct {
		name string
		fn   func(*board) error
		want string // of an invalid state; empty: errFull, as it is
	}{
		{"the updater's own", func(b *board) error { b.Title = "changed"; return errFull }, ""},
		{"validation", title(""), `state of store "board" with id "x" is invalid: the board is full`},
		{"no number", func(b *board) error { b.Free = map[string]any{"n": math.NaN()}; return nil }, "can't be encoded as JSON"},
		{"a channel", func(b *board) error { b.Free = map[string]any{"c": make(chan int)}; return nil }, "can't be encoded as JSON"},
		{"too large", title(strings.Repeat("x", execution.MaxPayloadBytes)), "it is too large: 10486"},
	} {
		for _, do := range []func() error{
			func() error { _, err := h.Update(ctx, test.fn); return err },
			func() error { _, err := h.UpdateFrom(ctx, from, test.fn); return err },
		} {
			switch err := do(); {
			case test.want == "" && err != errFull: //nolint:errorlint // it is returned as it is
				t.Errorf("%s: %v", test.name, err)
			case test.want != "":
				bad, is := errors.AsType[*store.InvalidStateError](err)
				if !is || bad.Code() != "STORE_INVALID_STATE" || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 300 {
					t.Errorf("%s: %v", test.name, err)
				}
			}
		}
	}
	if got := w.get(h); !reflect.DeepEqual(got, from) {
		t.Errorf("the store is %+v; want %+v", got, from)
	}
}

// A stubborn value does not survive its own JSON.
type stubborn struct{ N int }

func (s *stubborn) UnmarshalJSON([]byte) error { return errors.New("no") }

func TestStatesMustSurviveTheirJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := store.Define[stubborn]("stubborn").At("x").On(w.client()).GetOrCreate(t.Context(), stubborn{1})
	if _, is := errors.AsType[*store.InvalidStateError](err); !is || !strings.Contains(err.Error(), "can't be decoded from its own JSON: no") {
		t.Errorf("got %v", err)
	}
	w.make("x", board{Title: "text"})
	other := store.Define[map[string]int]("board").At("x").On(w.client())
	const want = `state of store "board" with id "x" does not fit map[string]int`
	if _, err := other.Get(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a state of another type: %v", err)
	}
	if _, err := other.Update(t.Context(), func(*map[string]int) error { return nil }); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("an update of another type: %v", err)
	}
}

func TestPanicOfAnUpdater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.make("x", board{Title: "one"})
	before := w.get(h)
	func() {
		defer func() {
			if p := recover(); p != "oops" {
				t.Errorf("recovered %v", p)
			}
		}()
		_, _ = h.Update(t.Context(), func(b *board) error {
			b.Title = "changed"
			panic("oops")
		})
	}()
	if got := w.get(h); !reflect.DeepEqual(got, before) {
		t.Errorf("got %+v", got)
	}
	if r, err := h.Update(t.Context(), title("two")); err != nil || r.Version != 1 {
		t.Errorf("the next update: %+v, %v", r, err)
	}
}

// TestStatesAreDetached: whatever callers keep, the store does not change by it.
func TestStatesAreDetached(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.client(), t.Context()
	checked := store.Define("board", store.Validate(func(b board) error {
		b.Marks["validated"] = 1
		return nil
	}))
	h := checked.At("x").On(c)
	initial := board{Marks: map[string]int{"a": 1}, Notes: []note{{Text: "one"}}}
	created, err := h.GetOrCreate(ctx, initial)
	if err != nil {
		t.Fatal(err)
	}
	if _, changed := initial.Marks["validated"]; changed {
		t.Error("validation was given the caller's state")
	}
	initial.Marks["a"], initial.Notes[0].Text = 2, "changed"
	created.State.Marks["a"] = 3
	var kept *board
	r, err := h.Update(ctx, func(b *board) error {
		kept = b
		b.Marks["b"] = 1
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	kept.Marks["b"], kept.Title = 2, "changed"
	r.State.Marks["b"] = 3
	from := w.get(h)
	if _, err := h.UpdateFrom(ctx, from, func(b *board) error { b.Marks["c"] = 1; return nil }); err != nil {
		t.Fatal(err)
	}
	if _, changed := from.State.Marks["c"]; changed {
		t.Error("UpdateFrom has changed the caller's snapshot")
	}
	want := board{Marks: map[string]int{"a": 1, "b": 1, "c": 1}, Notes: []note{{Text: "one"}}}
	if got := w.get(h); !reflect.DeepEqual(got.State, want) {
		t.Errorf("got %+v; want %+v", got.State, want)
	}
}

// Outside of workflows there is no receipt to hold the state once more.
func TestLargeStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.make("x", board{})
	large := strings.Repeat("x", 1000<<10)
	if r, err := h.Update(t.Context(), title(large)); err != nil || r.State.Title != large || r.Version != 1 {
		t.Errorf("update: version %d, %v", r.Version, err)
	}
	from := w.get(h)
	if r, err := h.UpdateFrom(t.Context(), from, title(large+"y")); err != nil || r.Result.State.Title != large+"y" {
		t.Errorf("conditional update: %t, %v", r.Updated, err)
	}
	if r, err := store.TakeNow(t.Context(), h, titled, func(b *board, _ string) error { b.Owner.Age++; return nil }); err != nil || r.Selected != large+"y" {
		t.Errorf("take: %t, %v", r.Matched, err)
	}
}

func TestStatesOfAnyType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	check(t, c, "number", 1, 2)
	check(t, c, "text", "a", "\u2028<&>☃")
	check(t, c, "list", []int{1}, []int{1, 2})
	check(t, c, "no list", []int{1}, nil)
	check(t, c, "pointer", &owner{Name: "a"}, nil)
	check(t, c, "anything", any(1.0), any(map[string]any{"a": []any{nil, true}}))
	check(t, c, "bytes", []byte{0, 255}, []byte{})
}

func check[T any](t *testing.T, c *store.Client, name string, first, second T) {
	t.Helper()
	h := store.Define[T](name).At("x").On(c)
	if got, err := h.GetOrCreate(t.Context(), first); err != nil || !reflect.DeepEqual(got.State, first) {
		t.Errorf("%s: created %v, %v", name, got, err)
	}
	if got, err := h.Update(t.Context(), func(v *T) error { *v = second; return nil }); err != nil || !reflect.DeepEqual(got.State, second) {
		t.Errorf("%s: updated to %v, %v", name, got, err)
	}
	if got, err := h.Get(t.Context()); err != nil || got.Version != 1 || !reflect.DeepEqual(got.State, second) {
		t.Errorf("%s: got %v, %v", name, got, err)
	}
}

func TestMisuseIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, ctx := w.client(), t.Context()
	update := func(h store.Handle[board], fn func(*board) error) error { _, err := h.Update(ctx, fn); return err }
	good := boards.At("x").On(c)
	for _, test := range []struct {
		name, want string
		err        error
	}{
		{"an empty handle", "the Ref is empty", update(store.Handle[board]{}, refuse(t))},
		{"an empty ref", "the Ref is empty", update(store.Ref[board]{}.On(c), refuse(t))},
		{"no client", "the client is nil", update(boards.At("x").On(nil), refuse(t))},
		{"an empty client", "the client is nil", update(boards.At("x").On(&store.Client{}), refuse(t))},
		{"no function", "the function is nil", update(good, nil)},
		{"no id", `store id ""`, update(boards.At("").On(c), refuse(t))},
		{"a long id", "store id", update(boards.At(strings.Repeat("x", 513)).On(c), refuse(t))},
		{"an id with NUL", "store id", update(boards.At("a\x00").On(c), refuse(t))},
		{"no name", `store name ""`, update(store.Define[board]("").At("x").On(c), refuse(t))},
		{"a nil option", `store "board": an option is nil`, update(store.Define[board]("board", nil).At("x").On(c), refuse(t))},
		{"a nil check", `store "board": an option is nil`, update(store.Define("board", store.Validate[board](nil)).At("x").On(c), refuse(t))},
		{"Own outside of a workflow", "is for workflows", update(boards.Own().On(c), refuse(t))},
		{"a nil store", "the Ref is empty", update((*store.Store[board])(nil).At("x").On(c), refuse(t))},
		{"a conditional update without a function", "the function is nil", func() error { _, err := good.UpdateFrom(ctx, store.Snapshot[board]{}, nil); return err }()},
		{"list without a client", "the client is nil", func() error { _, err := boards.List(ctx, nil); return err }()},
		{"list of a nil store", "store is nil", func() error { _, err := (*store.Store[board])(nil).List(ctx, c); return err }()},
		{"get", "the client is nil", func() error { _, err := boards.At("x").On(nil).Get(ctx); return err }()},
		{"create", "the client is nil", func() error { _, err := boards.At("x").On(nil).GetOrCreate(ctx, board{}); return err }()},
		{"delete", "the client is nil", boards.At("x").On(nil).Delete(ctx)},
		{"conditional delete", "the client is nil", func() error { _, err := boards.At("x").On(nil).DeleteFrom(ctx, store.Snapshot[board]{}); return err }()},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", test.name, test.err, test.want)
		}
	}
	if ids, err := boards.List(ctx, c); err != nil || len(ids) != 0 {
		t.Errorf("something was created: %q, %v", ids, err)
	}
}
