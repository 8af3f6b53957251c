package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A place is an etcd with a client and workers, in memory or real.
type place struct {
	ctx    context.Context // it ends with the test
	client *holdfast.Client
	work   func(parts ...holdfast.WorkerOption)
	memory bool
}

// onBoth runs the test in memory, where time skips, and on etcd, where it does not.
func onBoth(t *testing.T, f func(t *testing.T, p place)) {
	t.Run("memory", func(t *testing.T) {
		holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
			f(t, place{env.Context(), env.Client(), func(parts ...holdfast.WorkerOption) { env.Worker(parts...) }, true})
		})
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		c := open(t)
		f(t, place{bounded(t), c, func(parts ...holdfast.WorkerOption) { work(t, c, parts...) }, false})
	})
}

// suspendedAt waits until the execution waits for something.
func (p place) suspendedAt(t *testing.T, id string) execution.Record {
	t.Helper()
	for {
		rec, err := p.client.Get(p.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Status == execution.StatusSuspended {
			return rec
		}
		p.pass(time.Millisecond)
	}
}

// pass lets some time pass, so that others come on.
func (p place) pass(d time.Duration) {
	select {
	case <-p.ctx.Done():
	case <-time.After(d):
	}
}

func numbers(n int) []holdfast.Entry[int] {
	entries := make([]holdfast.Entry[int], n)
	for i := range entries {
		entries[i] = holdfast.Entry[int]{ID: fmt.Sprintf("number-%03d", i), Input: i}
	}
	return entries
}

func TestStartMany(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, p place) {
		entries := numbers(300)
		entries[17].ID = ""
		if _, err := double.Start(p.ctx, p.client, 77, holdfast.WithID("number-018")); err != nil {
			t.Fatal(err)
		}
		if _, err := double.Start(p.ctx, p.client, 19, holdfast.WithID("number-019")); err != nil {
			t.Fatal(err)
		}
		entries[20].ID = "\xff"
		outcomes, err := double.StartMany(p.ctx, p.client, entries)
		if err != nil || len(outcomes) != len(entries) {
			t.Fatalf("%d outcomes, %v", len(outcomes), err)
		}
		p.work(double)
		for i, o := range outcomes {
			switch i {
			case 18:
				if !errors.Is(o.Err, execution.ErrConflict) {
					t.Errorf("the id of another: %+v", o)
				}
				continue
			case 20:
				if _, invalid := errors.AsType[*execution.InvalidError](o.Err); !invalid {
					t.Errorf("a bad id: %+v", o)
				}
				continue
			}
			if o.Err != nil || o.Handle.Existing() != (i == 19) || i != 17 && o.Handle.ID() != entries[i].ID {
				t.Fatalf("outcome %d: %+v", i, o)
			}
			if got, err := o.Handle.Result(p.ctx); err != nil || got != 2*i {
				t.Errorf("result %d: %d, %v", i, got, err)
			}
		}
		outcomes, err = double.StartMany(p.ctx, p.client, numbers(300)[100:200])
		for i, o := range outcomes {
			if err != nil || o.Err != nil || !o.Handle.Existing() {
				t.Errorf("started again: outcome %d: %+v, %v", i, o, err)
			}
		}
	})
}

func TestStartManyRefuses(t *testing.T) {
	t.Parallel()
	c := open(t)
	var none *holdfast.Workflow[int, int]
	for name, start := range map[string]func() (int, error){
		"no workflow":  func() (int, error) { o, err := none.StartMany(t.Context(), c, numbers(1)); return len(o), err },
		"no client":    func() (int, error) { o, err := double.StartMany(t.Context(), nil, numbers(1)); return len(o), err },
		"a nil option": func() (int, error) { o, err := double.StartMany(t.Context(), c, numbers(1), nil); return len(o), err },
		"one id": func() (int, error) {
			o, err := double.StartMany(t.Context(), c, numbers(1), holdfast.WithID("x"))
			return len(o), err
		},
		"no timeout": func() (int, error) {
			o, err := double.StartMany(t.Context(), c, numbers(1), holdfast.Timeout(0))
			return len(o), err
		},
	} {
		if n, err := start(); err == nil || n != 0 {
			t.Errorf("%s: %d outcomes, %v", name, n, err)
		}
	}
	if outcomes, err := double.StartMany(t.Context(), c, nil); err != nil || len(outcomes) != 0 {
		t.Errorf("of nothing: %v, %v", outcomes, err)
	}
	floats := holdfast.Define("floats", func(_ holdfast.Context, f float64) (float64, error) { return f, nil })
	outcomes, err := floats.StartMany(t.Context(), c, []holdfast.Entry[float64]{{Input: 1}, {Input: math.NaN()}})
	if err != nil || outcomes[0].Err != nil || outcomes[1].Err == nil {
		t.Errorf("an input that can't be encoded: %+v, %v", outcomes, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cut, err := double.StartMany(ctx, c, numbers(200))
	if !errors.Is(err, context.Canceled) || len(cut) != 200 {
		t.Fatalf("%d outcomes, %v", len(cut), err)
	}
	for i, o := range cut {
		if !errors.Is(o.Err, context.Canceled) {
			t.Errorf("outcome %d: %+v", i, o)
		}
	}
}

func TestStartAt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, p place) {
		began := make(chan time.Time, 3)
		w := holdfast.Define("later", func(holdfast.Context, int) (int, error) { began <- time.Now(); return 1, nil })
		p.work(w)
		at := time.Now().Add(time.Second)
		if p.memory {
			at = time.Now().Add(30 * 24 * time.Hour)
		}
		h, err := w.Start(p.ctx, p.client, 1, holdfast.StartAt(at))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.client.Send(p.ctx, h.ID(), "early", 1); err != nil { // moves nothing
			t.Fatal(err)
		}
		if rec, err := p.client.Get(p.ctx, h.ID()); err != nil || rec.Due.UnixMilli() != at.UnixMilli() || rec.Status != execution.StatusAdmitted {
			t.Errorf("%+v, %v; want it due at %v", rec, err, at)
		}
		if _, err := h.Result(p.ctx); err != nil {
			t.Fatal(err)
		}
		if got := <-began; got.Before(at.Truncate(time.Millisecond)) {
			t.Errorf("began at %v, before %v", got, at)
		}
		parked, err := w.Start(p.ctx, p.client, 1, holdfast.StartAt(time.Unix(1<<62, 0))) // farther than any record
		if err != nil {
			t.Fatal(err)
		}
		if rec, err := p.client.Get(p.ctx, parked.ID()); err != nil || rec.Status != execution.StatusAdmitted || rec.Due.Year() < 30000 {
			t.Errorf("%+v, %v; want it due in the farthest future", rec, err)
		}
		for name, at := range map[string]time.Time{"the past": time.Now().Add(-time.Hour), "no time": {}} {
			h, err := w.Start(p.ctx, p.client, 1, holdfast.StartAt(at))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := h.Result(p.ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// timesOut waits for the end of the execution, and demands that it has timed out.
func timesOut[Out any](t *testing.T, p place, h holdfast.Handle[Out]) {
	t.Helper()
	_, err := h.Result(p.ctx)
	var failed *holdfast.FailedError
	if !errors.As(err, &failed) || !failed.TimedOut() || failed.Cancelled() || failed.Code != "timeout" {
		t.Errorf("%q: %v, want that it timed out", h.ID(), err)
	}
	rec, err := p.client.Get(p.ctx, h.ID())
	if err != nil || rec.Deadline.IsZero() || rec.Deliveries[len(rec.Deliveries)-1].Ended.Before(rec.Deadline) {
		t.Errorf("%q: %+v, %v; want its end after its deadline", h.ID(), rec, err)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, p place) {
		var charged atomic.Int64
		waits := holdfast.Define("waits", func(ctx holdfast.Context, _ int) (int, error) {
			return holdfast.Await[int](ctx, "never", holdfast.Forever)
		})
		sleeps := holdfast.Define("sleeps", func(ctx holdfast.Context, _ int) (int, error) {
			return 0, holdfast.Sleep(ctx, "s", 1000*time.Hour)
		})
		works := holdfast.Define("works", func(ctx holdfast.Context, _ int) (int64, error) {
			return holdfast.Step(ctx, "charge", func(ctx context.Context) (int64, error) {
				<-ctx.Done()
				return charged.Add(1), nil
			})
		})
		loops := holdfast.Define("loops", func(ctx holdfast.Context, n int) (int, error) {
			if err := holdfast.Sleep(ctx, "s", 100*time.Millisecond); err != nil {
				return 0, err
			}
			return 0, holdfast.ContinueAsNew(n + 1)
		})
		p.work(waits, sleeps, works, loops, double)
		begin := func(w *holdfast.Workflow[int, int], opts ...holdfast.StartOption) holdfast.Handle[int] {
			h, err := w.Start(p.ctx, p.client, 1, append(opts, holdfast.Timeout(time.Second))...)
			if err != nil {
				t.Fatal(err)
			}
			return h
		}
		later := begin(waits, holdfast.StartAt(time.Now().Add(time.Second)))
		all := []holdfast.Handle[int]{begin(waits), begin(sleeps), begin(loops), later}
		quick := begin(double)
		slow, err := works.Start(p.ctx, p.client, 1, holdfast.Timeout(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range all {
			timesOut(t, p, h)
		}
		timesOut(t, p, slow)
		if got, err := quick.Result(p.ctx); err != nil || got != 2 {
			t.Errorf("one that ends in time: %d, %v", got, err)
		}
		if rec, err := p.client.Get(p.ctx, all[2].ID()); err != nil || rec.Run == 0 {
			t.Errorf("the loop timed out in run %d, %v", rec.Run, err)
		}
		if rec, err := p.client.Get(p.ctx, later.ID()); err != nil || rec.Deadline.Sub(rec.AdmittedAt) < 1900*time.Millisecond {
			t.Errorf("one that was to start later: %+v, %v", rec, err)
		}
		if charged.Load() != 1 {
			t.Errorf("charged %d times", charged.Load())
		}
	})
}

// Children have the options of any start.
func TestOptionsOfChildren(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, p place) {
		waits := holdfast.Define("waits", func(ctx holdfast.Context, _ int) (int, error) {
			return holdfast.Await[int](ctx, "never", holdfast.Forever)
		})
		parent := holdfast.Define("parent", func(ctx holdfast.Context, at time.Time) (string, error) {
			_, err := holdfast.Child(ctx, "child", waits, 1, holdfast.WithID("child"), holdfast.StartAt(at), holdfast.Timeout(time.Second))
			var failed *holdfast.FailedError
			if !errors.As(err, &failed) {
				return "", err
			}
			return failed.Code, nil
		})
		p.work(waits, parent)
		at := time.Now().Add(time.Second).Truncate(time.Millisecond)
		h, err := parent.Start(p.ctx, p.client, at)
		if err != nil {
			t.Fatal(err)
		}
		if code, err := h.Result(p.ctx); err != nil || code != "timeout" {
			t.Errorf("%q, %v; want that the child timed out", code, err)
		}
		if rec, err := p.client.Get(p.ctx, "child"); err != nil || !rec.Deadline.Equal(at.Add(time.Second)) {
			t.Errorf("deadline %v, %v; want a second after %v", rec.Deadline, err, at)
		}
		_, err = waits.Start(p.ctx, p.client, 1, holdfast.Timeout(-time.Second))
		if _, invalid := errors.AsType[*execution.InvalidError](err); !invalid {
			t.Errorf("a negative timeout: %v", err)
		}
	})
}

var items = holdfast.DefineEvent[int]("item")

// collect gathers events until it has enough, a few in each run.
func collect(enough, each int) *holdfast.Workflow[[]int, []int] {
	return holdfast.Define("collect", func(ctx holdfast.Context, seen []int) ([]int, error) {
		for i := range each {
			if len(seen) == enough {
				return seen, nil
			}
			n, err := items.Await(ctx, holdfast.Forever, holdfast.AsStep(fmt.Sprint("item ", i)))
			if err != nil {
				return nil, err
			}
			seen = append(seen, n)
		}
		return nil, holdfast.ContinueAsNew(seen)
	})
}

func TestEventsAcrossRuns(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, p place) {
		const n = 50
		w := collect(n, 7)
		h, err := w.Start(p.ctx, p.client, nil, holdfast.WithID("inbox"))
		if err != nil {
			t.Fatal(err)
		}
		want := []int{}
		for i := range n {
			if i == n/2 {
				p.work(w)
			}
			if i == n-1 {
				if rec := p.suspendedAt(t, "inbox"); rec.Run == 0 {
					t.Errorf("run %d", rec.Run)
				}
			}
			if err := items.Send(p.ctx, p.client, "inbox", i, holdfast.EventID(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			want = append(want, i)
		}
		got, err := h.Result(p.ctx)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v", got, err)
		}
		if err := items.Send(p.ctx, p.client, "inbox", 0, holdfast.EventID("0")); err != nil {
			t.Errorf("the first one again: %v", err)
		}
		if err := items.Send(p.ctx, p.client, "inbox", 1, holdfast.EventID("0")); !errors.Is(err, execution.ErrConflict) {
			t.Errorf("its id again: %v", err)
		}
		if err := items.Send(p.ctx, p.client, "inbox", 0); !errors.Is(err, execution.ErrTerminal) {
			t.Errorf("another one: %v", err)
		}
	})
}

func TestAwaitUntilADeadline(t *testing.T) {
	t.Parallel()
	type decision struct{ OK bool }
	approved := holdfast.DefineEvent[decision]("approved")
	onBoth(t, func(t *testing.T, p place) {
		w := holdfast.Define("approval", func(ctx holdfast.Context, within time.Duration) (string, error) {
			d, err := approved.Await(ctx, within)
			switch {
			case errors.Is(err, holdfast.ErrNoEvent):
				return "nobody decided", nil
			case err != nil:
				return "", err
			}
			return fmt.Sprint(d.OK), nil
		})
		p.work(w)
		within := 500 * time.Millisecond
		if p.memory {
			within = 72 * time.Hour
		}
		late, err := w.Start(p.ctx, p.client, within)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := late.Result(p.ctx); err != nil || got != "nobody decided" {
			t.Errorf("%q, %v", got, err)
		}
		decided, err := w.Start(p.ctx, p.client, holdfast.Forever)
		if err != nil {
			t.Fatal(err)
		}
		p.suspendedAt(t, decided.ID())
		if err := approved.Send(p.ctx, p.client, decided.ID(), decision{true}); err != nil {
			t.Fatal(err)
		}
		if got, err := decided.Result(p.ctx); err != nil || got != "true" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestSendRefuses(t *testing.T) {
	t.Parallel()
	c := open(t)
	h := start(t, double, c, 1)
	var none *holdfast.Client
	for name, err := range map[string]error{
		"no client":    none.Send(t.Context(), h.ID(), "n", 1),
		"a nil option": c.Send(t.Context(), h.ID(), "n", 1, nil),
		"no name":      c.Send(t.Context(), h.ID(), "", 1),
		"an empty id":  c.Send(t.Context(), h.ID(), "n", 1, holdfast.EventID("")),
		"no JSON":      c.Send(t.Context(), h.ID(), "n", func() {}),
		"bad raw JSON": c.Send(t.Context(), h.ID(), "n", json.RawMessage(`{`)),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := c.Send(t.Context(), "nobody", "n", 1); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if rec := get(t, c, h.ID()); rec.PendingEvents != 0 {
		t.Errorf("%d are pending", rec.PendingEvents)
	}
}
