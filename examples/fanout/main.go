// The fanout example makes a report of many shops: a child execution for each, side by
// side on whatever workers there are. One shop can't be reached, and the report says so.
//
//	go run ./examples/fanout
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/examples/internal/local"
)

// Count counts what one shop has sold.
var Count = holdfast.Define("count", func(ctx holdfast.Context, shop string) (int, error) {
	return holdfast.Step(ctx, "read the till", func(context.Context) (int, error) {
		if shop == "Mars" {
			return 0, holdfast.Permanent(errors.New("no connection"))
		}
		return 100 * len(shop), nil
	}, holdfast.MaxAttempts(3))
})

// A Report says what all shops have sold, and which could not say.
type Report struct {
	Sold    int
	Missing []string
}

// MakeReport starts a child for each shop, and then waits for each. It holds nothing
// while it waits.
var MakeReport = holdfast.Define("report", func(ctx holdfast.Context, shops []string) (Report, error) {
	counts := make([]holdfast.Started[int], len(shops))
	for i, shop := range shops {
		var err error
		if counts[i], err = holdfast.Start(ctx, "start "+shop, Count, shop); err != nil {
			return Report{}, err
		}
	}
	var r Report
	for i, shop := range shops {
		sold, err := counts[i].Await(ctx, "await "+shop)
		if failed, is := errors.AsType[*holdfast.FailedError](err); is {
			r.Missing = append(r.Missing, shop+": "+failed.Message)
		} else if err != nil {
			return Report{}, err
		}
		r.Sold += sold
	}
	return r, nil
})

func main() { local.Run(show, MakeReport, Count) }

func show(ctx context.Context, c *holdfast.Client) error {
	shops := []string{"Rome", "Oslo", "Lima", "Mars", "Bern"}
	report, err := MakeReport.Start(ctx, c, shops)
	if err != nil {
		return err
	}
	r, err := report.Result(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d sold in %d shops; missing: %s\n", r.Sold, len(shops)-len(r.Missing), strings.Join(r.Missing, ", "))
	return nil
}
