package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// timedBench has an execution that times out in an hour. It is for a bubble.
func timedBench(t *testing.T) *bench {
	b := newBench(t)
	b.deadline = time.Now().Add(time.Hour)
	return b
}

func wantTimedOut(t *testing.T, b *bench, v verdict) {
	t.Helper()
	if v.outcome == nil || !v.outcome.TimedOut() {
		t.Fatalf("got %s, want timed out", show(v))
	}
	wantEqual(t, "message", v.outcome.Error.Message, "the execution has timed out: its deadline was "+b.deadline.UTC().Format("2006-01-02T15:04:05.000Z"))
}

func TestDeliveryAfterTheDeadlineRunsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := timedBench(t)
		wantSuspended(t, b.deliver(func(ctx Context) (string, error) { return "", Sleep(ctx, "s", 2*time.Hour) }), time.Now().Add(2*time.Hour))
		advance(time.Hour - time.Millisecond)
		wantSuspended(t, b.deliver(func(ctx Context) (string, error) { return "", Sleep(ctx, "s", 0) }), time.Now().Add(time.Hour+time.Millisecond))
		b.steps.read = errors.New("nobody reads")
		for range 2 {
			advance(time.Millisecond)
			wantTimedOut(t, b, b.deliver(func(Context) (string, error) {
				t.Error("the workflow was run")
				return "", nil
			}))
		}
	})
}

// What a step comes to after the deadline is not recorded, and nothing runs after it.
func TestStepIsCutShortByTheDeadline(t *testing.T) {
	t.Parallel()
	for name, charge := range map[string]func(context.Context) (string, error){
		"looks at its context": func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		},
		"returns a value then": func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "charged", nil
		},
		"looks at nothing": func(context.Context) (string, error) {
			advance(2 * time.Hour)
			return "charged", nil
		},
		"panics then": func(ctx context.Context) (string, error) {
			<-ctx.Done()
			panic("too late")
		},
	} {
		for how, opts := range map[string][]StepOption{"once": nil, "with retries": {MaxAttempts(3)}} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := timedBench(t)
					v := b.deliver(func(ctx Context) (string, error) {
						_, err := Step(ctx, "charge", charge, opts...)
						if !errors.Is(err, ErrSuspended) || Failed(err) {
							t.Errorf("the step: %v", err)
						}
						if !errors.Is(context.Cause(ctx), execution.ErrTimeout) {
							t.Errorf("the cause is %v", context.Cause(ctx))
						}
						return Step(ctx, "refund", refuse(t))
					})
					wantTimedOut(t, b, v)
					wantEqual(t, "writes", len(b.steps.writes), 0)
				})
			})
		}
	}
}

// Whatever the function makes of it, the execution has timed out.
func TestFunctionThatReturnsAfterTheDeadline(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]body{
		"a result":     func(Context) (string, error) { return "done", nil },
		"a failure":    func(ctx Context) (string, error) { return "", ctx.Err() },
		"another run":  func(Context) (string, error) { return "", ContinueAsNew(nil) },
		"a suspension": func(Context) (string, error) { return "", ErrSuspended },
		"a panic":      func(Context) (string, error) { panic("too late") },
		"a misuse": func(ctx Context) (string, error) {
			_, err := Step(ctx, "", refuse(t))
			return "", err
		},
		"a sleep": func(ctx Context) (string, error) { return "", Sleep(ctx, "s", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := timedBench(t)
				wantTimedOut(t, b, b.deliver(func(ctx Context) (string, error) {
					<-ctx.Done()
					return end(ctx)
				}))
				wantEqual(t, "writes", len(b.steps.writes), 0)
			})
		})
	}
}

func TestWhatComesBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := timedBench(t)
		wantCompleted(t, b.deliver(func(ctx Context) (string, error) {
			if at, bounded := ctx.Deadline(); !bounded || !at.Equal(b.deadline) {
				t.Errorf("the context's deadline is %v, %t", at, bounded)
			}
			return Step(ctx, "charge", value("charged"))
		}), `"charged"`)
		ctx, cancel := context.WithCancelCause(t.Context())
		wantLost(t, b.deliverWith(ctx, nil, func(ctx Context) (string, error) {
			cancel(&execution.LostError{})
			advance(2 * time.Hour)
			return "", nil
		}))
	})
}
