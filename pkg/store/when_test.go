package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// titled selects the title once there is one.
func titled(b board) (string, bool) { return b.Title, b.Title != "" }

// waiting is a workflow that makes the one call "s".
func waiting(call func(holdfast.Context) (string, error)) *holdfast.Workflow[string, string] {
	return holdfast.Define("waiting", func(ctx holdfast.Context, _ string) (string, error) { return call(ctx) })
}

// start starts an execution of the workflow, with one worker, and returns when it waits.
func start(t *testing.T, env *holdfasttest.Env, w *holdfast.Workflow[string, string]) holdfast.Handle[string] {
	t.Helper()
	env.Worker(w)
	h, err := w.Start(env.Context(), env.Client(), "", holdfast.WithID("e"))
	if err != nil {
		t.Fatal(err)
	}
	env.Advance(time.Second)
	wantSuspended(t, env)
	return h
}

// wantSuspended demands that the execution waits, and holds nothing.
func wantSuspended(t *testing.T, env *holdfasttest.Env) {
	t.Helper()
	rec, err := env.Client().Get(env.Context(), "e")
	if err != nil || rec.Status != execution.StatusSuspended || rec.UnacknowledgedDeliveries != 0 {
		t.Fatalf("record %+v, %v; want it suspended", rec, err)
	}
}

// registered returns how many registrations there are at the board "x".
func registered(t *testing.T, env *holdfasttest.Env) int {
	t.Helper()
	protocol, err := stores.Of(env.Client().Stores())
	if err != nil {
		t.Fatal(err)
	}
	all, err := protocol.Registrations(env.Context(), execution.StoreID{Name: "board", ID: "x"})
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// wantResult demands the execution's result, and that no registration is left at the
// store.
func wantResult(t *testing.T, env *holdfasttest.Env, e holdfast.Handle[string], want string) {
	t.Helper()
	got, err := e.Result(env.Context())
	if err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if n := registered(t, env); n != 0 {
		t.Errorf("%d registrations are left", n)
	}
}

func TestWhenWaits(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		h := create(t, env, board{})
		e := start(t, env, waiting(func(ctx holdfast.Context) (string, error) {
			return store.When(ctx, "s", boards.At("x"), titled)
		}))
		env.Advance(24 * time.Hour)
		if n := env.Calls("s"); n != 2 || registered(t, env) != 1 {
			t.Errorf("%d calls while nothing changed; want one to see, and one to be registered", n)
		}
		update(t, env, h, func(b *board) error { b.Owner.Age = 3; return nil }) // it looks again, and waits on
		env.Advance(time.Second)
		wantSuspended(t, env)
		update(t, env, h, title("ready"))
		wantResult(t, env, e, "ready")
		if n := env.Calls("s"); n != 4 {
			t.Errorf("%d calls; want one for each change and the first two", n)
		}
	})
}

func TestWhenMatchesAtOnce(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		create(t, env, board{Title: "ready"})
		got := run(t, env, waiting(func(ctx holdfast.Context) (string, error) {
			return store.When(ctx, "s", boards.At("x"), titled)
		}), "e")
		rec, err := env.Client().Get(env.Context(), "e")
		if got != "ready" || err != nil || rec.Claims != 1 {
			t.Errorf("got %q in %d deliveries, %v", got, rec.Claims, err)
		}
	})
}

// With Reads only changes of the named members wake, and the selector is given nothing
// else.
func TestReadsNarrowsAWait(t *testing.T) {
	for _, c := range []struct {
		name  string
		opts  []store.WaitOption
		idle  func(*board) // changes nothing that is looked at
		wakes func(*board)
		sees  board
	}{
		{
			"a member",
			[]store.WaitOption{store.Reads("title")},
			func(b *board) { b.Owner.Name = "me"; b.Notes = []note{{}} }, func(b *board) { b.Title = "ready" },
			board{Title: "ready"},
		},
		{
			"several",
			[]store.WaitOption{store.Reads("title", "marks"), store.Reads("notes")},
			func(b *board) { b.Owner.Name = "me" }, func(b *board) { b.Title = "ready"; b.Marks = map[string]int{"a": 1} },
			board{Title: "ready", Marks: map[string]int{"a": 1}},
		},
		{
			"a member inside",
			[]store.WaitOption{store.ReadsPath("owner", "name")},
			func(b *board) { b.Owner.Age = 3; b.Title = "not looked at" }, func(b *board) { b.Owner.Name = "ready" },
			board{Owner: owner{Name: "ready"}},
		},
		{
			"a member of a map",
			[]store.WaitOption{store.ReadsPath("texts", "a")},
			func(b *board) { b.Texts["b"] = "not looked at" }, func(b *board) { b.Texts["a"] = "ready" },
			board{Texts: map[string]string{"a": "ready"}},
		},
		{
			"through a list",
			[]store.WaitOption{store.ReadsPath("notes", "text")},
			func(b *board) { b.Title = "not looked at" }, func(b *board) { b.Notes = []note{{"ready", true}} },
			board{Notes: []note{{"ready", true}}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				h := create(t, env, board{Texts: map[string]string{"c": ""}})
				e := start(t, env, waiting(func(ctx holdfast.Context) (string, error) {
					return store.When(ctx, "s", boards.At("x"), func(b board) (string, bool) {
						text := fmt.Sprintf("%+v", b)
						return text, text != fmt.Sprintf("%+v", board{})
					}, c.opts...)
				}))
				update(t, env, h, func(b *board) error { c.idle(b); return nil })
				env.Advance(time.Minute)
				if n := env.Calls("s"); n != 2 {
					t.Errorf("%d calls after a change beside; want those of the first delivery", n)
				}
				update(t, env, h, func(b *board) error { c.wakes(b); return nil })
				wantResult(t, env, e, fmt.Sprintf("%+v", c.sees))
			})
		})
	}
}

func TestWhenUntil(t *testing.T) {
	until := func(d time.Duration) *holdfast.Workflow[string, string] {
		var deadline time.Time
		return waiting(func(ctx holdfast.Context) (string, error) {
			if deadline.IsZero() {
				deadline = time.Now().Add(d)
			} else {
				deadline = deadline.Add(-time.Hour) // the first one counts
			}
			got, matched, err := store.WhenUntil(ctx, "s", boards.At("x"), deadline, titled)
			return fmt.Sprintf("%q %t at %v", got, matched, time.Now().Format(time.TimeOnly)), err
		})
	}
	t.Run("nothing comes", func(t *testing.T) {
		holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
			h := create(t, env, board{})
			e := start(t, env, until(2*time.Hour))
			wantResult(t, env, e, `"" false at 02:00:00`)
			update(t, env, h, title("too late"))
			env.Advance(time.Minute)
			wantResult(t, env, e, `"" false at 02:00:00`)
		})
	})
	t.Run("something comes", func(t *testing.T) {
		holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
			h := create(t, env, board{})
			e := start(t, env, until(2*time.Hour))
			env.Advance(time.Hour - time.Second)
			update(t, env, h, title("ready"))
			env.Advance(time.Second)
			wantResult(t, env, e, `"ready" true at 01:00:00`)
			env.Advance(3 * time.Hour)
			if n := env.Calls("s"); n != 3 {
				t.Errorf("%d calls; want two and one for the change: the deadline came after the end", n)
			}
		})
	})
	t.Run("in vain, before the deadline", func(t *testing.T) {
		holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
			h := create(t, env, board{})
			e := start(t, env, until(2*time.Hour))
			for range 3 {
				env.Advance(time.Minute)
				update(t, env, h, func(b *board) error { b.Owner.Age++; return nil })
			}
			wantResult(t, env, e, `"" false at 02:00:00`)
			if n := env.Calls("s"); n != 6 {
				t.Errorf("%d calls; want two, one for each change and one for the deadline", n)
			}
		})
	})
	for name, c := range map[string]struct{ title, want string }{
		"past already, and it matches":  {"ready", `"ready" true at 00:00:00`},
		"past already, without a match": {"", `"" false at 00:00:00`},
	} {
		t.Run(name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				create(t, env, board{Title: c.title})
				if got := run(t, env, until(-time.Hour), "e"); got != c.want {
					t.Errorf("got %s; want %s", got, c.want)
				}
			})
		})
	}
}

// A moment is one at which something can be ordered.
type moment func(env *holdfasttest.Env, step string, do func(*holdfasttest.Worker))

// order has do called when the moment comes for the nth time.
func (m moment) order(env *holdfasttest.Env, nth int, do func(*holdfasttest.Worker)) {
	for range nth - 1 {
		m(env, "s", func(*holdfasttest.Worker) {})
	}
	m(env, "s", do)
}

// A worker dies at each point of a timed wait. Whoever takes over comes to an answer,
// and the first one that is recorded stays.
func TestCrashesOfATimedWait(t *testing.T) {
	for _, c := range []struct {
		name string
		at   moment
		nth  int // time that it comes
	}{
		{"before it looks", (*holdfasttest.Env).BeforeStep, 1},
		{"it has seen nothing, not recorded", (*holdfasttest.Env).BeforeRecord, 1},
		{"recorded, not registered", (*holdfasttest.Env).AfterStep, 1},
		{"registered, not acknowledged", (*holdfasttest.Env).BeforeRecord, 2},
		{"answered, before its record", (*holdfasttest.Env).BeforeRecord, 3},
		{"answered, not acknowledged", (*holdfasttest.Env).AfterStep, 2},
	} {
		for name, match := range map[string]bool{"when, a match": true, "when": false, "take, a match": true, "take": false} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
					h := create(t, env, board{})
					deadline := time.Now().Add(2 * time.Hour)
					w := waiting(func(ctx holdfast.Context) (string, error) {
						if strings.HasPrefix(name, "take") {
							return takeTitle(ctx, deadline)
						}
						got, matched, err := store.WhenUntil(ctx, "s", boards.At("x"), deadline, titled)
						return fmt.Sprint(got, matched), err
					})
					c.at.order(env, c.nth, (*holdfasttest.Worker).Crash)
					env.Worker(w)
					env.Worker(w)
					env.Worker(w)
					e, err := w.Start(env.Context(), env.Client(), "", holdfast.WithID("e"))
					if err != nil {
						t.Fatal(err)
					}
					env.Advance(time.Hour)
					want := "false"
					if match {
						update(t, env, h, title("ready"))
						want = "readytrue"
					}
					wantResult(t, env, e, want)
				})
			})
		}
	}
}

// A match and the deadline come at the same instant: there is one answer, and no
// registration is left that a later change would wake.
func TestMatchAndDeadlineTogether(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		h := create(t, env, board{})
		deadline := time.Now().Add(time.Hour)
		w := twice(t, func(ctx holdfast.Context) (string, error) {
			got, matched, err := store.WhenUntil(ctx, "s", boards.At("x"), deadline, titled)
			return fmt.Sprint(got, matched), err
		})
		env.Worker(w)
		e, err := w.Start(env.Context(), env.Client(), "", holdfast.WithID("e"))
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Until(deadline))
		update(t, env, h, title("ready"))
		got, err := e.Result(env.Context())
		if err != nil || !slices.Contains([]string{"readytrue <nil>", "false <nil>"}, got) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// Between looking and being registered the store changes: the call looks again, and
// needs no wake for it. What it has seen before the wait was recorded it does not look at
// again.
func TestNoChangeIsMissed(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		h := create(t, env, board{})
		looks := 0
		got := run(t, env, waiting(func(ctx holdfast.Context) (string, error) {
			return store.When(ctx, "s", boards.At("x"), func(b board) (string, bool) {
				switch looks++; looks {
				case 1:
					update(t, env, h, func(b *board) error { b.Owner.Age = 1; return nil })
				case 2:
					update(t, env, h, title("ready"))
				}
				return titled(b)
			})
		}), "e")
		if got != "ready" || looks != 3 || env.Calls("s") != 2 {
			t.Errorf("got %q after %d looks in %d calls", got, looks, env.Calls("s"))
		}
	})
}

func TestTakeWaitsAndTakesOnce(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		h := create(t, env, board{})
		var texts []string
		w := holdfast.Define("taker", func(ctx holdfast.Context, _ string) (string, error) {
			n, err := store.Take(ctx, "s", boards.At("x"), open, done, store.Reads("notes"))
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%s %t", n.Text, n.Done), nil
		})
		for range 4 { // each of the two executions sees nothing, and is registered
			env.BeforeRecord("s", func(*holdfasttest.Worker) {})
		}
		env.BeforeRecord("s", func(w *holdfasttest.Worker) {
			w.Crash()
			if snap, err := h.Get(env.Context()); err != nil || snap.Version != 2 {
				t.Errorf("version %d, %v; want that somebody has taken", snap.Version, err)
			}
		})
		env.Worker(w)
		env.Worker(w)
		var all []holdfast.Handle[string]
		for _, id := range []string{"a", "b"} {
			e, err := w.Start(env.Context(), env.Client(), id, holdfast.WithID(id))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, e)
		}
		env.Advance(time.Minute)
		for i := range 2 {
			update(t, env, h, func(b *board) error {
				b.Notes = append(b.Notes, note{Text: fmt.Sprint("note ", i)})
				return nil
			})
			env.Advance(time.Minute)
		}
		for _, e := range all {
			got, err := e.Result(env.Context())
			if err != nil {
				t.Error(err)
			}
			texts = append(texts, got)
		}
		slices.Sort(texts)
		if !slices.Equal(texts, []string{"note 0 true", "note 1 true"}) {
			t.Errorf("taken %q", texts)
		}
		if snap, err := h.Get(env.Context()); err != nil || snap.Version != 4 {
			t.Errorf("version %d, %v; want one for each note that came and each that was taken", snap.Version, err)
		}
	})
}

// A wait whose store is deleted comes back when something else wakes it, and fails.
func TestStoreOfAWaitIsDeleted(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		h := create(t, env, board{})
		e := start(t, env, waiting(func(ctx holdfast.Context) (string, error) {
			return store.When(ctx, "s", boards.At("x"), titled)
		}))
		if err := h.Delete(env.Context()); err != nil {
			t.Fatal(err)
		}
		env.Advance(time.Hour)
		wantSuspended(t, env)
		if err := env.Client().Wake(env.Context(), "e", time.Time{}); err != nil {
			t.Fatal(err)
		}
		_, err := e.Result(env.Context())
		if failed, is := errors.AsType[*holdfast.FailedError](err); !is || failed.Code != store.CodeNotFound {
			t.Errorf("got %v", err)
		}
	})
}

// Whenever a worker dies, or is only slow, while it begins to wait: once the execution
// is deleted nothing of it is at the store, and nothing comes there later.
func TestDeletedExecutionsLeaveNothingAtStores(t *testing.T) {
	waits := map[string]func(holdfast.Context) error{
		"when": func(ctx holdfast.Context) error { return last(store.When(ctx, "s", boards.At("x"), titled)) },
		"until": func(ctx holdfast.Context) error {
			_, err := second(store.WhenUntil(ctx, "s", boards.At("x"), time.Now().Add(24*time.Hour), titled))
			return err
		},
		"take until": func(ctx holdfast.Context) error { return last(takeTitle(ctx, time.Now().Add(24*time.Hour))) },
		"take":       func(ctx holdfast.Context) error { return last(store.Take(ctx, "s", boards.At("x"), open, done)) },
	}
	for _, c := range []struct {
		name string
		at   moment
		nth  int
		left int // registrations, before the deletion
	}{
		{"not recorded", (*holdfasttest.Env).BeforeRecord, 1, 0},
		{"recorded, and it does not know", (*holdfasttest.Env).AfterStep, 1, 0},
		{"recorded, not registered", (*holdfasttest.Env).BeforeStep, 2, 0},
		{"registered", (*holdfasttest.Env).BeforeRecord, 2, 1},
	} {
		for name, call := range waits {
			w := waiting(func(ctx holdfast.Context) (string, error) { return "", call(ctx) })
			t.Run(name+", "+c.name+", dies", func(t *testing.T) {
				holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
					c.at.order(env, c.nth, (*holdfasttest.Worker).Crash)
					deleteWaiting(t, env, w, c.left)
				})
			})
			t.Run(name+", "+c.name+", stands still", func(t *testing.T) {
				holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
					c.at.order(env, c.nth, (*holdfasttest.Worker).Freeze)
					deleteWaiting(t, env, w, c.left).Thaw()
					env.Advance(time.Minute)
					if n := registered(t, env); n != 0 {
						t.Errorf("%d registrations after the thaw", n)
					}
				})
			})
		}
	}
}

// deleteWaiting starts the workflow on the one worker, which something befalls, and
// deletes the execution, which has left so many registrations until then.
func deleteWaiting(t *testing.T, env *holdfasttest.Env, w *holdfast.Workflow[string, string], left int) *holdfasttest.Worker {
	t.Helper()
	create(t, env, board{})
	worker := env.Worker(w)
	if _, err := w.Start(env.Context(), env.Client(), "", holdfast.WithID("e")); err != nil {
		t.Fatal(err)
	}
	env.Advance(time.Second)
	if n := registered(t, env); n != left {
		t.Errorf("%d registrations before the deletion; want %d", n, left)
	}
	if err := env.Client().Cancel(env.Context(), "e", "a test"); err != nil {
		t.Fatal(err)
	}
	if err := env.Client().Delete(env.Context(), "e"); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Client().Get(env.Context(), "e"); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("got %v; want the execution gone", err)
	}
	if n := registered(t, env); n != 0 {
		t.Errorf("%d registrations after the deletion", n)
	}
	return worker
}

// last is the error of a call of which nothing else counts.
func last[T any](_ T, err error) error { return err }
