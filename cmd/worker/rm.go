package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

const aboutRemove = `Rm deletes an execution that has completed or failed, with all that is recorded of it.
Its id is free afterwards: what is started with it begins from nothing, and a worker that
still holds the old one is refused. An id that is not there is an error, exit status 1.

One that goes on is left as it is, unless --cancel says to cancel it first.

It deletes in small pieces. If it is interrupted, running it again goes on, and so does
any worker.`

func removeCommand() *cobra.Command {
	var f etcdFlags
	var cancel bool
	cmd := &cobra.Command{
		Use:   "rm ID",
		Short: "Delete an execution that has ended",
		Long:  aboutRemove,
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return runRemove(cmd, f, args[0], cancel) },
	}
	f.register(cmd, dataDirToRead)
	cmd.Flags().BoolVar(&cancel, "cancel", false, "cancel it first, if it has not ended")
	return cmd
}

func runRemove(cmd *cobra.Command, f etcdFlags, id string, cancel bool) error {
	client, err := f.openFor(cmd, "delete", id)
	if err != nil {
		return err
	}
	defer client.Close()
	if cancel {
		if err := client.Cancel(cmd.Context(), id, "deleted by an operator"); err != nil && !errors.Is(err, execution.ErrTerminal) {
			return failed(err)
		}
	}
	switch err := client.Delete(cmd.Context(), id); {
	case errors.Is(err, execution.ErrNotTerminal):
		return failed(fmt.Errorf("%w; --cancel does", err))
	case err != nil:
		return failed(err)
	}
	fmt.Fprintf(os.Stdout, "%q\tdeleted\n", id)
	return nil
}
