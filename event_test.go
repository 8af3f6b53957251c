package holdfast_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
)

// Whatever the moment at which a worker crashes, each event is applied once, in order.
func TestEventsSurviveCrashes(t *testing.T) {
	type at = func(*holdfasttest.Env, string, func(*holdfasttest.Worker))
	for name, moment := range map[string]at{
		"before it looks":  (*holdfasttest.Env).BeforeStep,
		"before it writes": (*holdfasttest.Env).BeforeRecord,
		"after it wrote":   (*holdfasttest.Env).AfterStep,
	} {
		t.Run(name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				const n = 12
				w := collect(n, 4)
				for range 3 { // one in each run
					moment(env, "item 2", func(crashed *holdfasttest.Worker) {
						crashed.Crash()
						env.Worker(w)
					})
				}
				env.Worker(w)
				h, err := w.Start(env.Context(), env.Client(), nil, holdfast.WithID("inbox"))
				if err != nil {
					t.Fatal(err)
				}
				var want []int
				for i := range n {
					if err := items.Send(env.Context(), env.Client(), "inbox", i); err != nil {
						t.Fatal(err)
					}
					want = append(want, i)
					if i%3 == 0 {
						env.Advance(time.Hour)
					}
				}
				if got, err := h.Result(env.Context()); err != nil || !slices.Equal(got, want) {
					t.Errorf("got %v, %v", got, err)
				}
				if env.Takeovers() == 0 {
					t.Error("nobody took over")
				}
			})
		})
	}
}

// A worker that freezes between its look at an event and its record comes back when
// another one has applied that event, and is refused.
func TestFrozenWorkerAppliesNoEvent(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		const n = 3
		w := collect(n, 10)
		env.BeforeRecord("item 0", (*holdfasttest.Worker).Freeze)
		frozen := env.Worker(w)
		h, err := w.Start(env.Context(), env.Client(), nil, holdfast.WithID("inbox"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range n - 1 {
			if err := items.Send(env.Context(), env.Client(), "inbox", i); err != nil {
				t.Fatal(err)
			}
		}
		env.Advance(time.Second)
		env.Worker(w)
		env.Advance(time.Hour)
		frozen.Thaw()
		env.Advance(time.Hour)
		// It writes the event, or hears of its lost lease first, and then releases.
		if refused := env.Refused(); len(refused) != 1 || refused[0].Operation != "writeStep" && refused[0].Operation != "release" {
			t.Errorf("refused: %v", refused)
		}
		if err := items.Send(env.Context(), env.Client(), "inbox", n-1); err != nil {
			t.Fatal(err)
		}
		if got, err := h.Result(env.Context()); err != nil || fmt.Sprint(got) != "[0 1 2]" {
			t.Errorf("got %v, %v", got, err)
		}
	})
}
