package holdfast

// White-box: see harness_internal_test.go.

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSleepKeepsItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		end := time.Now().Add(72 * time.Hour)
		fn := func(ctx Context) (string, error) {
			if err := Sleep(ctx, "cool-off", 72*time.Hour); err != nil {
				return "", err
			}
			return Step(ctx, "ship", value("shipped"))
		}
		wantSuspended(t, b.deliver(fn), end)
		rec, _ := b.steps.get("cool-off", 0)
		wantEqual(t, "done from the start", rec.Done, true)
		advance(time.Hour)
		wantSuspended(t, b.deliver(fn), end)
		advance(71*time.Hour - time.Nanosecond)
		wantSuspended(t, b.deliver(fn), end)
		advance(time.Nanosecond)
		wantCompleted(t, b.deliver(fn), `"shipped"`)
		wantEqual(t, "writes", len(b.steps.writes), 2)
	})
}

func TestSleepOfNoTimeDoesNotSuspend(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, -time.Hour} {
		b := newBench(t)
		wantCompleted(t, b.deliver(func(ctx Context) (string, error) { return "awake", Sleep(ctx, "s", d) }), `"awake"`)
		wantEqual(t, "writes", len(b.steps.writes), 1)
	}
}

// Due times are kept in whole milliseconds: a delivery for a wake that was rounded
// down would come too early and suspend again.
func TestDueIsRoundedUpToMilliseconds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 12, 0, 0, 1, time.UTC)
	cases := []struct {
		name string
		d    time.Duration
		want time.Time
	}{
		{"a part of a millisecond", time.Second, now.Add(time.Second + time.Millisecond - 1)},
		{"whole milliseconds", time.Second - 1, now.Add(time.Second - 1)},
		{"no wait", 0, now},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantEqual(t, "due", due(now, c.d), c.want)
		})
	}
}
