package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/shop"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

const dataDirToRead = "data directory of a worker that runs with --data-dir"

func getCommand() *cobra.Command {
	var f etcdFlags
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Print what is recorded of one execution, as JSON",
		Args:  cobra.ExactArgs(1),
		RunE:  func(cmd *cobra.Command, args []string) error { return runGet(cmd, f, args[0]) },
	}
	f.register(cmd, dataDirToRead)
	return cmd
}

func runGet(cmd *cobra.Command, f etcdFlags, id string) error {
	client, err := f.openFor(cmd, "get", id)
	if err != nil {
		return err
	}
	defer client.Close()
	record, err := client.Get(cmd.Context(), id)
	if err != nil {
		return failed(err)
	}
	if len(record.Params) > 0 && !json.Valid(record.Params) {
		return failed(fmt.Errorf("execution %q: its spec is damaged: its params are not JSON: %.40q", id, record.Params))
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(record); err != nil {
		return failed(fmt.Errorf("execution %q: its record is damaged: %w", id, err))
	}
	return nil
}

const aboutList = `Ls prints a line for each execution: its id, quoted, its status, and how many deliveries
in a row ended without an acknowledgement. A record that can't be read is named on
standard error, and the exit status is 1.`

func listCommand() *cobra.Command {
	var f etcdFlags
	var req execution.ListRequest
	var status string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List executions",
		Long:  aboutList,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req.Status = execution.Status(status)
			if status != "" && !slices.Contains(execution.Statuses(), req.Status) {
				return fmt.Errorf("--status %q: want one of %v", status, execution.Statuses())
			}
			if req.MinUnacknowledged < 0 {
				return fmt.Errorf("--min-unacknowledged %d: want 0 or more", req.MinUnacknowledged)
			}
			return runList(cmd, f, req)
		},
	}
	f.register(cmd, dataDirToRead)
	fs := cmd.Flags()
	fs.StringVar(&status, "status", "", "only this status: admitted, running, suspended, completed or failed")
	fs.StringVar(&req.IDPrefix, "prefix", "", "only ids that begin with this")
	fs.StringVar(&req.Workflow, "workflow", "", "only this workflow")
	fs.Int64Var(&req.MinUnacknowledged, "min-unacknowledged", 0, "only those with at least so many unacknowledged deliveries")
	return cmd
}

func runList(cmd *cobra.Command, f etcdFlags, req execution.ListRequest) error {
	var damaged atomic.Int64
	client, err := f.openIfThere(cmd, holdfast.Observe(func(e execution.Event) {
		if e.Kind == execution.EventBadRecord {
			damaged.Add(1)
			fmt.Fprintf(os.Stderr, "worker: record %q can't be read: %v\n", e.Operation, e.Err)
		}
	}))
	if err != nil {
		return err
	}
	if client == nil {
		fmt.Fprintf(os.Stderr, "worker: namespace %q has no executions\n", f.namespace)
		return nil
	}
	defer client.Close()
	if err := shop.List(cmd.Context(), client, req, os.Stdout); err != nil {
		return failed(err)
	}
	if n := damaged.Load(); n > 0 {
		return failed(fmt.Errorf("records that can't be read: %d", n))
	}
	return nil
}
