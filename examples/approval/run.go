package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/examples/internal/local"
)

func main() { local.Run(show, Expense) }

// show has one expense approved, and lets the time for another one run out.
func show(ctx context.Context, c *holdfast.Client) error {
	hotel, err := Expense.Start(ctx, c, Request{Who: "Ada", Euros: 120, Within: time.Minute}, holdfast.WithID("hotel"))
	if err != nil {
		return err
	}
	taxi, err := Expense.Start(ctx, c, Request{Who: "Bob", Euros: 30, Within: 2 * time.Second}, holdfast.WithID("taxi"))
	if err != nil {
		return err
	}
	if err := Decide(ctx, c, hotel.ID(), Decision{Approved: true, By: "Grace"}); err != nil {
		return err
	}
	for _, expense := range []holdfast.Handle[string]{hotel, taxi} {
		outcome, err := expense.Result(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", expense.ID(), outcome)
	}
	return nil
}
