package main

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/examples/internal/local"
)

func main() {
	bank := &Bank{Losing: 2}
	checkout := NewCheckout(bank)
	local.Run(func(ctx context.Context, c *holdfast.Client) error { return show(ctx, c, checkout, bank) }, checkout)
}

// show has three orders paid. The bank's answers to the first two get lost after it has
// charged the cards.
func show(ctx context.Context, c *holdfast.Client, checkout *holdfast.Workflow[Order, string], bank *Bank) error {
	for _, o := range []Order{{"tea", 8}, {"a chair", 120}, {"a yacht", 1_000_000}} {
		order, err := checkout.Start(ctx, c, o)
		if err != nil {
			return err
		}
		outcome, err := order.Result(ctx)
		if err != nil {
			return err
		}
		fmt.Println(outcome)
	}
	fmt.Println(bank.Charges(), "cards were charged")
	return nil
}
