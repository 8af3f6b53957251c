package holdfasttest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// define makes a workflow of one step and a result that shows it.
func define(step func(context.Context) (string, error)) *holdfast.Workflow[string, string] {
	return holdfast.Define("one", func(ctx holdfast.Context, _ string) (string, error) {
		return holdfast.Step(ctx, "step", step)
	})
}

func start(t *testing.T, env *holdfasttest.Env, w *holdfast.Workflow[string, string]) holdfast.Handle[string] {
	t.Helper()
	h, err := w.Start(env.Context(), env.Client(), "in", holdfast.WithID("one-1"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantResult(t *testing.T, env *holdfasttest.Env, h holdfast.Handle[string], want string) {
	t.Helper()
	if got, err := h.Result(env.Context()); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func record(t *testing.T, env *holdfasttest.Env, id string) execution.Record {
	t.Helper()
	r, err := env.Client().Get(env.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// minute is a step that takes a minute, unless its context ends.
func minute(ctx context.Context) (string, error) {
	select {
	case <-time.After(time.Minute):
		return "done", nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func TestTimeSkips(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		const wait = 1000 * 24 * time.Hour // longer than env.Context lives
		w := holdfast.Define("patient", func(ctx holdfast.Context, _ string) (string, error) {
			return "done", holdfast.Sleep(ctx, "wait", wait)
		})
		env.Worker(w)
		begun := time.Now()
		h, err := w.Start(env.Context(), env.Client(), "in")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := h.Result(t.Context()); err != nil || got != "done" {
			t.Errorf("got %q, %v", got, err)
		}
		if took := time.Since(begun); took < wait || took > wait+time.Millisecond {
			t.Errorf("it took %v of virtual time, want %v", took, wait)
		}
	})
}

// The worker dies in the middle of a step, whose context tells it; nothing of it is
// recorded, and the lease runs out.
func TestCrashInsideAStep(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		var cut error
		w := define(func(ctx context.Context) (string, error) {
			result, err := minute(ctx)
			if err != nil {
				cut = err
			}
			return result, err
		})
		first := env.Worker(w, holdfast.Lease(30*time.Second, 10*time.Second))
		begun := time.Now()
		h := start(t, env, w)
		env.Advance(15 * time.Second)
		first.Crash()
		env.Advance(time.Second)
		if r := record(t, env, h.ID()); cut == nil || r.Status != execution.StatusRunning {
			t.Errorf("the step was cut by %v and the execution is %s; want it held until the lease expires", cut, r.Status)
		}
		second := env.Worker(w)
		wantResult(t, env, h, "done")
		r := record(t, env, h.ID())
		if len(r.Deliveries) != 2 || r.Deliveries[0].How != execution.HowExpired || r.Deliveries[1].Holder != second.Name() {
			t.Errorf("delivered as %+v, want an expiry and %s", r.Deliveries, second.Name())
		}
		// The last renewal came at 10 s; then come the lease, the delay and the step.
		if took := time.Since(begun).Round(time.Second); took != (10+30+1+60)*time.Second {
			t.Errorf("it took %v", took)
		}
		first.Crash()
		first.Freeze()
		first.Thaw()
		first.Stop()
	})
}

// A worker that stops hands over: nothing is counted, and nobody waits for a lease.
func TestStopHandsOver(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		w := define(minute)
		first := env.Worker(w, holdfast.DrainTimeout(time.Second))
		begun := time.Now()
		h := start(t, env, w)
		env.Advance(20 * time.Second)
		second := env.Worker(w)
		first.Stop()
		first.Stop()
		wantResult(t, env, h, "done")
		r := record(t, env, h.ID())
		if last := r.Deliveries[len(r.Deliveries)-1]; last.Holder != second.Name() || env.Calls("step") != 2 || env.Takeovers() != 0 {
			t.Errorf("delivered as %+v, %d calls, %d takeovers", r.Deliveries, env.Calls("step"), env.Takeovers())
		}
		if took := time.Since(begun).Round(time.Second); took != (20+1+60)*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// A worker that was frozen for less than its lease goes on as if nothing had been.
func TestShortFreeze(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		w := define(minute)
		first := env.Worker(w)
		env.Worker(w)
		h := start(t, env, w)
		env.Advance(55 * time.Second)
		first.Freeze()
		first.Freeze()
		env.Advance(15 * time.Second)
		if r := record(t, env, h.ID()); r.Status != execution.StatusRunning {
			t.Errorf("the execution is %s while its holder is frozen", r.Status)
		}
		first.Thaw()
		first.Thaw()
		wantResult(t, env, h, "done")
		if env.Calls("step") != 1 || env.Takeovers() != 0 || len(env.Refused()) != 0 {
			t.Errorf("%d calls, %d takeovers, refused %v", env.Calls("step"), env.Takeovers(), env.Refused())
		}
	})
}

// A worker that froze for longer than its lease, while nobody took over, is not
// refused: its token is still the current one.
func TestLongFreezeWithoutATakeover(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		w := define(func(context.Context) (string, error) { return "done", nil })
		env.BeforeRecord("step", (*holdfasttest.Worker).Freeze)
		first := env.Worker(w)
		h := start(t, env, w)
		env.Advance(time.Hour)
		first.Thaw()
		wantResult(t, env, h, "done")
		if env.Calls("step") != 1 || len(env.Refused()) != 0 {
			t.Errorf("%d calls, refused %v", env.Calls("step"), env.Refused())
		}
	})
}

// Orders are carried out one by one, in their order.
func TestOrders(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		var came []string
		note := func(what string) func(*holdfasttest.Worker) {
			return func(w *holdfasttest.Worker) { came = append(came, w.Name()+" "+what) }
		}
		twice := holdfast.Define("twice", func(ctx holdfast.Context, _ string) (string, error) {
			if err := holdfast.Sleep(ctx, "nap", time.Hour); err != nil {
				return "", err
			}
			return holdfast.Step(ctx, "step", func(context.Context) (string, error) { return "", errors.New("no") }, holdfast.MaxAttempts(2))
		})
		env.AfterStep("nap", note("slept"))
		env.BeforeStep("step", note("one"))
		env.BeforeStep("step", note("two"))
		env.BeforeRecord("step", note("returned"))
		env.AfterStep("step", note("recorded"))
		env.Worker(twice)
		h, err := twice.Start(env.Context(), env.Client(), "in")
		if err != nil {
			t.Fatal(err)
		}
		var failed *holdfast.FailedError
		if _, err := h.Result(env.Context()); !errors.As(err, &failed) {
			t.Errorf("got %v", err)
		}
		want := []string{"worker-1 slept", "worker-1 one", "worker-1 returned", "worker-1 recorded", "worker-1 two"}
		if !slices.Equal(came, want) {
			t.Errorf("came to %q, want %q", came, want)
		}
	})
}

// The worker that was started first gets what several could.
func TestTheFirstWorkerIsTheFastest(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		w := define(func(context.Context) (string, error) { return "done", nil })
		first := env.Worker(w)
		for range 3 {
			env.Worker(w)
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			h, err := w.Start(env.Context(), env.Client(), "in", holdfast.WithID(id))
			if err != nil {
				t.Fatal(err)
			}
			wantResult(t, env, h, "done")
			if r := record(t, env, id); r.Deliveries[0].Holder != first.Name() {
				t.Errorf("%s was delivered to %s", id, r.Deliveries[0].Holder)
			}
			env.Advance(time.Hour) // the workers come to rest
		}
	})
}
