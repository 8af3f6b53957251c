package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

var counters = store.Define[int]("counter")

func increment(n *int) error {
	*n++
	return nil
}

// twice makes a workflow of fn that is delivered twice, or more often where a wake comes
// in vain: what each replay is given must be what the first delivery was.
func twice[R any](t *testing.T, fn func(holdfast.Context) (R, error)) *holdfast.Workflow[string, string] {
	var seen []string
	return holdfast.Define("twice", func(ctx holdfast.Context, _ string) (string, error) {
		got, err := fn(ctx)
		if err != nil && !holdfast.Failed(err) {
			return "", err
		}
		seen = append(seen, fmt.Sprintf("%+v %v", got, err))
		if err := holdfast.Sleep(ctx, "again", time.Hour); err != nil {
			return "", err
		}
		if len(seen) < 2 || len(slices.Compact(slices.Clone(seen))) != 1 {
			t.Errorf("saw %q", seen)
		}
		return seen[0], nil
	})
}

// run runs one execution of the workflow, on one worker.
func run(t *testing.T, env *holdfasttest.Env, w *holdfast.Workflow[string, string], id string) string {
	t.Helper()
	env.Worker(w)
	h, err := w.Start(env.Context(), env.Client(), "", holdfast.WithID(id))
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Result(env.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// create makes the board "x" of the test's etcd.
func create(t *testing.T, env *holdfasttest.Env, state board) store.Handle[board] {
	t.Helper()
	h := boards.At("x").On(env.Client().Stores())
	if _, err := h.GetOrCreate(env.Context(), state); err != nil {
		t.Fatal(err)
	}
	return h
}

func update(t *testing.T, env *holdfasttest.Env, h store.Handle[board], fn func(*board) error) {
	t.Helper()
	if _, err := h.Update(env.Context(), fn); err != nil {
		t.Error(err)
	}
}

// The worker dies after the update and before its record. The change is not made
// again, and who takes over is given its result.
func TestUpdateIsMadeOnce(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		ref, runs := counters.At("x"), 0
		add := holdfast.Define("add", func(ctx holdfast.Context, _ string) (store.Result[int], error) {
			if _, err := store.GetOrCreate(ctx, "create", ref, 10); err != nil {
				return store.Result[int]{}, err
			}
			return store.Update(ctx, "add", ref, func(n *int) error {
				runs++
				return increment(n)
			})
		})
		env.BeforeRecord("create", (*holdfasttest.Worker).Crash)
		env.BeforeRecord("add", (*holdfasttest.Worker).Crash)
		env.Worker(add)
		env.Worker(add)
		env.Worker(add)
		h, err := add.Start(env.Context(), env.Client(), "", holdfast.WithID("one"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.Result(env.Context())
		if want := (store.Result[int]{State: 11, Previous: 0, Version: 1}); err != nil || got != want || runs != 1 || env.Calls("add") != 2 {
			t.Errorf("got %+v, %v after %d runs of %d calls; want %+v", got, err, runs, env.Calls("add"), want)
		}
		if snap, err := ref.On(env.Client().Stores()).Get(env.Context()); err != nil || snap.State != 11 || snap.Version != 1 {
			t.Errorf("the store is %+v, %v", snap, err)
		}
	})
}

// The receipt outlives the store: a change is not made again on another instance.
func TestReceiptsOutliveTheStore(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		ref := counters.At("x")
		h := ref.On(env.Client().Stores())
		if _, err := h.GetOrCreate(env.Context(), 1); err != nil {
			t.Fatal(err)
		}
		add := holdfast.Define("add", func(ctx holdfast.Context, _ string) (int, error) {
			r, err := store.Update(ctx, "add", ref, increment)
			return r.State, err
		})
		env.BeforeRecord("add", func(w *holdfasttest.Worker) {
			w.Crash()
			if err := h.Delete(env.Context()); err != nil {
				t.Error(err)
			}
			if _, err := h.GetOrCreate(env.Context(), 100); err != nil {
				t.Error(err)
			}
		})
		env.Worker(add)
		env.Worker(add)
		e, err := add.Start(env.Context(), env.Client(), "")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Result(env.Context()); err != nil || got != 2 {
			t.Errorf("got %d, %v", got, err)
		}
		if snap, err := h.Get(env.Context()); err != nil || snap.State != 100 || snap.Version != 0 {
			t.Errorf("the store is %+v, %v", snap, err)
		}
	})
}

// What a replay is given is what was recorded, whatever the store holds by then.
func TestReplaysSeeTheRecord(t *testing.T) {
	for _, c := range []struct {
		name string
		flow func(*testing.T) *holdfast.Workflow[string, string]
		want string // part of the result
	}{
		{"Get", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (store.Snapshot[board], error) { return store.Get(ctx, "s", boards.At("x")) })
		}, "Title:first"},
		{"GetOrCreate", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (store.Snapshot[board], error) {
				return store.GetOrCreate(ctx, "s", boards.At("x"), board{Title: "mine"})
			})
		}, "Title:first"},
		{"GetOrCreate of none", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (store.Snapshot[board], error) {
				return store.GetOrCreate(ctx, "s", boards.Own(), board{Title: "mine"})
			})
		}, "Title:mine"},
		{"Update", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (store.Result[board], error) {
				return store.Update(ctx, "s", boards.At("x"), title("mine"))
			})
		}, "Title:mine"},
		{"UpdateFrom", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (store.Conditional[board], error) {
				from, err := store.Get(ctx, "read", boards.At("x"))
				if err != nil {
					return store.Conditional[board]{}, err
				}
				return store.UpdateFrom(ctx, "s", boards.At("x"), from, title("mine"))
			})
		}, "Updated:true Result:{State:{Title:mine"},
		{"UpdateFrom an old version", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (store.Conditional[board], error) {
				from, err := store.Get(ctx, "read", boards.At("x"))
				if err != nil {
					return store.Conditional[board]{}, err
				}
				from.Version = 17
				return store.UpdateFrom(ctx, "s", boards.At("x"), from, refuse(t))
			})
		}, "Updated:false"},
		{"DeleteFrom", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (store.Deletion, error) {
				from, err := store.Get(ctx, "read", boards.At("x"))
				if err != nil {
					return store.Deletion{}, err
				}
				return store.DeleteFrom(ctx, "s", boards.At("x"), from)
			})
		}, "Deleted:true"},
		{"DeleteFrom of none", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (store.Deletion, error) {
				return store.DeleteFrom(ctx, "s", boards.At("y"), store.Snapshot[board]{Instance: "abc", Version: 3})
			})
		}, "Deleted:false Reason:not-found Expected:{Instance:abc Version:3}"},
		{"Delete", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (string, error) {
				return "deleted", store.Delete(ctx, "s", boards.At("x"))
			})
		}, "deleted <nil>"},
		{"Take", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (note, error) {
				n, err := store.Take(ctx, "s", boards.At("x"), open, done)
				if err != nil {
					return note{}, err
				}
				return *n, nil
			})
		}, "{Text:one Done:true}"},
		{"When", func(t *testing.T) *holdfast.Workflow[string, string] {
			return twice(t, func(ctx holdfast.Context) (string, error) {
				return store.When(ctx, "s", boards.At("x"), func(b board) (string, bool) { return b.Title, true })
			})
		}, "first <nil>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				h := create(t, env, board{Title: "first", Notes: []note{{Text: "one"}, {Text: "two"}}})
				env.AfterStep("s", func(*holdfasttest.Worker) {
					if err := h.Delete(env.Context()); err != nil {
						t.Error(err)
					}
					create(t, env, board{Title: "second"})
				})
				if got := run(t, env, c.flow(t), "e"); !strings.Contains(got, c.want) {
					t.Errorf("got %s; want %s", got, c.want)
				}
				if n := env.Calls("s"); n != 1 {
					t.Errorf("%d calls", n)
				}
			})
		})
	}
}

// A coded error is what users' own often are.
type codedError struct{}

func (codedError) Error() string { return "declined" }
func (codedError) Code() string  { return "CARD" }

func TestErrorsAreRecorded(t *testing.T) {
	x := boards.At("x")
	checked := store.Define("board", store.Validate(func(b board) error {
		if b.Title == "bad" {
			return errFull
		}
		return nil
	})).At("x")
	claim := func(error) func(*board, *note) error {
		return func(*board, *note) error { return fmt.Errorf("bank: %w", codedError{}) }
	}
	for _, c := range []struct {
		name          string
		call          func(ctx holdfast.Context) error
		code, message string
	}{
		{"get", func(ctx holdfast.Context) error { _, err := store.Get(ctx, "s", boards.At("y")); return err }, "STORE_NOT_FOUND", "does not exist"},
		{"update", func(ctx holdfast.Context) error {
			_, err := store.Update(ctx, "s", boards.At("y"), title(""))
			return err
		}, "STORE_NOT_FOUND", "does not exist"},
		{"when", func(ctx holdfast.Context) error { _, err := store.When(ctx, "s", boards.At("y"), open); return err }, "STORE_NOT_FOUND", "does not exist"},
		{"take", func(ctx holdfast.Context) error {
			_, err := store.Take(ctx, "s", boards.At("y"), open, done)
			return err
		}, "STORE_NOT_FOUND", "does not exist"},
		{"conditional update of none", func(ctx holdfast.Context) error {
			_, err := store.UpdateFrom(ctx, "s", boards.At("y"), store.Snapshot[board]{Instance: "abc"}, title(""))
			return err
		}, "STORE_NOT_FOUND", "does not exist"},
		{"conditional update from nowhere", func(ctx holdfast.Context) error {
			_, err := store.UpdateFrom(ctx, "s", x, store.Snapshot[board]{}, title(""))
			return err
		}, "", "missing instanceId"},
		{"conditional deletion from nowhere", func(ctx holdfast.Context) error {
			_, err := store.DeleteFrom(ctx, "s", x, store.Snapshot[board]{})
			return err
		}, "", "missing instanceId"},
		{"the updater's own", func(ctx holdfast.Context) error {
			_, err := store.Update(ctx, "s", x, func(*board) error { return fmt.Errorf("bank: %w", codedError{}) })
			return err
		}, "CARD", "bank: declined"},
		{"the updater's own, of a lost lease", func(ctx holdfast.Context) error {
			_, err := store.Update(ctx, "s", x, func(*board) error { return fmt.Errorf("bank: %w", &execution.LostError{ID: "theirs"}) })
			return err
		}, "", "bank: "},
		{"the claim's own", func(ctx holdfast.Context) error { _, err := store.Take(ctx, "s", x, open, claim(errFull)); return err }, "CARD", "bank: declined"},
		{"validation", func(ctx holdfast.Context) error { _, err := store.Update(ctx, "s", checked, title("bad")); return err }, "STORE_INVALID_STATE", "is invalid: the board is full"},
		{"validation of a new one", func(ctx holdfast.Context) error {
			_, err := store.GetOrCreate(ctx, "s", store.Define("board", store.Validate(func(board) error { return errFull })).Own(), board{})
			return err
		}, "STORE_INVALID_STATE", "is invalid: the board is full"},
		{"too large for the receipt", func(ctx holdfast.Context) error {
			_, err := store.Update(ctx, "s", x, title(strings.Repeat("x", 700<<10)))
			return err
		}, "STORE_INVALID_STATE", "is too large"},
		{"a selection that is none", func(ctx holdfast.Context) error {
			_, err := store.When(ctx, "s", x, func(board) (chan int, bool) { return nil, true })
			return err
		}, "", "is no result: it can't be encoded as JSON"},
		{"a selector that looks beside its reads", func(ctx holdfast.Context) error {
			_, err := store.Take(ctx, "s", x, func(b board) (int, bool) { return 1, b.Title == "" }, func(*board, int) error { return nil }, store.Reads("notes"))
			return err
		}, "", "let Reads name all that it looks at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				h := create(t, env, board{Title: "first", Notes: []note{{Text: "one"}}})
				var last *holdfast.StepError
				run(t, env, twice(t, func(ctx holdfast.Context) (string, error) {
					err := c.call(ctx)
					if !errors.As(err, &last) {
						t.Errorf("got %v; want a StepError", err)
					}
					if errors.Is(err, store.ErrNotFound) != (c.code == store.CodeNotFound) {
						t.Errorf("%v is, or is not, that the store does not exist", err)
					}
					return "", err
				}), "e")
				if last.Step != "s" || last.Code != c.code || !strings.Contains(last.Message, c.message) || len(last.Message) > 300 {
					t.Errorf("got %+v; want code %q, %q", last, c.code, c.message)
				}
				if snap, err := h.Get(env.Context()); err != nil || snap.Version != 0 {
					t.Errorf("the store is %+v, %v", snap, err)
				}
			})
		})
	}
}

// A panic in a function of the user's is a failed delivery, as it is in a step: it is
// not recorded, the next delivery tries again, and the store is as before.
func TestPanicsFailTheDelivery(t *testing.T) {
	for _, c := range []struct {
		name string
		call func(holdfast.Context, func()) error
	}{
		{"updater", func(ctx holdfast.Context, boom func()) error {
			_, err := store.Update(ctx, "s", boards.At("x"), func(b *board) error { b.Title = "new"; boom(); return nil })
			return err
		}},
		{"selector", func(ctx holdfast.Context, boom func()) error {
			_, err := store.When(ctx, "s", boards.At("x"), func(board) (int, bool) { boom(); return 1, true })
			return err
		}},
		{"claim", func(ctx holdfast.Context, boom func()) error {
			_, err := store.Take(ctx, "s", boards.At("x"), open, func(*board, *note) error { boom(); return nil })
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				create(t, env, board{Notes: []note{{Text: "one"}}})
				runs := 0
				w := holdfast.Define("panics", func(ctx holdfast.Context, _ string) (string, error) {
					return "well", c.call(ctx, func() {
						if runs++; runs == 1 {
							panic("oops")
						}
					})
				})
				if got := run(t, env, w, "e"); got != "well" || runs != 2 {
					t.Errorf("got %s after %d runs", got, runs)
				}
				rec, err := env.Client().Get(env.Context(), "e")
				if err != nil || len(rec.Deliveries) != 2 || rec.Deliveries[0].How != execution.HowReleased {
					t.Errorf("deliveries %+v, %v", rec.Deliveries, err)
				}
			})
		})
	}
}

func TestMisuseFailsTheExecution(t *testing.T) {
	pick := func(b board) (int, bool) { return 1, true }
	for _, c := range []struct {
		name string
		call func(holdfast.Context) error
		want string
	}{
		{"an empty ref", func(ctx holdfast.Context) error { _, err := store.Get(ctx, "s", store.Ref[board]{}); return err }, `store get "s": the Ref is empty`},
		{"a bad id", func(ctx holdfast.Context) error { return store.Delete(ctx, "s", boards.At("")) }, `store deletion "s": store "board": store id ""`},
		{"no updater", func(ctx holdfast.Context) error { _, err := store.Update(ctx, "s", boards.At("x"), nil); return err }, "the function is nil"},
		{"no conditional updater", func(ctx holdfast.Context) error {
			_, err := store.UpdateFrom(ctx, "s", boards.At("x"), store.Snapshot[board]{}, nil)
			return err
		}, "the function is nil"},
		{"no selector", func(ctx holdfast.Context) error {
			_, err := store.When[board, int](ctx, "s", boards.At("x"), nil)
			return err
		}, "the selector is nil"},
		{"no claim", func(ctx holdfast.Context) error {
			_, err := store.Take(ctx, "s", boards.At("x"), pick, nil)
			return err
		}, "the claim is nil"},
		{"a nil option", func(ctx holdfast.Context) error {
			_, err := store.When(ctx, "s", boards.At("x"), pick, nil)
			return err
		}, "an option is nil"},
		{"a misspelt member", func(ctx holdfast.Context) error {
			_, err := store.When(ctx, "s", boards.At("x"), pick, store.Reads("title", "Notes"))
			return err
		}, `Reads names member "Notes", which the JSON of a store_test.board doesn't have`},
		{"a name that is used twice", func(ctx holdfast.Context) error {
			_, err := store.GetOrCreate(ctx, "s", boards.Own(), board{})
			return errors.Join(err, store.Delete(ctx, "s", boards.Own()))
		}, "used twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				w := holdfast.Define("misuse", func(ctx holdfast.Context, _ string) (string, error) { return "", c.call(ctx) })
				env.Worker(w)
				h, err := w.Start(env.Context(), env.Client(), "")
				if err != nil {
					t.Fatal(err)
				}
				_, err = h.Result(env.Context())
				if failed, is := errors.AsType[*holdfast.FailedError](err); !is || !strings.Contains(failed.Message, c.want) {
					t.Errorf("got %v; want %q", err, c.want)
				}
			})
		})
	}
}

// A state that a release can't read is not a failure: another one may be able to.
func TestUnreadableStatesAreRetried(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		h := create(t, env, board{Title: "text"})
		other := store.Define[struct {
			Title int `json:"title"`
		}]("board").At("x")
		w := holdfast.Define("reads", func(ctx holdfast.Context, _ string) (string, error) {
			_, err := store.Get(ctx, "s", other)
			return "read", err
		})
		env.Worker(w)
		e, err := w.Start(env.Context(), env.Client(), "", holdfast.WithID("e"))
		if err != nil {
			t.Fatal(err)
		}
		env.Advance(10 * time.Second)
		if rec, err := env.Client().Get(env.Context(), "e"); err != nil || rec.UnacknowledgedDeliveries == 0 {
			t.Errorf("record %+v, %v", rec, err)
		}
		if err := h.Delete(env.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := other.On(env.Client().Stores()).GetOrCreate(env.Context(), struct {
			Title int `json:"title"`
		}{1}); err != nil {
			t.Fatal(err)
		}
		if got, err := e.Result(env.Context()); err != nil || got != "read" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// Own is the execution's store, and other code finds it by the execution's id.
func TestOwn(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		w := holdfast.Define("own", func(ctx holdfast.Context, _ string) (string, error) {
			_, err := store.GetOrCreate(ctx, "s", counters.Own(), 7)
			return "", err
		})
		run(t, env, w, "order-42")
		ids, err := counters.List(context.Background(), env.Client().Stores())
		if err != nil || !reflect.DeepEqual(ids, []string{"order-42"}) {
			t.Errorf("got %q, %v", ids, err)
		}
	})
}
