package main

import (
	"testing"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
)

// Every way that a payment can go, with workers that die in the middle: each order is
// charged once.
func TestCheckout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		euro, losing int
		crash        bool // between the charge and its record
		want         string
		charges      int
	}{
		"charged":                          {8, 0, false, "tea is shipped, by receipt 1", 1},
		"the answer is lost":               {8, 1, false, "tea is shipped, by receipt 1", 1},
		"the worker dies":                  {8, 0, true, "tea is shipped, by receipt 1", 1},
		"answer lost, and the worker dies": {8, 1, true, "tea is shipped, by receipt 1", 1},
		"declined":                         {5000, 0, false, "the card is declined", 0},
		"declined, and the worker dies":    {5000, 0, true, "the card is declined", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				bank := &Bank{Losing: c.losing}
				checkout := NewCheckout(bank)
				if c.crash {
					env.BeforeRecord("charge", (*holdfasttest.Worker).Crash)
				}
				env.Worker(checkout)
				env.Worker(checkout)
				order, err := checkout.Start(env.Context(), env.Client(), Order{"tea", c.euro}, holdfast.WithID("order-42"))
				if err != nil {
					t.Fatal(err)
				}
				if got, err := order.Result(env.Context()); err != nil || got != c.want {
					t.Errorf("got %q, %v; want %q", got, err, c.want)
				}
				if n := bank.Charges(); n != c.charges {
					t.Errorf("%d charges, want %d", n, c.charges)
				}
			})
		})
	}
}
