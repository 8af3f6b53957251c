package holdfast_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// open returns a client of a namespace of the test's own.
func open(t *testing.T, opts ...holdfast.Option) *holdfast.Client {
	t.Helper()
	opts = append([]holdfast.Option{
		holdfast.Etcd(testetcd.Client(t)), holdfast.Namespace(rand.Text()),
		holdfast.RedeliveryDelay(time.Millisecond, time.Millisecond),
	}, opts...)
	c, err := holdfast.Open(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, c.Close()) })
	return c
}

// work runs a worker until the returned function, or the test's end, stops it.
func work(t *testing.T, c *holdfast.Client, parts ...holdfast.WorkerOption) (stop func()) {
	t.Helper()
	w, err := holdfast.NewWorker(c, parts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// bounded is long enough for the slowest machine.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func start[In, Out any](t *testing.T, w *holdfast.Workflow[In, Out], c *holdfast.Client, in In, opts ...holdfast.StartOption) holdfast.Handle[Out] {
	t.Helper()
	h, err := w.Start(bounded(t), c, in, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func result[Out comparable](t *testing.T, h holdfast.Handle[Out], want Out) {
	t.Helper()
	got, err := h.Result(bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("result of %q: got %v, want %v", h.ID(), got, want)
	}
}

func get(t *testing.T, c *holdfast.Client, id string) execution.Record {
	t.Helper()
	rec, err := c.Get(bounded(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func echo(name string, opts ...holdfast.DefineOption) *holdfast.Workflow[string, string] {
	return holdfast.Define(name, func(_ holdfast.Context, in string) (string, error) { return in, nil }, opts...)
}

func TestNewWorkerRefuses(t *testing.T) {
	t.Parallel()
	c := open(t)
	cases := []struct {
		name  string
		parts []holdfast.WorkerOption
		want  string
	}{
		{"nothing to run", nil, "no workflow is given"},
		{"equal names", []holdfast.WorkerOption{echo("a"), echo("b"), echo("a")}, `workflow name "a" is given twice`},
		{"an empty name", []holdfast.WorkerOption{echo("")}, `workflow name "" is empty`},
		{"a bad queue", []holdfast.WorkerOption{echo("a", holdfast.OnQueue(""))}, `queue name "" is empty`},
		{"no function", []holdfast.WorkerOption{holdfast.Define[int, int]("a", nil)}, `workflow "a" has no function`},
		{"a nil workflow", []holdfast.WorkerOption{(*holdfast.Workflow[int, int])(nil)}, "workflow is nil"},
		{"a nil part", []holdfast.WorkerOption{echo("a"), nil}, "part 1 is nil"},
		{"no concurrency", []holdfast.WorkerOption{echo("a"), holdfast.Concurrency(0)}, `concurrency "0" is less than 1`},
		{"a short lease", []holdfast.WorkerOption{echo("a"), holdfast.Lease(time.Millisecond, 1)}, `lease duration "1ms" is not between 1s and`},
		{"a slow renewal", []holdfast.WorkerOption{echo("a"), holdfast.Lease(9*time.Second, 5*time.Second)}, `renewal interval "5s" is not more than 0 and at most half the lease duration 9s`},
		{"no renewal", []holdfast.WorkerOption{echo("a"), holdfast.Lease(9*time.Second, 0)}, `renewal interval "0s"`},
		{"a negative drain", []holdfast.WorkerOption{echo("a"), holdfast.DrainTimeout(-1)}, `drain timeout "-1ns" is negative`},
		{"an empty name of the holder", []holdfast.WorkerOption{echo("a"), holdfast.Name("")}, `holder name "" is empty`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, err := holdfast.NewWorker(c, tc.parts...)
			if w != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want an error with %q", w, err, tc.want)
			}
		})
	}
	t.Run("a nil client", func(t *testing.T) {
		t.Parallel()
		if _, err := holdfast.NewWorker(nil, echo("a")); err == nil {
			t.Error("no error")
		}
	})
}

func TestWorkerRunsOnceAtATime(t *testing.T) {
	t.Parallel()
	c := open(t)
	entered := make(chan struct{})
	def := holdfast.Define("shop", func(ctx holdfast.Context, _ int) (int, error) {
		close(entered)
		<-ctx.Done() // ends with the drain's timeout
		return 0, ctx.Err()
	})
	w, err := holdfast.NewWorker(c, def, holdfast.DrainTimeout(0))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	start(t, def, c, 1)
	<-entered
	if err := w.Run(ctx); err == nil {
		t.Error("a second Run beside the first gave no error")
	}
	cancel()
	check(t, <-ended)
	check(t, w.Run(ctx)) // one after the other is as good as two workers
}

func TestExecutionEndToEnd(t *testing.T) {
	t.Parallel()
	type order struct{ Card, Item string }
	c := open(t)
	tries := 0
	def := holdfast.Define("checkout", func(ctx holdfast.Context, o order) (string, error) {
		pay, err := holdfast.Step(ctx, "charge", func(context.Context) (string, error) {
			if tries++; tries < 3 {
				return "", errors.New("busy")
			}
			return "paid by " + o.Card, nil
		}, holdfast.MaxAttempts(3), holdfast.Backoff(time.Millisecond, 1, time.Millisecond))
		if err != nil {
			return "", err
		}
		if err := holdfast.Sleep(ctx, "pack", 5*time.Millisecond); err != nil {
			return "", err
		}
		return holdfast.Step(ctx, "ship", func(context.Context) (string, error) { return o.Item + ", " + pay, nil })
	})
	work(t, c, def)

	h := start(t, def, c, order{"visa", "tea"}, holdfast.WithID("order/42 ☕"))
	if h.Existing() || h.ID() != "order/42 ☕" {
		t.Errorf("got id %q, existing %t", h.ID(), h.Existing())
	}
	result(t, h, "tea, paid by visa")
	if tries != 3 {
		t.Errorf("the charge was tried %d times", tries)
	}
	rec := get(t, c, h.ID())
	if rec.Status != execution.StatusCompleted || rec.UnacknowledgedDeliveries != 0 {
		t.Errorf("record: %+v", rec)
	}

	again := start(t, def, c, order{"visa", "tea"}, holdfast.WithID(h.ID()))
	if !again.Existing() {
		t.Error("the second start made another execution")
	}
	result(t, again, "tea, paid by visa")
	result(t, def.Handle(c, h.ID()), "tea, paid by visa")
	if _, err := def.Start(bounded(t), c, order{"visa", "coffee"}, holdfast.WithID(h.ID())); !errors.Is(err, execution.ErrConflict) {
		t.Errorf("start with another input: %v", err)
	}
	page, err := c.List(bounded(t), execution.ListRequest{Workflow: "checkout"})
	if err != nil || len(page.Records) != 1 || page.Records[0].ID != execution.ID(h.ID()) {
		t.Errorf("list: %+v, %v", page, err)
	}
}

func TestObserverAndLoggerAreTold(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	swallowed, steps := make(chan execution.Event, 16), make(chan execution.Event, 16)
	c := open(t, holdfast.Logger(zap.New(core)), holdfast.Observe(func(e execution.Event) {
		switch e.Kind {
		case execution.EventSwallowed:
			swallowed <- e
		case execution.EventStep:
			steps <- e
		default:
		}
	}))
	def := holdfast.Define("shop", func(ctx holdfast.Context, in string) (string, error) {
		_ = holdfast.Sleep(ctx, "cool-off", 20*time.Millisecond)
		return in, nil
	})
	work(t, c, def)
	h := start(t, def, c, "tea")
	result(t, h, "tea")
	if e := <-steps; e.Workflow != "shop" || e.Operation != "cool-off" || e.Outcome != "ran" || e.ID != execution.ID(h.ID()) || e.At.IsZero() {
		t.Errorf("step event: %+v", e)
	}
	// On a slow machine the sleep is over before it suspends.
	if warned := logs.FilterMessageSnippet("did not return ErrSuspended").Len(); warned != len(swallowed) {
		t.Errorf("%d warnings, %d events", warned, len(swallowed))
	}
	recs, err := c.Steps().Read(bounded(t), execution.Lease{ID: execution.ID(h.ID()), Incarnation: get(t, c, h.ID()).Incarnation})
	if err != nil || len(recs) != 1 || recs[0].Key != "cool-off" {
		t.Errorf("records: %+v, %v", recs, err)
	}
}

func TestExecutionFails(t *testing.T) {
	t.Parallel()
	c := open(t)
	def := holdfast.Define("shop", func(ctx holdfast.Context, _ int) (int, error) {
		return holdfast.Step(ctx, "charge", func(context.Context) (int, error) { return 0, holdfast.Permanent(errors.New("no such card")) })
	})
	work(t, c, def)
	h := start(t, def, c, 1)
	_, err := h.Result(bounded(t))
	var failed *holdfast.FailedError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	if failed.ID != h.ID() || failed.Message != `step "charge" failed: no such card` || failed.Cancelled() {
		t.Errorf("got %+v", failed)
	}
	outcome, err := h.Wait(bounded(t))
	if err != nil || outcome.Kind != execution.Failed {
		t.Errorf("wait: %+v, %v", outcome, err)
	}
}

func TestCancelStopsTheStep(t *testing.T) {
	t.Parallel()
	c := open(t)
	entered, cause := make(chan struct{}), make(chan error, 1)
	def := holdfast.Define("shop", func(ctx holdfast.Context, _ int) (int, error) {
		return holdfast.Step(ctx, "charge", func(ctx context.Context) (int, error) {
			close(entered)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return 0, ctx.Err()
		})
	})
	work(t, c, def)
	h := start(t, def, c, 1)
	<-entered
	check(t, c.Cancel(bounded(t), h.ID(), "customer called"))
	if err := <-cause; !errors.Is(err, execution.ErrLost) {
		t.Errorf("cause in the step: %v", err)
	}
	_, err := h.Result(bounded(t))
	var failed *holdfast.FailedError
	if !errors.As(err, &failed) || !failed.Cancelled() {
		t.Errorf("got %v", err)
	}
}

func TestPanicIsCountedAndRedelivered(t *testing.T) {
	t.Parallel()
	c := open(t)
	deliveries := 0
	def := holdfast.Define("shop", func(_ holdfast.Context, in string) (string, error) {
		if deliveries++; deliveries == 1 {
			panic("boom")
		}
		return in, nil
	})
	work(t, c, def)
	h := start(t, def, c, "tea")
	result(t, h, "tea")
	rec := get(t, c, h.ID())
	first := rec.Deliveries[0]
	if first.How != execution.HowReleased || !strings.HasPrefix(first.Why, `panic in workflow "shop" at worker_test.go:`) {
		t.Errorf("first delivery: %+v", first)
	}
}

// A delivery that an operator takes away records nothing more: the value that its
// step returns late is dropped, and the next delivery runs the step again.
func TestFencedHolderRecordsNothing(t *testing.T) {
	t.Parallel()
	c := open(t)
	tokens := make(chan int64, 2)
	def := holdfast.Define("shop", func(ctx holdfast.Context, _ int) (int64, error) {
		return holdfast.Step(ctx, "charge", func(ctx context.Context) (int64, error) {
			token := holdfast.Fence(ctx).Token
			tokens <- token
			if len(tokens) == 1 {
				<-ctx.Done()
			}
			return token, nil
		})
	})
	work(t, c, def)
	h := start(t, def, c, 1)
	waitFor(t, func() bool { return len(tokens) == 1 })
	check(t, c.Executions().Fence(bounded(t), execution.ID(h.ID()), "test"))
	got, err := h.Result(bounded(t))
	check(t, err)
	if first, second := <-tokens, <-tokens; got != second || second <= first {
		t.Errorf("recorded by token %d of %d and %d", got, first, second)
	}
}

func TestDrainHandsOver(t *testing.T) {
	t.Parallel()
	c := open(t)
	ctx, stopFirst := context.WithCancel(t.Context())
	// The workflow steps on until one of its steps was run by the second worker.
	def := func(worker string) *holdfast.Workflow[string, string] {
		return holdfast.Define("shop", func(ctx holdfast.Context, _ string) (string, error) {
			for i := 0; ; i++ {
				by, err := holdfast.Step(ctx, fmt.Sprintf("step-%d", i), func(context.Context) (string, error) {
					stopFirst()
					return worker, nil
				})
				if err != nil || by == "second" {
					return by, err
				}
			}
		})
	}
	first, err := holdfast.NewWorker(c, def("first"), holdfast.Name("first"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	h := start(t, def("first"), c, "tea")
	check(t, <-ended)
	rec := get(t, c, h.ID())
	if rec.Status != execution.StatusSuspended || rec.UnacknowledgedDeliveries != 0 || rec.Due.IsZero() || rec.Due.After(time.Now()) {
		t.Errorf("after the drain: %+v", rec)
	}
	work(t, c, def("second"), holdfast.Name("second"))
	result(t, h, "second")
	past := get(t, c, h.ID()).Deliveries
	if len(past) != 2 || past[0].Holder != "first" || past[0].How != execution.HowSuspended || past[1].Holder != "second" {
		t.Errorf("deliveries: %+v", past)
	}
}

func TestStrayWakeChangesNothing(t *testing.T) {
	t.Parallel()
	c := open(t)
	deliveries := make(chan int, 16)
	def := holdfast.Define("shop", func(ctx holdfast.Context, in string) (string, error) {
		deliveries <- 1
		return in, holdfast.Sleep(ctx, "cool-off", time.Hour)
	})
	work(t, c, def)
	h := start(t, def, c, "tea")
	<-deliveries
	due := suspendedDue(t, c, h.ID())
	check(t, c.Wake(bounded(t), h.ID(), time.Time{}))
	<-deliveries
	if again := suspendedDue(t, c, h.ID()); !again.Equal(due) {
		t.Errorf("due at %v after a stray wake, at %v before", again, due)
	}
	if err := c.Wake(bounded(t), "nobody", time.Time{}); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("wake of an unknown id: %v", err)
	}
}

// suspendedDue waits until the execution is suspended and due in the far future.
func suspendedDue(t *testing.T, c *holdfast.Client, id string) (due time.Time) {
	t.Helper()
	waitFor(t, func() bool {
		rec := get(t, c, id)
		due = rec.Due
		return rec.Status == execution.StatusSuspended && time.Until(due) > time.Minute
	})
	return due
}

// waitFor polls until it is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ctx := bounded(t); !so(); <-tick.C {
		if ctx.Err() != nil {
			t.Fatal("it did not come about")
		}
	}
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	c := open(t)
	cases := []struct {
		name  string
		start func(context.Context) error
		want  string
	}{
		{"an empty id", func(ctx context.Context) error {
			_, err := echo("a").Start(ctx, c, "x", holdfast.WithID(""))
			return err
		}, `execution id "" is empty`},
		{"a bad workflow name", func(ctx context.Context) error { _, err := echo("\x00").Start(ctx, c, "x"); return err }, `workflow name "\x00" holds a NUL`},
		{"an input that is not JSON", func(ctx context.Context) error {
			w := holdfast.Define("a", func(_ holdfast.Context, _ func()) (int, error) { return 0, nil })
			_, err := w.Start(ctx, c, nil)
			return err
		}, `input can't be encoded as JSON`},
		{"an input over the limit", func(ctx context.Context) error {
			_, err := echo("a").Start(ctx, c, strings.Repeat("x", execution.MaxPayloadBytes))
			return err
		}, `is too large: 1048578 bytes, the limit is 1048576`},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if err := tc.start(bounded(t)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	if _, err := echo("a").Start(bounded(t), nil, "x"); err == nil {
		t.Error("no error without a client")
	}
	if _, err := (holdfast.Handle[int]{}).Result(bounded(t)); err == nil {
		t.Error("no error of an empty handle")
	}
	page, err := c.List(bounded(t), execution.ListRequest{})
	if err != nil || len(page.Records) != 0 {
		t.Errorf("something was stored: %+v, %v", page, err)
	}
}

func TestUnknownExecution(t *testing.T) {
	t.Parallel()
	c := open(t)
	if _, err := echo("a").Handle(c, "nobody").Result(bounded(t)); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("result: %v", err)
	}
	if _, err := c.Get(bounded(t), "nobody"); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if err := c.Cancel(bounded(t), "nobody", ""); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("cancel: %v", err)
	}
}

func TestQueuesAreShared(t *testing.T) {
	t.Parallel()
	c := open(t)
	a, b := echo("a", holdfast.OnQueue("shared")), echo("b", holdfast.OnQueue("shared"))
	work(t, c, a, b)
	ha, hb := start(t, a, c, "1"), start(t, b, c, "2")
	result(t, ha, "1")
	result(t, hb, "2")
	if q := get(t, c, ha.ID()).Queue; q != "shared" {
		t.Errorf("queue: %q", q)
	}
}
