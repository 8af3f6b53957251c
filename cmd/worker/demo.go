package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	example "github.com/holdfast-io/holdfast/examples/shop"
	"github.com/holdfast-io/holdfast/internal/demo"
	"github.com/holdfast-io/holdfast/internal/shop"
)

const aboutDemo = `Demo charges some three hundred orders, each a durable execution, and gets in its own way:

  - it starts etcd, a payment provider and three workers, each worker and the
    provider a process of its own;
  - the provider charges a card and withholds its answer: the worker is killed
    (SIGKILL) in mid-charge, and others take its orders over once its lease of
    3 seconds has expired;
  - the provider withholds another answer: that worker is frozen (SIGSTOP), is
    taken over, and is woken when the order has been written by somebody else. It
    still believes that the order is its own. Its late write is refused.

In the end a table says what came of the orders, and the demo verifies all of it:
one outcome for each order, one charge on the provider's ledger for each charged
order, no write accepted from a worker that had been taken over. What it says is
read from etcd and from the ledger, not from the engine's own counters. Nothing of
it is left to timing, and no process outlives it. A demo that fails leaves its files
behind and says where; any other one removes what it was not told to keep.

"Late writes refused" counts every fenced operation that etcd refused: steps,
renewals, releases and acknowledgements of a worker that had been taken over.

An orders file has a JSON object on each line, with the fields id, customer,
amountCents (a whole number), currency (three capital letters) and card:

  {"id":"order-42","customer":"Ada","amountCents":4200,"currency":"EUR","card":"ok"}

A card is ok, declined, or flaky2: it fails twice and works then. A line that is no
order, or repeats an id, is named with its number and skipped, and the exit status
is 3 if all else went well. So is one that has a key twice, or half a character
escaped as \ud83c.

The ledger has a JSON object on each line too: kind (attempt or charge), at, orderId,
idempotencyKey, invoice, amountCents, currency, worker, token (the fencing token that
the worker carried), answer (charged, repeated, declined, unavailable or mismatch)
and chargeId. An attempt that charges a card has a line of either kind.

With --json the last line is a JSON object with the fields orders, completed, failed,
chargeAttempts, charges, takeovers, refusedWrites (each with executionId, operation,
carried and current, both tokens), acceptedStaleWrites and skippedLines.`

type demoFlags struct {
	demo.Config
	orders string
	json   bool
}

func demoCommand(exit *exit) *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show in a minute what Holdfast does: kill one worker, freeze another, lose nothing",
		Long:  aboutDemo,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := refuseZero(cmd); err != nil {
				return err
			}
			f.AtExit = exit.before
			return runDemo(cmd, f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.orders, "orders", "", "orders file (default: the one that comes with this program)")
	fs.StringVar(&f.Ledger, "ledger", "", "keep the payment provider's ledger in this file, which must be new or empty")
	fs.StringVar(&f.DataDir, "data-dir", "", "keep etcd's data in this directory (default: a temporary one)")
	fs.BoolVar(&f.json, "json", false, "write a JSON object as the last line")
	fs.DurationVar(&f.Lease, "lease", demo.DefaultLease, "lease of the workers")
	fs.IntVar(&f.Workers, "workers", demo.MinWorkers, "number of worker processes")
	fs.IntVar(&f.Concurrency, "concurrency", demo.DefaultConcurrency, "orders that a worker runs at once")
	fs.BoolVar(&f.Verbose, "verbose", false, "show the logs of the workers and the provider")
	return cmd
}

func runDemo(cmd *cobra.Command, f demoFlags) error {
	orders, err := readOrders(f.orders)
	if err != nil {
		return failed(err)
	}
	f.Orders, f.Progress = orders, os.Stderr
	if f.Program, err = os.Executable(); err != nil {
		return failed(err)
	}
	if err := f.Validate(); err != nil {
		return err
	}
	r, err := demo.Run(cmd.Context(), f.Config)
	if err != nil {
		return failed(err)
	}
	if err := r.WriteTable(os.Stdout); err != nil {
		return failed(err)
	}
	if f.json {
		line, err := r.JSON()
		if err != nil {
			return failed(err)
		}
		fmt.Println(string(line))
	}
	if !r.OK() {
		return failure{status: exitFailure}
	}
	return skipped(orders)
}

// readOrders reads an orders file, by default the example's, and says what it skips.
func readOrders(path string) (orders shop.Orders, err error) {
	if path == "" {
		path = example.Name
		orders, err = shop.ReadOrders(bytes.NewReader(example.Orders))
	} else {
		orders, err = shop.ReadOrdersFile(path)
	}
	if err != nil {
		return orders, err
	}
	for _, s := range orders.Skipped {
		fmt.Fprintf(os.Stderr, "%s: %v\n", path, s)
	}
	if len(orders.Valid) == 0 {
		return orders, fmt.Errorf("orders file %s holds no valid order", path)
	}
	return orders, nil
}

// skipped is the exit status of a command that had to skip lines.
func skipped(orders shop.Orders) error {
	if n := len(orders.Skipped); n > 0 {
		return failure{exitSkipped, fmt.Errorf("lines of the orders file that were skipped: %d", n)}
	}
	return nil
}
