package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast"
)

// To fan out, start all, then wait for each: the children run side by side, and the
// parent holds nothing while it waits.
func ExampleStart() {
	parcel := holdfast.Define("parcel", func(ctx holdfast.Context, item string) (string, error) {
		return holdfast.Step(ctx, "pack", func(context.Context) (string, error) { return "a box of " + item, nil })
	})
	order := holdfast.Define("order", func(ctx holdfast.Context, items []string) (string, error) {
		parcels := make([]holdfast.Started[string], len(items))
		for i, item := range items {
			var err error
			if parcels[i], err = holdfast.Start(ctx, "send "+item, parcel, item); err != nil {
				return "", err
			}
		}
		var sent []string
		for i, p := range parcels {
			box, err := p.Await(ctx, "await "+items[i])
			if err != nil {
				return "", err
			}
			sent = append(sent, box)
		}
		return strings.Join(sent, ", "), nil
	})
	fmt.Println(run(order, []string{"tea", "milk", "sugar"}, parcel))
	// Output:
	// a box of tea, a box of milk, a box of sugar <nil>
}

// A child that fails, or is cancelled, is an error that the parent can handle.
func ExampleChild() {
	charge := holdfast.Define("charge", func(_ holdfast.Context, card string) (string, error) {
		return "", fmt.Errorf("%s has expired", card)
	})
	order := holdfast.Define("order", func(ctx holdfast.Context, card string) (string, error) {
		payment, err := holdfast.Child(ctx, "charge", charge, card, holdfast.WithID("order-42/payment"))
		if failed, is := errors.AsType[*holdfast.FailedError](err); is {
			return "to be paid on delivery: " + failed.Message, nil
		}
		return payment, err
	})
	fmt.Println(run(order, "visa", charge))
	// Output:
	// to be paid on delivery: visa has expired <nil>
}
