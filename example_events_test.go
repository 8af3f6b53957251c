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

type Decision struct {
	By string
	OK bool
}

// Decided is sent by whoever decides, and awaited by the workflow.
var Decided = holdfast.DefineEvent[Decision]("decided")

// An order waits for somebody to decide on it: for up to three days, without holding
// anything.
func ExampleEvent() {
	order := holdfast.Define("order", func(ctx holdfast.Context, item string) (string, error) {
		d, err := Decided.Await(ctx, 72*time.Hour)
		if errors.Is(err, holdfast.ErrNoEvent) {
			return item + ": nobody has decided", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s: %s says %t", item, d.By, d.OK), nil
	})
	fmt.Println(serve(func(ctx context.Context, client *holdfast.Client) {
		h := must(order.Start(ctx, client, "tea", holdfast.WithID("order-42")))
		// A retry with the same id, of a mail server for instance, does nothing.
		for range 2 {
			fmt.Println(Decided.Send(ctx, client, "order-42", Decision{"Ada", true}, holdfast.EventID("mail-7")))
		}
		fmt.Println(must(h.Result(ctx)))
	}, order))
	// Output:
	// <nil>
	// <nil>
	// tea: Ada says true
	// <nil>
}

// A workflow that awaits many events of one name names each step, and begins another run
// now and then, so that it records a few steps at a time. Events that are sent meanwhile
// wait for the next run.
func ExampleAwait() {
	basket := holdfast.Define("basket", func(ctx holdfast.Context, items []string) ([]string, error) {
		for i := range 2 {
			item, err := holdfast.Await[string](ctx, "item", holdfast.Forever, holdfast.AsStep(fmt.Sprint("item ", i)))
			if err != nil {
				return nil, err
			}
			if item == "that's all" {
				return items, nil
			}
			items = append(items, item)
		}
		return nil, holdfast.ContinueAsNew(items)
	})
	fmt.Println(serve(func(ctx context.Context, client *holdfast.Client) {
		h := must(basket.Start(ctx, client, nil))
		for _, item := range []string{"tea", "milk", "sugar", "that's all"} {
			if err := client.Send(ctx, h.ID(), "item", item); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Println(must(h.Result(ctx)))
	}, basket))
	// Output:
	// [tea milk sugar]
	// <nil>
}

// Many executions are started with few requests. What fails is told of each; to start
// the same again, after a crash in the middle of it for instance, starts what is missing.
func ExampleWorkflow_StartMany() {
	greet := holdfast.Define("greet", func(_ holdfast.Context, name string) (string, error) { return "hello " + name, nil })
	fmt.Println(serve(func(ctx context.Context, client *holdfast.Client) {
		must(greet.Start(ctx, client, "Ada", holdfast.WithID("a")))
		entries := []holdfast.Entry[string]{{ID: "a", Input: "Ada"}, {ID: "b", Input: "Ben"}, {ID: "a", Input: "Anna"}}
		for _, o := range must(greet.StartMany(ctx, client, entries)) {
			if o.Err != nil {
				fmt.Println(o.Err)
				continue
			}
			fmt.Println(must(o.Handle.Result(ctx)), "existed:", o.Handle.Existing())
		}
	}, greet))
	// Output:
	// hello Ada existed: true
	// hello Ben existed: false
	// start workflow "greet": admit "a": it exists with other params: conflict
	// <nil>
}

// An execution that takes too long fails, whatever it does.
func ExampleTimeout() {
	wait := holdfast.Define("wait", func(ctx holdfast.Context, _ string) (string, error) {
		return holdfast.Await[string](ctx, "news", holdfast.Forever)
	})
	fmt.Println(serve(func(ctx context.Context, client *holdfast.Client) {
		h := must(wait.Start(ctx, client, "", holdfast.Timeout(50*time.Millisecond)))
		_, err := h.Result(ctx)
		var failed *holdfast.FailedError
		fmt.Println(errors.As(err, &failed) && failed.TimedOut())
	}, wait))
	// Output:
	// true
	// <nil>
}

// serve runs a worker, on an etcd of its own, while f does something.
func serve(f func(context.Context, *holdfast.Client), parts ...holdfast.WorkerOption) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	dir := must(os.MkdirTemp("", "holdfast-"))
	etcd := must(embedded.Start(ctx, embedded.Config{Dir: dir, NoFsync: true}))
	client := must(holdfast.Open(ctx, holdfast.Etcd(etcd.Client())))
	worker := must(holdfast.NewWorker(client, parts...))
	drained := make(chan error)
	go func() { drained <- worker.Run(ctx) }()
	f(ctx, client)
	stop()
	return errors.Join(<-drained, client.Close(), etcd.Close(), os.RemoveAll(dir))
}
