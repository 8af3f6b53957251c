package stores_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// nested returns a document of so many lists.
func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

func TestDepth(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]int{
		`1`: 0, `"[{"`: 0, `[]`: 1, `{"a":[1,{}],"b":[]}`: 3, `["\"[[[",[]]`: 2, `["\\",[[]]]`: 3, `[],[]`: 1,
		`"[[`: 0, `"\`: 0, ``: 0, `]]]`: 0, nested(1 << 19): 1 << 19,
	} {
		if got := stores.Depth([]byte(doc)); got != want {
			t.Errorf("%.40q: got %d, want %d", doc, got, want)
		}
	}
}

// TestDeepDocumentsChangeNothing: what could not be read in what is around it is
// refused before anything is written.
func TestDeepDocumentsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, what string
		limit      int
		call       func(b *bench, seen stores.Snapshot, doc string) error
	}{
		{"creation", "state", stores.MaxDepth, func(b *bench, _ stores.Snapshot, doc string) error {
			_, err := b.Create(b.t.Context(), execution.StoreID{Name: "new", ID: "x"}, func() ([]byte, error) { return []byte(doc), nil })
			return err
		}},
		{"founding", "state", stores.MaxDepth, func(b *bench, _ stores.Snapshot, doc string) error {
			_, _, err := b.Found(b.t.Context(), execution.StoreID{Name: "new", ID: "x"}, step("e"), []byte(doc))
			return err
		}},
		{"update", "state", stores.MaxDepth, func(b *bench, _ stores.Snapshot, doc string) error {
			_, err := b.Update(b.t.Context(), counter, nil, "update", to(doc, "1"))
			return err
		}},
		{"update with a result", "result", stores.MaxResultDepth, func(b *bench, _ stores.Snapshot, doc string) error {
			_, err := b.Update(b.t.Context(), counter, nil, "update", to("1", doc))
			return err
		}},
		{"conditional update", "state", stores.MaxDepth, func(b *bench, seen stores.Snapshot, doc string) error {
			_, err := b.Commit(b.t.Context(), counter, nil, "updateFrom", seen.At(), to(doc, "1"))
			return err
		}},
		{"registration", "event", stores.MaxDepth, func(b *bench, seen stores.Snapshot, doc string) error {
			_, err := b.Register(b.t.Context(), waiter(step("e"), counter, seen, doc))
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			seen := b.create(counter, "0")
			before := b.dump()
			for _, levels := range []int{c.limit + 1, 100_000} {
				err := c.call(b, seen, nested(levels))
				if bad, is := errors.AsType[*execution.InvalidError](err); !is || bad.What != c.what || bad.Limit != 0 || len(err.Error()) > 300 ||
					!strings.Contains(err.Error(), "is nested deeper than 90") {
					t.Errorf("%d levels: got %v", levels, err)
				}
			}
			b.unchanged(before)
			b.must(c.call(b, seen, nested(c.limit)))
		})
	}
}
