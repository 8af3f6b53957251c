package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/pkg/store"
)

var deeps = store.Define[json.RawMessage]("deep")

// maxDepth is that of docs/stores.md.
const maxDepth = 9000

// nested returns a document of so many lists.
func nested(levels int) json.RawMessage {
	return json.RawMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels))
}

func deepen(levels int) func(*json.RawMessage) error {
	return func(state *json.RawMessage) error {
		*state = nested(levels)
		return nil
	}
}

// deepCalls make or select something of so many levels.
var deepCalls = map[string]func(holdfast.Context, int) error{
	"update": func(ctx holdfast.Context, n int) error {
		return last(store.Update(ctx, "s", deeps.At("x"), deepen(n)))
	},
	"conditional update": func(ctx holdfast.Context, n int) error {
		from, err := store.Get(ctx, "read", deeps.At("x"))
		if err != nil {
			return err
		}
		return last(store.UpdateFrom(ctx, "s", deeps.At("x"), from, deepen(n)))
	},
	"creation": func(ctx holdfast.Context, n int) error {
		return last(store.GetOrCreate(ctx, "s", deeps.At("new"), nested(n)))
	},
	"a taken value": func(ctx holdfast.Context, n int) error {
		return last(store.Take(ctx, "s", deeps.At("x"), deepest(n), func(*json.RawMessage, json.RawMessage) error { return nil }))
	},
	"a taken value, of the state": func(ctx holdfast.Context, n int) error {
		return last(store.Take(ctx, "s", deeps.At("x"), deepest(1), func(state *json.RawMessage, _ json.RawMessage) error { return deepen(n)(state) }))
	},
	"a value": func(ctx holdfast.Context, n int) error {
		return last(store.When(ctx, "s", deeps.At("x"), deepest(n)))
	},
	"a value until": func(ctx holdfast.Context, n int) error {
		_, err := second(store.WhenUntil(ctx, "s", deeps.At("x"), time.Now().Add(time.Hour), deepest(n)))
		return err
	},
}

func deepest(levels int) func(json.RawMessage) (json.RawMessage, bool) {
	return func(json.RawMessage) (json.RawMessage, bool) { return nested(levels), true }
}

// TestDeepValuesAreRecordedOrNotMade: what could not be read in its record is refused
// before anything is changed, and that is what the step has come to.
func TestDeepValuesAreRecordedOrNotMade(t *testing.T) {
	for name, call := range deepCalls {
		for levels, fits := range map[int]bool{maxDepth: true, maxDepth + 1: false, 9999: false, 10001: false} {
			t.Run(fmt.Sprintf("%s, %d levels", name, levels), func(t *testing.T) {
				holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
					c := env.Client().Stores()
					h := deeps.At("x").On(c)
					if _, err := h.GetOrCreate(env.Context(), nested(1)); err != nil {
						t.Fatal(err)
					}
					run(t, env, twice(t, func(ctx holdfast.Context) (string, error) {
						err := call(ctx, levels)
						if !holdfast.Failed(err) {
							return "made", err
						}
						refused, is := errors.AsType[*holdfast.StepError](err)
						if fits || !is || !strings.Contains(err.Error(), "nested deeper than 9000 levels") && levels < 10000 || len(err.Error()) > 300 {
							t.Errorf("got %v", err)
						}
						if want := map[bool]string{false: store.CodeInvalidState}[strings.Contains(name, "value")]; is && refused.Code != want && name != "a taken value, of the state" {
							t.Errorf("code %q; want %q", refused.Code, want)
						}
						return "refused", nil
					}), "e")
					_, missing := deeps.At("new").On(c).Get(env.Context())
					if snap, err := h.Get(env.Context()); err != nil || !fits && (snap.Version != 0 || missing == nil) {
						t.Errorf("the store is at version %d, %v, %v", snap.Version, err, missing)
					}
				})
			})
		}
	}
}

func TestDeepStatesOutsideOfWorkflows(t *testing.T) {
	t.Parallel()
	h := deeps.At("x").On(newWorld(t).client())
	if _, err := h.GetOrCreate(t.Context(), nested(maxDepth)); err != nil {
		t.Fatal(err)
	}
	_, updateErr := h.Update(t.Context(), deepen(maxDepth+1))
	_, createErr := deeps.At("y").On(newWorld(t).client()).GetOrCreate(t.Context(), nested(maxDepth+1))
	for _, err := range []error{updateErr, createErr} {
		if _, is := errors.AsType[*store.InvalidStateError](err); !is || !strings.Contains(err.Error(), "it is nested deeper than 9000 levels") {
			t.Errorf("got %v", err)
		}
	}
	if snap, err := h.Get(t.Context()); err != nil || snap.Version != 0 {
		t.Errorf("the store is at version %d, %v", snap.Version, err)
	}
}

// A state that is too deep for a record, as an earlier release may have stored it, is
// what a step has durably come to.
func TestDeepStatesThatAreThere(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*scene) error{
		"get":    func(s *scene) error { return last(store.Get(s, "s", deeps.At("x"))) },
		"create": func(s *scene) error { return last(store.GetOrCreate(s, "s", deeps.At("x"), nil)) },
		"when": func(s *scene) error {
			return last(store.When(s, "s", deeps.At("x"), func(state json.RawMessage) (json.RawMessage, bool) { return state, true }))
		},
	} {
		for _, levels := range []int{9999, 10000} {
			s := newScene(t)
			rec := record.Store{Instance: "i", State: nested(levels)}
			s.put(s.space.Store(keyspace.StoreKey{Name: "deep", ID: "x"}), rec.Encode())
			if err := call(s); !replay.Refused(s.err) || !strings.Contains(fmt.Sprint(err), "nested deeper than") && levels < 10000 {
				t.Errorf("%s, %d levels: got %v", name, levels, err)
			}
		}
	}
}
