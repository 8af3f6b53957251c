package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// closed is the drain channel of a worker that is shutting down.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func wantUnconfirmed(t *testing.T, v verdict) {
	t.Helper()
	if err := retried(t, v); !errors.Is(err, execution.ErrUnconfirmed) {
		t.Errorf("got %v, want ErrUnconfirmed", err)
	}
}

// A step that ends with an error after its delivery's context has ended was cut
// short: the error is not its own.
func TestCutShortStepIsNotRecorded(t *testing.T) {
	t.Parallel()
	lost := &execution.LostError{ID: "order-42", Carried: 101, Current: 105}
	causes := []struct {
		name  string
		cause error
		check func(*testing.T, verdict)
	}{
		{"lost", lost, wantLost},
		{"unconfirmed", execution.ErrUnconfirmed, wantUnconfirmed},
		{"draining", execution.ErrDraining, wantHandover},
	}
	for _, c := range causes {
		for name, opts := range map[string][]StepOption{"once": nil, "with retries": {MaxAttempts(3)}} {
			t.Run(c.name+", "+name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				v := b.deliverWith(ctx, nil, func(ctx Context) (string, error) {
					out, err := Step(ctx, "charge", func(ctx context.Context) (string, error) {
						cancel(c.cause)
						<-ctx.Done()
						wantEqual(t, "cause in the step", context.Cause(ctx), c.cause)
						return "", fmt.Errorf("charge: %w", ctx.Err())
					}, opts...)
					wantEqual(t, "Failed", Failed(err), false)
					return out, err
				})
				c.check(t, v)
				wantEqual(t, "writes", len(b.steps.writes), 0)
			})
		}
	}
}

// A value that arrives all the same is offered to etcd once, unless the token is
// proven lost.
func TestValueOfACutShortStep(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		cause  error
		writes int
		check  func(*testing.T, verdict)
	}{
		{"lost", &execution.LostError{}, 0, wantLost},
		{"unconfirmed, and the function ends", execution.ErrUnconfirmed, 1, func(t *testing.T, v verdict) { wantCompleted(t, v, `"charged"`) }},
		{"draining, and the function ends", execution.ErrDraining, 1, func(t *testing.T, v verdict) { wantCompleted(t, v, `"charged"`) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.steps.before = func(ctx context.Context, _ execution.StepWrite) error { return ctx.Err() }
			ctx, cancel := context.WithCancelCause(t.Context())
			v := b.deliverWith(ctx, nil, func(ctx Context) (string, error) {
				return Step(ctx, "charge", func(context.Context) (string, error) {
					cancel(c.cause)
					return "charged", nil
				})
			})
			c.check(t, v)
			wantEqual(t, "writes", len(b.steps.writes), c.writes)
		})
	}
}

func TestNothingNewRunsAfterTheContextEnded(t *testing.T) {
	t.Parallel()
	causes := []struct {
		name  string
		cause error
		check func(*testing.T, verdict)
	}{
		{"lost", execution.ErrLost, wantLost},
		{"unconfirmed", execution.ErrUnconfirmed, wantUnconfirmed},
		{"draining", execution.ErrDraining, wantHandover},
		{"without a cause", nil, func(t *testing.T, v verdict) {
			wantEqual(t, "cause", errors.Is(retried(t, v), context.Canceled), true)
		}},
	}
	next := map[string]func(*testing.T, Context) error{
		"step":  func(t *testing.T, ctx Context) error { _, err := Step(ctx, "ship", refuse(t)); return err },
		"sleep": func(_ *testing.T, ctx Context) error { return Sleep(ctx, "cool-off", time.Hour) },
		"error": func(_ *testing.T, ctx Context) error { return fmt.Errorf("read the catalogue: %w", ctx.Err()) },
	}
	for _, c := range causes {
		for what, call := range next {
			t.Run(c.name+", "+what, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				c.check(t, b.deliverWith(ctx, nil, func(ctx Context) (string, error) {
					if _, err := Step(ctx, "charge", value("charged")); err != nil {
						return "", err
					}
					cancel(c.cause)
					return "", call(t, ctx)
				}))
				wantEqual(t, "writes", len(b.steps.writes), 1)
			})
		}
	}
}

func TestResultAfterTheTokenIsLostIsDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	wantLost(t, b.deliverWith(ctx, nil, func(Context) (string, error) {
		cancel(execution.ErrLost)
		return "done", nil
	}))
}

// A write that outlives the delivery's context is bounded.
func TestLateWriteIsBounded(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		cause error
		check func(*testing.T, verdict)
	}{
		{"unconfirmed", execution.ErrUnconfirmed, wantUnconfirmed},
		{"draining", execution.ErrDraining, wantHandover},
		{"lost", execution.ErrLost, wantLost},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.steps.before = func(ctx context.Context, _ execution.StepWrite) error {
					<-ctx.Done() // etcd does not answer
					return ctx.Err()
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				begun := time.Now()
				time.AfterFunc(time.Hour, func() { cancel(c.cause) })
				c.check(t, b.deliverWith(ctx, nil, func(ctx Context) (string, error) { return Step(ctx, "charge", value("charged")) }))
				wantEqual(t, "given up after", time.Since(begun), time.Hour+b.engine.writeBound)
			})
		})
	}
}

func TestDrainHandsOverAtTheNextBoundary(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		drain := make(chan struct{})
		fn := func(ctx Context) (string, error) {
			if _, err := Step(ctx, "charge", func(context.Context) (string, error) { return "charged", nil }); err != nil {
				return "", err
			}
			if b.token == 101 {
				close(drain)
			}
			return Step(ctx, "ship", value("shipped"))
		}
		wantHandover(t, b.deliverWith(t.Context(), drain, fn))
		wantEqual(t, "records", len(b.steps.recs), 1)
		wantCompleted(t, b.deliver(fn), `"shipped"`)
	})
}

func TestDrainLetsRecordedStepsPass(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fn := func(ctx Context) (string, error) { return Step(ctx, "charge", value("charged")) }
	wantHandover(t, b.deliverWith(t.Context(), closed(), fn))
	b.deliver(fn)
	wantCompleted(t, b.deliverWith(t.Context(), closed(), fn), `"charged"`)
}

// A sleep hands over as well as a handover does, without an extra delivery.
func TestDrainLetsASleepSuspend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		fn := func(ctx Context) (string, error) { return "", Sleep(ctx, "cool-off", time.Hour) }
		wantSuspended(t, b.deliverWith(t.Context(), closed(), fn), time.Now().Add(time.Hour))
	})
}

func TestDrainStopsInPlaceRetries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	drain := make(chan struct{})
	tries := 0
	fn := func(ctx Context) (string, error) {
		return Step(ctx, "charge", func(context.Context) (string, error) {
			if tries++; tries == 2 {
				close(drain)
			}
			if tries < 4 {
				return "", errors.New("busy")
			}
			return "charged", nil
		}, MaxAttempts(4), Backoff(0, 1, 0))
	}
	wantHandover(t, b.deliverWith(t.Context(), drain, fn))
	wantEqual(t, "tries", tries, 2)
	wantCompleted(t, b.deliver(fn), `"charged"`)
	wantEqual(t, "tries", tries, 4)
}
