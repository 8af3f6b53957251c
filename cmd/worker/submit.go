package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/internal/shop"
)

const aboutSubmit = `Submit starts an execution for each order of a file. An order that was started before
is left as it is; an id that another order has is an error. A line that is no order
is named and skipped, and the exit status is 3 if all else went well.

With --wait it prints what each order comes to, as it comes. The exit status is 1 if an
order was not started, can't be read, or failed, unless its card was declined: that is
an outcome like another.

An order whose provider gives no answer doesn't fail. It is tried again until it is
charged or declined, and --wait waits for it.`

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
			if err := refuseZero(cmd); err != nil {
				return err
			}
			if _, err := f.config(); err != nil {
				return err
			}
			orders, err := readOrders(path)
			if err != nil {
				return failed(err)
			}
			e, err := f.found(cmd)
			if err != nil {
				return err
			}
			client, err := f.open(cmd, e)
			if err != nil {
				return err
			}
			defer client.Close()
			err = shop.Submit(cmd.Context(), client, orders.Valid, shop.SubmitConfig{
				Out: os.Stdout, Wait: wait, Where: e.Where,
				Quiet: func(message string) { fmt.Fprintln(os.Stderr, "worker:", message) },
			})
			if err != nil {
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
