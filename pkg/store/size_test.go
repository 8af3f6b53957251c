package store_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// A change that is too large is refused before it is made: none is made whose step
// can't be recorded. Each '<' takes six bytes in a record.
func TestLargeChangesAreRecordedOrNotMade(t *testing.T) {
	angles := func(n int) string { return strings.Repeat("<", n) }
	for _, c := range []struct {
		name  string
		limit int // how many would fit without anything around
		call  func(ctx holdfast.Context, ref store.Ref[board], n int) error
	}{
		{"update", 1280 << 10 / 12, func(ctx holdfast.Context, ref store.Ref[board], n int) error {
			return last(store.Update(ctx, "s", ref, title(angles(n))))
		}},
		{"conditional update", 1280 << 10 / 12, func(ctx holdfast.Context, ref store.Ref[board], n int) error {
			from, err := store.Get(ctx, "read", ref)
			if err != nil {
				return err
			}
			return last(store.UpdateFrom(ctx, "s", ref, from, title(angles(n))))
		}},
		{"take", execution.MaxPayloadBytes / 6, func(ctx holdfast.Context, ref store.Ref[board], n int) error {
			return last(store.Take(ctx, "s", ref, func(board) (string, bool) { return angles(n), true },
				func(b *board, _ string) error { b.Title = "taken"; return nil }))
		}},
		{"creation", execution.MaxPayloadBytes / 6, func(ctx holdfast.Context, _ store.Ref[board], n int) error {
			ref := boards.At("created " + strconv.Itoa(n))
			return last(store.GetOrCreate(ctx, "s", ref, board{Title: angles(n)}))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				w := holdfast.Define("large", func(ctx holdfast.Context, n int) (string, error) {
					err := c.call(ctx, boards.At(strconv.Itoa(n)), n)
					if refused, is := errors.AsType[*holdfast.StepError](err); is {
						return refused.Code, nil
					}
					return "made", err
				})
				env.Worker(w)
				seen := map[string]int{}
				for _, less := range []int{200, 172, 170, 40, 20, 18, 16, 14, 10, 1, 0, -1} {
					got := changeLarge(t, env, w, c.limit-less)
					seen[got]++
				}
				if seen["made"] == 0 || seen[store.CodeInvalidState] == 0 || len(seen) != 2 {
					t.Errorf("changes were %v; want some made and some refused", seen)
				}
			})
		})
	}
}

// changeLarge runs the workflow with a board of its own, and returns what it says, if
// that is true.
func changeLarge(t *testing.T, env *holdfasttest.Env, w *holdfast.Workflow[int, string], n int) string {
	t.Helper()
	c := env.Client().Stores()
	if _, err := boards.At(strconv.Itoa(n)).On(c).GetOrCreate(env.Context(), board{}); err != nil {
		t.Fatal(err)
	}
	e, err := w.Start(env.Context(), env.Client(), n)
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Result(env.Context())
	if err != nil {
		t.Fatal(err)
	}
	snap, err := boards.At(strconv.Itoa(n)).On(c).Get(env.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = boards.At("created " + strconv.Itoa(n)).On(c).Get(env.Context())
	if changed := snap.Version == 1 || err == nil; changed != (got == "made") {
		t.Errorf("%d: %s, and the store is at version %d, %v", n, got, snap.Version, err)
	}
	return got
}
