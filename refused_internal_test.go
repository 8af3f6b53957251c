package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A system outside has seen a later delivery: this one is over, whatever retries the
// step asks for, and nothing is recorded. Whose lease is not this one's says nothing
// about it.
func TestRefusedOutside(t *testing.T) {
	t.Parallel()
	own := execution.LostError{ID: "order-42", Operation: "guard", Carried: 101, Current: 105}
	another, earlier := own, own
	another.ID = "order-43"
	earlier.Carried = 100
	for name, c := range map[string]struct {
		err  error
		lost bool
	}{
		"its own":                {&own, true},
		"its own, wrapped":       {fmt.Errorf("save: %w", &own), true},
		"its own, joined":        {errors.Join(errors.New("roll back"), &own), true},
		"its own, permanent":     {Permanent(&own), true},
		"another execution's":    {&another, false},
		"another delivery's":     {&earlier, false},
		"lost without more ado":  {execution.ErrLost, false},
		"an error like any else": {errors.New("busy"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, calls := newBench(t), 0
			v := b.deliver(func(ctx Context) (string, error) {
				return Step(ctx, "save", func(context.Context) (string, error) {
					calls++
					return "", c.err
				}, MaxAttempts(2), Backoff(0, 1, 0))
			})
			_, recorded := b.steps.get("save", 0)
			wantEqual(t, "lost", v.lost, c.lost)
			wantEqual(t, "recorded", recorded, !c.lost)
			wantEqual(t, "called once", calls == 1, c.lost)
		})
	}
}
