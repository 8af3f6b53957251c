package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestDeleteFreesTheID(t *testing.T) {
	t.Parallel()
	c := open(t)
	var calls atomic.Int64
	gate := make(chan struct{})
	def := holdfast.Define("shop", func(ctx holdfast.Context, in string) (string, error) {
		return holdfast.Step(ctx, "buy", func(ctx context.Context) (string, error) {
			calls.Add(1)
			select {
			case <-gate:
				return in, nil
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		})
	})
	work(t, c, def)
	h := start(t, def, c, "tea", holdfast.WithID("order/42"))
	if err := c.Delete(bounded(t), "order/42"); !errors.Is(err, execution.ErrNotTerminal) {
		t.Errorf("deleted while it goes on: %v", err)
	}
	close(gate)
	result(t, h, "tea")
	check(t, c.Delete(bounded(t), "order/42"))
	if _, err := c.Get(bounded(t), "order/42"); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if err := c.Delete(bounded(t), "order/42"); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if h = start(t, def, c, "coffee", holdfast.WithID("order/42")); h.Existing() {
		t.Error("the deleted execution is there")
	}
	if result(t, h, "coffee"); calls.Load() != 2 {
		t.Errorf("the step's function was called %d times, want once for each execution", calls.Load())
	}
	check(t, c.Delete(bounded(t), "order/42"))
}

// An execution is deleted under a worker that stands still in a step, and its id is
// used again. What the worker then writes is refused, and the new one is its own.
func TestDeleteBesideAFrozenWorker(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("started again=%v", again), func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				def := holdfast.Define("shop", func(ctx holdfast.Context, in string) (string, error) {
					return holdfast.Step(ctx, "buy", func(context.Context) (string, error) { return in, nil })
				})
				ctx, c := env.Context(), env.Client()
				env.BeforeRecord("buy", (*holdfasttest.Worker).Freeze)
				first := env.Worker(def)
				start := func(in string) holdfast.Handle[string] {
					h, err := def.Start(ctx, c, in, holdfast.WithID("order"))
					if err != nil {
						t.Fatal(err)
					}
					return h
				}
				start("tea")
				env.Advance(time.Second)
				check(t, c.Cancel(ctx, "order", "test"))
				check(t, c.Delete(ctx, "order"))
				if again {
					env.Worker(def)
					if out, err := start("coffee").Result(ctx); out != "coffee" || err != nil {
						t.Errorf("%q, %v; want what the new one was given", out, err)
					}
				}
				first.Thaw()
				env.Advance(time.Second)
				late := func(l *execution.LostError) bool { return l.ID == "order" && l.Operation == "writeStep" }
				if refused := env.Refused(); !slices.ContainsFunc(refused, late) {
					t.Errorf("refused %v, want the late step", refused)
				}
				if rec, err := c.Get(ctx, "order"); again == (err != nil) || again && string(rec.Outcome.Result) != `"coffee"` {
					t.Errorf("%+v, %v", rec, err)
				}
			})
		})
	}
}
