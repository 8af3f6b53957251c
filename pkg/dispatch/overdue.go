package dispatch

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// overdueGrace is how long after its execution's deadline a delivery may take to reply.
const overdueGrace = 5 * time.Second

// farAhead is a wait that no process comes to the end of.
const farAhead = 1 << 60

// watchDeadline fails the execution if its handler has not replied soon after the
// deadline, whatever it is doing: from then on its token is stale. The returned function
// ends the watch.
func (d *Dispatcher) watchDeadline(service context.Context, r *running) (stop func()) {
	if r.Deadline.IsZero() {
		return func() {}
	}
	replied := make(chan struct{})
	d.deliveries.Go(func() {
		t := time.NewTimer(min(r.Deadline.Sub(d.cfg.Now()), farAhead) + overdueGrace)
		defer t.Stop()
		select {
		case <-replied:
			return
		case <-t.C:
		}
		if !r.ending.CompareAndSwap(false, true) {
			return // it just ended by itself
		}
		r.cancel(execution.ErrTimeout)
		log := d.cfg.Logger.With(zap.String("execution", string(r.ID)), zap.String("workflow", r.Workflow), zap.Int64("token", int64(r.Token)))
		log.Warn("a handler ignores that its execution has timed out; it keeps its slot until it returns, and its writes are refused")
		d.end(service, r, log, "acknowledge", func(ctx context.Context) error {
			return d.cfg.Holder.Acknowledge(ctx, r.Lease, execution.TimeoutAt(r.Deadline))
		})
	})
	return func() { close(replied) }
}
