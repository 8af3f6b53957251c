package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/store"
)

var notes = store.Define[[]string]("notes")

// note adds to the notes; a helper as workflows have it.
func note(ctx holdfast.Context, step string, ref store.Ref[[]string], text string) error {
	_, err := store.Update(ctx, step, ref, func(n *[]string) error { *n = append(*n, text); return nil })
	return err
}

// TestStoreHandles: the histories of handles to stores, on real etcd.
func TestStoreHandles(t *testing.T) {
	t.Parallel()
	t.Run("loop-and-helper", loopAndHelper)
	t.Run("same-name-in-a-loop", sameNameInALoop)
	t.Run("two-initialisers", twoInitialisers)
	t.Run("crash-after-create", crashAfterCreate)
}

// loopAndHelper: handles are plain data: they may be made in a loop and given to a
// helper, and record nothing. Each use of a store is a step with a name of its own.
func loopAndHelper(t *testing.T) {
	t.Parallel()
	work := holdfast.Define("work", func(ctx holdfast.Context, _ int) (int, error) {
		if _, err := store.GetOrCreate(ctx, "create", notes.Own(), nil); err != nil {
			return 0, err
		}
		for i := range 3 {
			if err := note(ctx, fmt.Sprintf("note-%d", i), notes.Own(), fmt.Sprint(i)); err != nil {
				return 0, err
			}
		}
		if err := holdfast.Sleep(ctx, "pause", 1); err != nil {
			return 0, err
		}
		seen, err := store.Get(ctx, "read", notes.Own())
		return len(seen.State), err
	})
	h := newHarness(t)
	c := openClient(t, h)
	startWorker(t, h, immortal, work)
	w, err := work.Start(t.Context(), c, 0, holdfast.WithID("w"))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := w.Result(t.Context()); err != nil || n != 3 {
		t.Errorf("the workflow saw %d notes, %v; want 3", n, err)
	}
	if got, err := notes.At("w").On(c.Stores()).Get(t.Context()); err != nil || fmt.Sprint(got.State) != "[0 1 2]" || got.Version != 3 {
		t.Errorf("the store holds %v at version %d, %v", got.State, got.Version, err)
	}
}

// sameNameInALoop: a name that comes twice is an error that names it, and the store is
// changed once at most.
func sameNameInALoop(t *testing.T) {
	t.Parallel()
	work := holdfast.Define("work", func(ctx holdfast.Context, _ int) (int, error) {
		for range 2 {
			if err := note(ctx, "note", notes.At("shared"), "x"); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	h := newHarness(t)
	c := openClient(t, h)
	shared := notes.At("shared").On(c.Stores())
	if _, err := shared.GetOrCreate(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	startWorker(t, h, immortal, work)
	w, err := work.Start(t.Context(), c, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Result(t.Context())
	if failed, is := errors.AsType[*holdfast.FailedError](err); !is || !contains(failed.Message, `"note"`, "twice") {
		t.Errorf("got %v, want a failure that names the step", err)
	}
	if got, err := shared.Get(t.Context()); err != nil || got.Version != 1 {
		t.Errorf("version %d, %v; want 1", got.Version, err)
	}
}

// twoInitialisers: of several executions that create one store one wins, and all see
// its state and instance.
func twoInitialisers(t *testing.T) {
	t.Parallel()
	type seen struct{ First, Instance string }
	work := holdfast.Define("work", func(ctx holdfast.Context, mine string) (seen, error) {
		s, err := store.GetOrCreate(ctx, "create", notes.At("shared"), []string{mine})
		if err != nil {
			return seen{}, err
		}
		return seen{s.State[0], s.Instance}, nil
	})
	h := newHarness(t)
	c := openClient(t, h)
	startWorker(t, h, immortal, work)
	startWorker(t, h, immortal, work)
	results := make([]seen, 20)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			w, err := work.Start(t.Context(), c, fmt.Sprint(i))
			if err == nil {
				results[i], err = w.Result(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	now, err := notes.At("shared").On(c.Stores()).Get(t.Context())
	if err != nil || now.Version != 0 {
		t.Fatalf("version %d, %v; want 0", now.Version, err)
	}
	for i, r := range results {
		if r != (seen{now.State[0], now.Instance}) {
			t.Errorf("execution %d saw %+v, the store is %v of instance %s", i, r, now.State, now.Instance)
		}
	}
}

// crashAfterCreate: the worker dies when the store is there and the step is not
// recorded. The next one finds the store, and changes nothing.
func crashAfterCreate(t *testing.T) {
	t.Parallel()
	work := holdfast.Define("work", func(ctx holdfast.Context, _ int) (string, error) {
		token, err := holdfast.Step(ctx, "token", func(ctx context.Context) (int64, error) { return holdfast.Fence(ctx).Token, nil })
		if err != nil {
			return "", err
		}
		s, err := store.GetOrCreate(ctx, "create", notes.Own(), []string{fmt.Sprint(token)})
		return s.Instance, err
	})
	h := newHarness(t)
	c := openClient(t, h)
	m := startWorker(t, h, fate{at: puts(h.space.AllStores()), applied: true}, work)
	w, err := work.Start(t.Context(), c, 0, holdfast.WithID("w"))
	if err != nil {
		t.Fatal(err)
	}
	<-m.died
	before, err := notes.At("w").On(c.Stores()).Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	startWorker(t, h, immortal, work)
	instance, err := w.Result(t.Context())
	if err != nil || instance != before.Instance {
		t.Errorf("the workflow saw instance %q, %v; want %q", instance, err, before.Instance)
	}
	if after, err := notes.At("w").On(c.Stores()).Get(t.Context()); err != nil || after.Version != 0 || after.Instance != before.Instance {
		t.Errorf("the store is %+v, %v; it was %+v", after, err, before)
	}
}

func contains(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(text, p) })
}
