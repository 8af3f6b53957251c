// The worker command runs the example shop's workflows on Holdfast, and shows in a
// minute what Holdfast does for them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit statuses, as the help text lists them.
const (
	exitFailure = 1
	exitUsage   = 2
	exitSkipped = 3
	exitSecond  = 130
)

const about = `Worker runs the example shop's workflows on Holdfast: durable executions whose
steps survive the death of their worker, with etcd as the only judge of who may
write.

Begin with the demo. It needs nothing but this program, and less than a minute:

  worker demo

Exit status:
  0    all is well
  1    something failed; standard error says what
  2    the command line is wrong
  3    lines of the orders file were skipped; the rest went well
  130  a second Ctrl-C ended the program at once`

var errInterrupted = errors.New("interrupted")

func main() {
	exit := &exit{}
	ctx, stop := interruptible(exit)
	err := root(exit).ExecuteContext(ctx)
	stop()
	os.Exit(report(err))
}

// An exit is what is to be done before the process ends at once.
type exit struct {
	mu    sync.Mutex
	tasks []func()
}

func (e *exit) before(task func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tasks = append(e.tasks, task)
}

func (e *exit) now(status int) {
	e.mu.Lock() // for good
	for _, task := range e.tasks {
		task()
	}
	os.Exit(status)
}

// interruptible returns a context that ends with the first Ctrl-C or SIGTERM; a
// second one ends the process.
func interruptible(exit *exit) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-c
		fmt.Fprintln(os.Stderr, "worker: stopping; another Ctrl-C ends it at once")
		cancel(errInterrupted)
		<-c
		exit.now(exitSecond)
	}()
	return ctx, func() { cancel(nil) }
}

func root(exit *exit) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "worker",
		Short:         "Run the example shop's workflows on Holdfast",
		Long:          about,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(demoCommand(exit), runCommand(), providerCommand(), submitCommand(), getCommand(), listCommand(), removeCommand(), conflictsCommand())
	return cmd
}

// A failure is an error of a command that was understood; every other error means
// that the command line is wrong.
type failure struct {
	status int
	err    error // nil: standard error has it already
}

func (f failure) Error() string { return fmt.Sprint(f.err) }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return failure{exitFailure, err}
}

func report(err error) int {
	var f failure
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &f):
		fmt.Fprintf(os.Stderr, "worker: %v\nSee worker --help, or --help after a command.\n", err)
		return exitUsage
	case f.err != nil:
		fmt.Fprintf(os.Stderr, "worker: %v\n", f.err)
	}
	return f.status
}
