package shop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Submit starts an execution for each order and prints a line for each: its id and
// whether it was started, was there already, or could not be started since another
// order has its id. With wait it then prints what each of them came to. Ids are
// quoted, as they may hold anything.
func Submit(ctx context.Context, client *holdfast.Client, orders []Order, wait bool, out io.Writer) error {
	w := NewWorkflow(nil)
	var started []holdfast.Handle[Receipt]
	taken := 0
	for _, o := range orders {
		h, err := w.Start(ctx, client, o, holdfast.WithID(o.ID))
		state := "started"
		switch {
		case errors.Is(err, execution.ErrConflict):
			taken++
			state = "not started: another order has this id"
		case err != nil:
			return err
		case h.Existing():
			state = "was there already"
		}
		if err == nil {
			started = append(started, h)
		}
		if _, err := fmt.Fprintf(out, "%s\t%s\n", strconv.Quote(o.ID), state); err != nil {
			return err
		}
	}
	if wait {
		for _, h := range started {
			if err := printOutcome(ctx, h, out); err != nil {
				return err
			}
		}
	}
	if taken > 0 {
		return fmt.Errorf("%d of %d orders were not started: %w", taken, len(orders), execution.ErrConflict)
	}
	return nil
}

func printOutcome(ctx context.Context, h holdfast.Handle[Receipt], out io.Writer) error {
	r, err := h.Result(ctx)
	var failed *holdfast.FailedError
	if err != nil && !errors.As(err, &failed) {
		return err
	}
	if failed != nil {
		_, err = fmt.Fprintf(out, "%s\tfailed\t%s\n", strconv.Quote(h.ID()), failed.Message)
	} else {
		_, err = fmt.Fprintf(out, "%s\tcompleted\t%d %s, charge %s, invoice %s\n", strconv.Quote(h.ID()), r.AmountCents, r.Currency, r.ChargeID, r.Invoice)
	}
	return err
}

// List prints a line for each execution that the request selects: its id, its
// status and its unacknowledged deliveries.
func List(ctx context.Context, client *holdfast.Client, req execution.ListRequest, out io.Writer) error {
	for {
		page, err := client.List(ctx, req)
		if err != nil {
			return err
		}
		for _, r := range page.Records {
			if _, err := fmt.Fprintf(out, "%s\t%s\t%d\n", strconv.Quote(string(r.ID)), r.Status, r.UnacknowledgedDeliveries); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		req.After = page.Next
	}
}
