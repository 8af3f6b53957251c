package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The wake of a wait is each delivery's own, and only the wait is recorded, once. Of
// two times the earlier one counts.
func TestWakeOfAWait(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]time.Duration{"no time of its own": 0, "a later time": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				wait := replay.Wait{Store: execution.StoreID{Name: "counter", ID: "x"}}
				if until > 0 {
					wait.Until = time.Now().Add(until)
				}
				fn := asks(func(context.Context, replay.Earlier) (replay.Answer, error) {
					w := wait
					w.Wake = time.Now().Add(time.Hour)
					return replay.Answer{Wait: &w}, nil
				})
				for range 2 {
					wantSuspended(t, b.deliver(fn), time.Now().Add(time.Hour))
					advance(30 * time.Minute)
				}
				wantEqual(t, "writes", len(b.steps.writes), 1)
				wantEqual(t, "record", string(b.steps.writes[0].Response), string(waitResponse(wait.Until).encode()))
				advance(90 * time.Minute)
				want := time.Now().Add(time.Hour)
				if until > 0 {
					want = wait.Until
				}
				wantSuspended(t, b.deliver(fn), want)
			})
		})
	}
}

// A call knows its step's fencing, as a step's function does.
func TestCallKnowsItsFencing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var f execution.Fencing
	wantCompleted(t, b.deliver(asks(func(ctx context.Context, _ replay.Earlier) (replay.Answer, error) {
		f = execution.FencingOf(ctx)
		return replay.Answer{}, nil
	})), `"null"`)
	lease := execution.Lease{ID: "order-42", Token: 101, Incarnation: 7}
	wantEqual(t, "fencing", f, execution.Fencing{
		Key: idempotencyKey("tests", lease, "s"), Token: 101, Namespace: "tests", ExecutionID: "order-42", Step: "s",
	})
}
