// Package local runs the examples: on an etcd of their own, in this process, whose
// data is thrown away at the end.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/embedded"
)

// Run starts etcd and a worker of the parts, calls main, and stops them. If anything
// fails, or Ctrl-C is pressed, it says so and ends the process with status 1.
func Run(main func(ctx context.Context, client *holdfast.Client) error, parts ...holdfast.WorkerOption) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, main, parts)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, main func(context.Context, *holdfast.Client) error, parts []holdfast.WorkerOption) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-example-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	etcd, err := embedded.Start(ctx, embedded.Config{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, etcd.Close()) }()
	client, err := holdfast.Open(ctx, holdfast.Etcd(etcd.Client()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	worker, err := holdfast.NewWorker(client, parts...)
	if err != nil {
		return err
	}
	working, drain := context.WithCancel(ctx)
	drained := make(chan error, 1)
	go func() { drained <- worker.Run(working) }()
	err = main(ctx, client)
	drain()
	return errors.Join(err, <-drained)
}
