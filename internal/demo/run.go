package demo

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/shop"
)

// run lets the director direct while the orders come in and the history is followed.
func (d *director) run(ctx context.Context, client *holdfast.Client, first int64) error {
	g, ctx := errgroup.WithContext(ctx)
	following, stop := context.WithCancel(ctx)
	defer stop()
	g.Go(func() error {
		return d.history.follow(following, first, func(s sighting) { d.inbox.put(s) })
	})
	g.Go(func() error { return d.admit(ctx, client) })
	g.Go(func() error {
		defer stop()
		return d.direct(ctx)
	})
	return g.Wait()
}

// admitters is how many orders are admitted at once.
const admitters = 16

// admit starts an execution for each order.
func (d *director) admit(ctx context.Context, client *holdfast.Client) error {
	orders := shop.NewWorkflow(nil)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(admitters)
	for _, o := range d.cfg.Orders.Valid {
		g.Go(func() error {
			_, err := orders.Start(ctx, client, o, holdfast.WithID(o.ID))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	d.inbox.put(admitted{len(d.cfg.Orders.Valid)})
	return nil
}

// report reads back what came of the orders and verifies it.
func (d *director) report(ctx context.Context, client *holdfast.Client) (*Report, error) {
	outcomes := map[string]outcome{}
	orders := shop.NewWorkflow(nil)
	for _, o := range d.cfg.Orders.Valid {
		receipt, err := orders.Handle(client, o.ID).Result(ctx)
		var failure *holdfast.FailedError
		if err != nil && !errors.As(err, &failure) {
			return nil, err
		}
		outcomes[o.ID] = outcome{receipt, failure}
	}
	entries, err := shop.ReadLedger(d.ledger)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Takeovers: d.takeovers, RefusedWrites: d.refused, AcceptedStaleWrites: d.history.replay.Stale(),
		SkippedLines: len(d.cfg.Orders.Skipped),
		Workers:      d.cfg.Workers, Lease: d.cfg.Lease.String(), Killed: d.script.killed, Frozen: d.script.frozen, Ledger: d.cfg.Ledger,
	}
	r.verify(d.cfg.Orders.Valid, outcomes, entries)
	r.verifyPlay(d.history.replay.Violations())
	if d.unwell != nil {
		r.problem("a process did not end well: %v", d.unwell)
	}
	return r, nil
}
