package main

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
)

// Every way that an expense can go, with a worker that dies while it waits.
func TestExpense(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decision *Decision
		after    time.Duration
		want     string
	}{
		"approved":          {&Decision{true, "Grace"}, 47 * time.Hour, "Ada is paid 120 euros, says Grace"},
		"declined":          {&Decision{false, "Grace"}, 0, "declined by Grace"},
		"nobody decides":    {nil, 0, "nobody decided in time"},
		"decided too late":  {&Decision{true, "Grace"}, 49 * time.Hour, "nobody decided in time"},
		"decided at a time": {&Decision{true, "Grace"}, time.Hour, "Ada is paid 120 euros, says Grace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				first := env.Worker(Expense)
				expense, err := Expense.Start(env.Context(), env.Client(), Request{"Ada", 120, 48 * time.Hour}, holdfast.WithID("hotel"))
				if err != nil {
					t.Fatal(err)
				}
				env.Advance(time.Second)
				first.Crash()
				env.Worker(Expense)
				env.Advance(c.after)
				if c.decision != nil {
					if err := Decide(env.Context(), env.Client(), "hotel", *c.decision); err != nil {
						t.Fatal(err)
					}
				}
				if got, err := expense.Result(env.Context()); err != nil || got != c.want {
					t.Errorf("got %q, %v; want %q", got, err, c.want)
				}
				if n := env.Calls("ask"); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}
