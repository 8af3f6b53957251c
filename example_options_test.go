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

// A step passes its idempotency key on, so that a second try after a takeover
// charges nothing twice, and its token, so that a late holder can be told.
func ExampleFence() {
	refund := holdfast.Define("refund", func(ctx holdfast.Context, _ string) (bool, error) {
		return holdfast.Step(ctx, "refund", func(ctx context.Context) (bool, error) {
			f := holdfast.Fence(ctx)
			fmt.Println("Idempotency-Key:", f.Key[:3]+"…", "of", len(f.Key), "characters")
			fmt.Println("for", f.ExecutionID, f.Step, "under a token:", f.Token > 0)
			return true, nil
		})
	})
	fmt.Println(run(refund, "visa"))
	// Output:
	// Idempotency-Key: hf-… of 35 characters
	// for order-42 refund under a token: true
	// true <nil>
}

// A step is retried only as far as its options ask, and never after a permanent
// error. Between two attempts the execution is suspended.
func ExampleMaxAttempts() {
	attempts := 0
	charge := holdfast.Define("charge", func(ctx holdfast.Context, card string) (string, error) {
		return holdfast.Step(ctx, "charge", func(context.Context) (string, error) {
			attempts++
			if card == "expired" {
				return "", holdfast.Permanent(errors.New("the card has expired"))
			}
			if attempts < 3 {
				return "", errors.New("the bank is busy")
			}
			return "paid", nil
		}, holdfast.MaxAttempts(5), holdfast.Backoff(10*time.Millisecond, 2, time.Minute))
	})
	fmt.Println(run(charge, "visa"))
	fmt.Println(attempts, "attempts")
	fmt.Println(run(charge, "expired"))
	fmt.Println(attempts-3, "attempt")
	// Output:
	// paid <nil>
	// 3 attempts
	//  execution "order-42" failed: step "charge" failed: the card has expired
	// 1 attempt
}

// A wait is not a failure: a compensation asks Failed first.
func ExampleFailed() {
	stock := holdfast.Define("stock", func(ctx holdfast.Context, item string) (string, error) {
		_, err := holdfast.Step(ctx, "reserve", func(context.Context) (string, error) {
			return "", fmt.Errorf("no %s left", item)
		})
		if holdfast.Failed(err) {
			return holdfast.Step(ctx, "apologise", func(context.Context) (string, error) {
				return "sorry: " + err.Error(), nil
			})
		}
		return "reserved", err
	})
	fmt.Println(run(stock, "tea"))
	// Output:
	// sorry: step "reserve" failed: no tea left <nil>
}

// run starts one execution of the workflow, runs a worker until it has ended, which may
// have others too, and returns what it came to.
func run[In, Out any](w *holdfast.Workflow[In, Out], in In, others ...holdfast.WorkerOption) (Out, error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dir := must(os.MkdirTemp("", "holdfast-"))
	etcd := must(embedded.Start(ctx, embedded.Config{Dir: dir, NoFsync: true}))
	client := must(holdfast.Open(ctx, holdfast.Etcd(etcd.Client())))
	order := must(w.Start(ctx, client, in, holdfast.WithID("order-42")))
	worker := must(holdfast.NewWorker(client, append(others, w)...))
	drained := make(chan error)
	go func() { drained <- worker.Run(ctx) }()
	out, err := order.Result(ctx)
	stop()
	return out, errors.Join(err, <-drained, client.Close(), etcd.Close(), os.RemoveAll(dir))
}
