package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The five ways in which user code swallows a suspension. In all of them the
// execution stays suspended, no effect runs, and the next delivery completes.
func TestSwallowedSuspension(t *testing.T) {
	t.Parallel()
	type effects struct{ refunded, shipped bool }
	cases := []struct {
		name string
		fn   func(Context, *effects) (string, error)
		// counted: the function's answer hid the suspension.
		counted bool
	}{
		{"ignored error", func(ctx Context, _ *effects) (string, error) {
			_ = Sleep(ctx, "wait", time.Hour)
			return "done", nil
		}, true},
		{"wrapped without the chain", func(ctx Context, _ *effects) (string, error) {
			if err := Sleep(ctx, "wait", time.Hour); err != nil {
				return "", fmt.Errorf("wait: %v", err) //nolint:errorlint // the fault under test
			}
			return "done", nil
		}, true},
		{"carries on with another step", func(ctx Context, e *effects) (string, error) {
			_ = Sleep(ctx, "wait", time.Hour)
			return Step(ctx, "ship", func(context.Context) (string, error) { e.shipped = true; return "done", nil })
		}, false},
		{"error inside an errgroup", func(ctx Context, _ *effects) (string, error) {
			var g errgroup.Group
			g.Go(func() error { return Sleep(ctx, "wait", time.Hour) })
			_ = g.Wait()
			return "done", nil
		}, true},
		{"refund in the error branch", func(ctx Context, e *effects) (string, error) {
			if err := Sleep(ctx, "wait", time.Hour); err != nil {
				_, _ = Step(ctx, "refund", func(context.Context) (string, error) { e.refunded = true; return "", nil })
				return "refunded", nil //nolint:nilerr // the fault under test
			}
			return "done", nil
		}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				var e effects
				fn := func(ctx Context) (string, error) { return c.fn(ctx, &e) }
				wantSuspended(t, b.deliver(fn), time.Now().Add(time.Hour))
				wantEqual(t, "effects", e, effects{})
				sites := b.swallowed()
				wantEqual(t, "counted", len(sites) == 1, c.counted)
				wantEqual(t, "warnings", b.logs.FilterField(logged("caller", sites)).Len(), len(sites))
				for _, site := range sites {
					if !strings.HasPrefix(filepath.Base(site), "suspend_internal_test.go:") {
						t.Errorf("call site: got %q", site)
					}
				}
				advance(time.Hour)
				wantCompleted(t, b.deliver(fn), `"done"`)
				wantEqual(t, "refunded", e.refunded, false)
			})
		})
	}
}

func TestSwallowedSuspensionNamesTheFirstCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var want string
	b.deliver(func(ctx Context) (string, error) {
		_, file, line, _ := runtime.Caller(0)
		_, _ = Step(ctx, "s", func(context.Context) (string, error) { return "", errors.New("busy") }, MaxAttempts(2))
		want = fmt.Sprintf("%s:%d", file, line+1)
		_ = Sleep(ctx, "t", time.Hour)
		return "", nil
	})
	wantList(t, "call sites", b.swallowed(), []string{want})
}

func TestReturnedSuspensionIsNotCounted(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		wrap func(error) error
	}{
		{"as it is", func(err error) error { return err }},
		{"wrapped", func(err error) error { return fmt.Errorf("wait: %w", err) }},
		{"joined", func(err error) error { return errors.Join(errors.New("other"), err) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				v := b.deliver(func(ctx Context) (string, error) { return "", c.wrap(Sleep(ctx, "wait", time.Hour)) })
				wantSuspended(t, v, time.Now().Add(time.Hour))
				wantEqual(t, "swallowed", len(b.swallowed()), 0)
				wantEqual(t, "log lines", b.logs.Len(), 0)
			})
		})
	}
}

func TestVerdictOfTheLatch(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	boom := errors.New("boom")
	suspend := func(d time.Duration) func(*latch) { return func(l *latch) { l.suspend(now.Add(d)) } }
	untimed := func(l *latch) { l.suspend(time.Time{}) }
	misuse := func(l *latch) { l.misuse(ErrDuplicateStep) }
	breakOff := func(l *latch) { l.breakOff(boom) }
	cases := []struct {
		name string
		hows []func(*latch)
		want string
	}{
		{"the earliest wake wins", []func(*latch){suspend(2), suspend(1), suspend(3)}, `{"kind":"suspended","wake":"2026-12-01T00:00:00.000000001Z"}`},
		{"no time of its own wipes no other's", []func(*latch){untimed, suspend(2), untimed}, `{"kind":"suspended","wake":"2026-12-01T00:00:00.000000002Z"}`},
		{"none has a time", []func(*latch){untimed, untimed}, `{"kind":"suspended"}`},
		{"a handover needs no wake", []func(*latch){suspend(1), (*latch).handOver}, `{"kind":"suspended","handover":true}`},
		{"misuse overrules a wait", []func(*latch){misuse, suspend(1)}, `{"kind":"failed","error":{"message":"step name is used twice in one run"}}`},
		{"a break overrules misuse", []func(*latch){breakOff, misuse}, `retry: boom`},
		{"the first break counts", []func(*latch){breakOff, func(l *latch) { l.breakOff(errors.New("later")) }}, `retry: boom`},
		{"lost overrules all", []func(*latch){(*latch).lose, breakOff, misuse, suspend(1), (*latch).handOver}, `lost`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var l latch
			for _, how := range c.hows {
				how(&l)
			}
			wantEqual(t, "verdict", show(l.verdict()), c.want)
		})
	}
}

// A call that comes after the end of the delivery runs nothing, but its recorded
// wait still counts: otherwise an early wake would trade it for a later one.
func TestLaterRecordedWaitCountsToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		begun := time.Now()
		runs := 0
		both := func(first, second func(Context) error) body {
			return func(ctx Context) (string, error) {
				err := first(ctx)
				return "done", errors.Join(err, second(ctx))
			}
		}
		sleep := func(ctx Context) error { return Sleep(ctx, "long", time.Hour) }
		retry := func(ctx Context) error {
			_, err := Step(ctx, "busy", func(context.Context) (string, error) {
				if runs++; runs == 1 {
					return "", errors.New("busy")
				}
				return "", nil
			}, MaxAttempts(2), Backoff(time.Minute, 1, time.Minute))
			return err
		}
		inParallel := func(ctx Context) (string, error) {
			var g errgroup.Group
			busy := make(chan struct{})
			g.Go(func() error {
				<-busy
				return Sleep(ctx, "long", time.Hour)
			})
			_, err := Step(ctx, "busy", func(context.Context) (string, error) {
				close(busy)
				synctest.Wait() // the sleep has suspended
				runs++
				return "", errors.New("busy")
			}, MaxAttempts(2), Backoff(time.Minute, 1, time.Minute))
			return "done", errors.Join(err, g.Wait())
		}
		wantSuspended(t, b.deliver(inParallel), begun.Add(time.Minute))
		advance(time.Second)
		wantSuspended(t, b.deliver(both(sleep, retry)), begun.Add(time.Minute))
		advance(time.Hour)
		wantCompleted(t, b.deliver(both(sleep, retry)), `"done"`)
		wantEqual(t, "runs", runs, 2)
	})
}

func TestLaterRecordedSleepCountsToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		begun := time.Now()
		var both sync.WaitGroup
		both.Add(2)
		b.steps.before = func(context.Context, execution.StepWrite) error {
			both.Done()
			both.Wait() // both are in flight
			return nil
		}
		v := b.deliver(func(ctx Context) (string, error) {
			var g errgroup.Group
			g.Go(func() error { return Sleep(ctx, "long", time.Hour) })
			g.Go(func() error { return Sleep(ctx, "short", time.Minute) })
			return "", g.Wait()
		})
		wantSuspended(t, v, begun.Add(time.Minute))
		v = b.deliver(func(ctx Context) (string, error) {
			return "", errors.Join(Sleep(ctx, "long", time.Hour), Sleep(ctx, "short", time.Minute))
		})
		wantSuspended(t, v, begun.Add(time.Minute))
	})
}
