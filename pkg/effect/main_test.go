package effect_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/memetcd"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve opens a client of an etcd in memory, of which a worker runs the workflows until
// stop is called.
func serve(workflows ...holdfast.WorkerOption) (client *holdfast.Client, stop func()) {
	server := must(memetcd.New(memetcd.Config{}))
	ctx, cancel := context.WithCancel(context.Background())
	client = must(holdfast.Open(ctx, holdfast.Internal(door.Config{Store: server.Client("example", nil)})))
	worker := must(holdfast.NewWorker(client, workflows...))
	drained := make(chan error, 1)
	go func() { drained <- worker.Run(ctx) }()
	return client, func() {
		cancel()
		if err := errors.Join(<-drained, client.Close()); err != nil {
			panic(err)
		}
	}
}

// must stands for the error handling of a real program.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
