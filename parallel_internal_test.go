package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestParallelSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const n = 50
	fn := func(ctx Context) (string, error) {
		var g errgroup.Group
		sums := make([]int, n)
		for i := range n {
			g.Go(func() (err error) {
				sums[i], err = Step(ctx, fmt.Sprintf("send-%d", i), value(i))
				return err
			})
		}
		err := g.Wait()
		sum := 0
		for _, s := range sums {
			sum += s
		}
		return fmt.Sprint(sum), err
	}
	wantCompleted(t, b.deliver(fn), `"1225"`)
	wantCompleted(t, b.deliver(fn), `"1225"`)
	wantEqual(t, "records", len(b.steps.recs), n)
}

// Whatever ends a delivery, the steps in flight end and are saved before it does.
func TestStepsInFlightAreSaved(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		first func(Context) error // ends the delivery, or the function
		check func(*testing.T, verdict)
	}{
		{"before suspended", func(ctx Context) error { return Sleep(ctx, "wait", time.Hour) }, func(t *testing.T, v verdict) {
			wantEqual(t, "kind", v.outcome.Kind, execution.Suspended)
		}},
		{"before completed", func(Context) error { return nil }, func(t *testing.T, v verdict) { wantCompleted(t, v, `"early"`) }},
		{"before failed", func(Context) error { return errors.New("early") }, func(t *testing.T, v verdict) { wantFailed(t, v, "early") }},
		{"before a panic's retry", func(Context) error { panic("early") }, func(t *testing.T, v verdict) { wantRetry(t, v) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				begun, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan verdict)
				go func() {
					ended <- b.deliver(func(ctx Context) (string, error) {
						go func() {
							_, _ = Step(ctx, "slow", func(ctx context.Context) (string, error) {
								close(begun)
								<-goOn
								return "saved", ctx.Err()
							})
						}()
						<-begun
						return "early", c.first(ctx)
					})
				}()
				<-begun
				synctest.Wait()
				select {
				case v := <-ended:
					t.Fatalf("the delivery ended as %s with a step in flight", show(v))
				default:
				}
				close(goOn)
				c.check(t, <-ended)
				rec, saved := b.steps.get("slow", 0)
				wantEqual(t, "saved", saved && rec.Done, true)
			})
		})
	}
}

func TestEarliestWakeOfParallelStepsWins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		begun := time.Now()
		v := b.deliver(func(ctx Context) (string, error) {
			var g errgroup.Group
			all := make(chan struct{})
			inFlight := 0
			for _, d := range []time.Duration{time.Hour, time.Minute, time.Second} {
				inFlight++
				g.Go(func() error {
					_, err := Step(ctx, d.String(), func(context.Context) (string, error) {
						<-all
						return "", errors.New("busy")
					}, MaxAttempts(2), Backoff(d, 1, d))
					return err
				})
			}
			synctest.Wait()
			close(all)
			return "", g.Wait()
		})
		wantSuspended(t, v, begun.Add(time.Second))
		wantEqual(t, "records", len(b.steps.recs), 3)
	})
}

// An in-place retry of a step in flight goes on: if it stopped, it would wait for
// the other step's wake.
func TestInPlaceRetryGoesOnBesideASuspension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		begun := time.Now()
		v := b.deliver(func(ctx Context) (string, error) {
			var g errgroup.Group
			tries := 0
			asleep := make(chan struct{})
			g.Go(func() error {
				_, err := Step(ctx, "busy", func(context.Context) (string, error) {
					<-asleep
					if tries++; tries < 3 {
						return "", errors.New("busy")
					}
					return "", nil
				}, MaxAttempts(3), Backoff(0, 1, 0))
				return err
			})
			synctest.Wait()
			err := Sleep(ctx, "wait", time.Hour)
			close(asleep)
			return "", errors.Join(err, g.Wait())
		})
		wantSuspended(t, v, begun.Add(time.Hour))
		rec, found := b.steps.get("busy", 2)
		wantEqual(t, "recorded", found && rec.Done, true)
	})
}

func TestStepBegunAfterTheFunctionReturnedRunsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	late := make(chan Context, 1)
	v := b.deliver(func(ctx Context) (string, error) {
		late <- ctx
		return "done", nil
	})
	wantCompleted(t, v, `"done"`)
	ctx := <-late
	if _, err := Step(ctx, "late", refuse(t)); !errors.Is(err, ErrSuspended) {
		t.Errorf("step: got %v", err)
	}
	if err := Sleep(ctx, "late", 0); !errors.Is(err, ErrSuspended) {
		t.Errorf("sleep: got %v", err)
	}
	wantEqual(t, "the delivery's context has ended", ctx.Err() != nil, true)
	wantEqual(t, "writes", len(b.steps.writes), 0)
}
