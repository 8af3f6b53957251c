package main

import (
	"encoding/json"
	"os"

	"github.com/spf13/cobra"

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
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := f.client(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			record, err := client.Get(cmd.Context(), args[0])
			if err != nil {
				return failed(err)
			}
			out := json.NewEncoder(os.Stdout)
			out.SetIndent("", "  ")
			return failed(out.Encode(record))
		},
	}
	f.register(cmd, dataDirToRead)
	return cmd
}

func listCommand() *cobra.Command {
	var f etcdFlags
	var req execution.ListRequest
	var status string
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List executions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := f.client(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			req.Status = execution.Status(status)
			return failed(shop.List(cmd.Context(), client, req, os.Stdout))
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
