package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/internal/shop"
)

const aboutSubmit = `Submit starts an execution for each order of a file. An order that was started before
is left as it is; an id that another order has is an error. A line that is no order
is named and skipped, and the exit status is 3 if all else went well.

With --wait it prints what each order comes to, in the order of the file.`

func submitCommand() *cobra.Command {
	var f etcdFlags
	var path string
	var wait bool
	cmd := &cobra.Command{
		Use:   "submit",
		Short: "Start the orders of a file",
		Long:  aboutSubmit,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := f.config(); err != nil {
				return err
			}
			orders, err := readOrders(path)
			if err != nil {
				return failed(err)
			}
			client, err := f.client(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			if err := shop.Submit(cmd.Context(), client, orders.Valid, wait, os.Stdout); err != nil {
				return failed(err)
			}
			return skipped(orders)
		},
	}
	f.register(cmd, dataDirToRead)
	cmd.Flags().StringVar(&path, "orders", "", "orders file (default: the one that comes with this program)")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for every outcome and print it")
	return cmd
}
