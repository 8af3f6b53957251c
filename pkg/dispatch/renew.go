package dispatch

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// renewals keeps the leases until ctx ends. It runs beside the claims and the
// deliveries, so that no traffic of theirs delays a renewal.
func (d *Dispatcher) renewals(ctx context.Context) {
	failing := false
	for ctx.Err() == nil {
		wait := d.cfg.RenewEvery
		err := d.renewOnce(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			wait = d.cfg.RenewEvery / 4
			wait += d.cfg.Jitter(wait / 2)
			if !failing {
				d.cfg.Logger.Warn("could not renew the leases; it is tried again", zap.Error(err))
			}
			failing = true
		case failing && err == nil:
			failing = false
			d.cfg.Logger.Info("the leases are renewed again")
		}
		select {
		case <-ctx.Done():
		case <-d.renew:
			if err != nil { // asked for again and again while it fails: not faster than that
				d.pause(ctx, wait)
			}
		case <-time.After(wait):
		}
	}
}

func (d *Dispatcher) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.Holder.Duration())
	defer cancel()
	until, lost, err := d.cfg.Holder.KeepAlive(ctx)
	for _, l := range lost {
		d.lose(l)
	}
	if err != nil {
		return err
	}
	d.confirm(until)
	return nil
}

// confirm notes until when the leases are confirmed.
func (d *Dispatcher) confirm(until time.Time) {
	d.mu.Lock()
	d.confirmed = until
	d.mu.Unlock()
	d.slot.set() // the claim loop may have waited for this
}

// margin is how long before the end of a lease its delivery is cancelled.
func (d *Dispatcher) margin() time.Duration { return d.cfg.Holder.Duration() / 6 }

// isConfirmed says whether the leases were renewed in time.
func (d *Dispatcher) isConfirmed() bool { return d.left() > 0 }

// left returns how long the leases are confirmed for, less the margin.
func (d *Dispatcher) left() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.confirmed.IsZero() {
		return 0
	}
	return time.Until(d.confirmed) - d.margin()
}

// watchdog cancels every delivery when no renewal was confirmed in time. Their
// tokens may still be current; a result that comes is offered to etcd all the same.
func (d *Dispatcher) watchdog(ctx context.Context) {
	for ctx.Err() == nil {
		left := d.left()
		if left <= 0 {
			d.unconfirm()
			left = d.cfg.RenewEvery / 4
		}
		d.pause(ctx, left)
	}
}

func (d *Dispatcher) unconfirm() {
	cut := 0
	for _, r := range d.all() {
		if r.unconfirmed.CompareAndSwap(false, true) {
			r.cancel(execution.ErrUnconfirmed)
			cut++
		}
	}
	if cut > 0 {
		d.cfg.Logger.Warn("no renewal was confirmed in time; running deliveries are cancelled", zap.Int("deliveries", cut))
		d.cfg.Observer.Tell(execution.Event{Kind: execution.EventUnconfirmed, Count: cut})
	}
}
