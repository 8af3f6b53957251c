package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/embedded"
)

type Order struct{ Item, Card string }

var Checkout = holdfast.Define("checkout", func(ctx holdfast.Context, o Order) (string, error) {
	payment, err := holdfast.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		return charge(ctx, o.Card, holdfast.Fence(ctx).Key) // the same key on every attempt
	}, holdfast.MaxAttempts(5))
	if err != nil {
		return "", err
	}
	if err := holdfast.Sleep(ctx, "pack", 100*time.Millisecond); err != nil { // or 100 days
		return "", err
	}
	return holdfast.Step(ctx, "ship", func(context.Context) (string, error) {
		return o.Item + " shipped, " + payment, nil
	})
})

// A workflow charges and ships an order. Each step is recorded: whatever happens to
// the worker, another one goes on after the last recorded step.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	dir := must(os.MkdirTemp("", "holdfast-"))
	etcd := must(embedded.Start(ctx, embedded.Config{Dir: dir}))
	client := must(holdfast.Open(ctx, holdfast.Etcd(etcd.Client()))) // or holdfast.Endpoints("etcd:2379")

	order := must(Checkout.Start(ctx, client, Order{"tea", "visa"}, holdfast.WithID("order-42")))
	worker := must(holdfast.NewWorker(client, Checkout))
	drained := make(chan error)
	go func() { drained <- worker.Run(ctx) }()
	fmt.Println(must(order.Result(ctx)))

	stop()
	fmt.Println("stopped:", errors.Join(<-drained, client.Close(), etcd.Close(), os.RemoveAll(dir)))
	// Output:
	// tea shipped, paid by visa
	// stopped: <nil>
}

// charge stands for a payment provider.
func charge(_ context.Context, card, _ string) (string, error) { return "paid by " + card, nil }

// must stands for the error handling of a real program.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
