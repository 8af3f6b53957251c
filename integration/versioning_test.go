package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// order returns a release of a workflow: what it does between loading and charging is
// what releases differ in. It waits for the gate then, and ships.
func order(between func(ctx holdfast.Context) (int, error), ship bool) *holdfast.Workflow[int, int] {
	nothing := func(context.Context) (string, error) { return "", nil }
	return holdfast.Define("order", func(ctx holdfast.Context, _ int) (int, error) {
		if _, err := holdfast.Step(ctx, "load", nothing); err != nil {
			return 0, err
		}
		v, err := between(ctx)
		if err != nil {
			return 0, err
		}
		if _, err := holdfast.Step(ctx, "charge", nothing); err != nil {
			return 0, err
		}
		if _, err := store.When(ctx, "open", gate.At("gate"), func(open bool) (bool, bool) { return open, open }); err != nil {
			return 0, err
		}
		if ship {
			_, err = holdfast.Step(ctx, "ship", nothing)
		}
		return v, err
	})
}

func reserve(ctx holdfast.Context) error {
	_, err := holdfast.Step(ctx, "reserve", func(context.Context) (string, error) { return "", nil })
	return err
}

// TestChangedUnderSleepers: the code of a workflow is changed while 100 executions of
// it sleep. A change that their history does not fit stops them at that step, visibly,
// and loses nothing; one that is guarded by Version lets old and new ones live.
func TestChangedUnderSleepers(t *testing.T) {
	t.Parallel()
	const old, fresh = 100, 20
	h := newHarness(t)
	f := &fleet{t: t, h: h, client: openClient(t, h)}
	doors := gate.At("gate").On(f.client.Stores())
	if _, err := doors.GetOrCreate(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	first := order(func(holdfast.Context) (int, error) { return 0, nil }, false)
	handles := make([]holdfast.Handle[int], old+fresh)
	start := func(w *holdfast.Workflow[int, int], i int) {
		var err error
		if handles[i], err = w.Start(t.Context(), f.client, i, holdfast.WithID(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	stopped := startWorker(t, h, immortal, first)
	for i := range old {
		start(first, i)
	}
	f.eventually("all to sleep", func() bool { return f.allSuspended(old) })
	stopped.stop()

	stopped = startWorker(t, h, immortal, order(func(ctx holdfast.Context) (int, error) { return 1, reserve(ctx) }, true), holdfast.Concurrency(old))
	for i := range old {
		if err := f.client.Wake(t.Context(), fmt.Sprint(i), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range old {
		f.eventually(fmt.Sprintf("execution %d to be stopped at the new step", i), func() bool { return f.stuck(fmt.Sprint(i)) })
	}
	stopped.stop()

	guarded := order(func(ctx holdfast.Context) (int, error) {
		v, err := holdfast.Version(ctx, "reserve first", 0, 1)
		if err == nil && v >= 1 {
			err = reserve(ctx)
		}
		return v, err
	}, true)
	startWorker(t, h, immortal, guarded)
	for i := range fresh {
		start(guarded, old+i)
	}
	if _, err := doors.Update(t.Context(), func(open *bool) error { *open = true; return nil }); err != nil {
		t.Fatal(err)
	}
	for i, o := range handles {
		v, err := o.Result(t.Context())
		if want := i / old; err != nil || v != want {
			t.Errorf("execution %d has version %d, %v; want %d", i, v, err, want)
		}
	}
}

// stuck says whether the execution's record says that the code does not fit.
func (f *fleet) stuck(id string) bool {
	f.t.Helper()
	r, err := f.client.Get(f.t.Context(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return r.Outcome == nil && slices.ContainsFunc(r.Deliveries, func(d execution.PastDelivery) bool {
		return d.How == execution.HowReleased && strings.Contains(d.Why, `step "reserve"`) && strings.Contains(d.Why, `"charge"`)
	})
}
