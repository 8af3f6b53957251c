package store_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// takeTitle takes the title of the board "x", so that there is none any more.
func takeTitle(ctx holdfast.Context, deadline time.Time) (string, error) {
	got, matched, err := store.TakeUntil(ctx, "s", boards.At("x"), deadline, titled, func(b *board, _ string) error {
		b.Title = ""
		return nil
	}, store.Reads("title"))
	return fmt.Sprint(got, matched), err
}

func TestTakeUntil(t *testing.T) {
	for _, c := range []struct {
		name  string
		first string        // title
		comes time.Duration // when there is one
		want  string
		left  string
	}{
		{"at once", "ready", 0, "readytrue at 00:00:00", ""},
		{"before the deadline", "", time.Hour, "readytrue at 01:00:00", ""},
		{"after the deadline", "", 3 * time.Hour, "false at 02:00:00", "ready"},
	} {
		t.Run(c.name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				h := create(t, env, board{Title: c.first})
				began := time.Now()
				deadline := began.Add(2 * time.Hour)
				w := waiting(func(ctx holdfast.Context) (string, error) {
					got, err := takeTitle(ctx, deadline)
					return fmt.Sprint(got, " at ", time.Time{}.Add(time.Since(began).Truncate(time.Minute)).Format(time.TimeOnly)), err
				})
				env.Worker(w)
				e, err := w.Start(env.Context(), env.Client(), "", holdfast.WithID("e"))
				if err != nil {
					t.Fatal(err)
				}
				if c.comes > 0 {
					env.Advance(c.comes)
					update(t, env, h, title("ready"))
				}
				wantResult(t, env, e, c.want)
				if snap, err := h.Get(env.Context()); err != nil || snap.State.Title != c.left {
					t.Errorf("left %+v, %v; want %q", snap, err, c.left)
				}
			})
		})
	}
}

// TestTimeoutOfATakeForestallsIt: a stale holder of the execution looks again, when the
// current one has come to the time-out: it takes nothing, for nobody would be given it.
// And the other way round.
func TestTimeoutOfATakeForestallsIt(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"takeUntil late", "takeUntil"}, {"takeUntil", "takeUntil late"}} {
		s := newScene(t)
		h := s.make("x", board{})
		item := func() {
			if _, err := h.Update(t.Context(), func(b *board) error { b.Notes = []note{{Text: "one"}}; return nil }); err != nil {
				t.Fatal(err)
			}
		}
		want := `{"matched":false}`
		if order[0] == "takeUntil" {
			item()
		}
		if _, err := calls[order[0]](s); err != nil {
			t.Fatal(err)
		}
		if order[0] == "takeUntil" {
			want = string(s.answer.Result)
		} else {
			item()
		}
		_, err := calls[order[1]](s)
		if got := string(s.answer.Result); err != nil || got != want {
			t.Errorf("%v: got %s, %v; want %s", order, got, err, want)
		}
		if snap := s.get(h); snap.Version != 2 || snap.State.Notes[0].Done != (order[0] == "takeUntil") {
			t.Errorf("%v: the store is %+v", order, snap)
		}
	}
}

// TestReceiptsOfOtherCalls: the receipt of a step that was another call in another
// release is no answer. That is not recorded: the other release may come back.
func TestReceiptsOfOtherCalls(t *testing.T) {
	t.Parallel()
	receipted := []string{"update", "updateFrom", "deleteFrom", "take", "takeUntil"}
	for _, first := range receipted {
		for _, second := range receipted {
			if first == second {
				continue
			}
			s := newScene(t)
			s.make("x", board{Notes: []note{{Text: "one"}, {Text: "two"}}})
			if _, err := calls[first](s); err != nil {
				t.Fatal(err)
			}
			if first == "deleteFrom" {
				s.make("x", board{Notes: []note{{Text: "one"}}})
			}
			_, err := calls[second](s)
			if _, is := errors.AsType[*stores.ReceiptError](err); !is || replay.Refused(err) || errors.Is(err, execution.ErrLost) {
				t.Errorf("%s after %s: got %v", second, first, err)
			}
		}
	}
}
