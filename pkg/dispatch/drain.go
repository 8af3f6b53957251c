package dispatch

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// handoverGrace is how long a drain waits, after its deadline, for handlers whose
// contexts were cancelled to return.
const handoverGrace = 2 * time.Second

// drainAll waits for the deliveries to reach a step boundary, and hands over those
// that don't.
func (d *Dispatcher) drainAll(service context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.deliveries.Wait()
	}()
	if waitFor(done, d.cfg.DrainTimeout) {
		return
	}
	left := d.all()
	d.cfg.Logger.Warn("the drain's time is over; the deliveries that are inside a step are handed over", zap.Int("deliveries", len(left)))
	d.handOver(service, left)
	if !waitFor(done, handoverGrace) {
		d.cfg.Logger.Warn("some handlers ignore that their contexts were cancelled; what was handed over refuses their writes", zap.Int("deliveries", len(d.all())))
	}
}

func waitFor(done <-chan struct{}, bound time.Duration) bool {
	t := time.NewTimer(bound)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// handOver acknowledges deliveries as suspended with an immediate wake, whatever
// they are doing: from then on their tokens are stale.
func (d *Dispatcher) handOver(service context.Context, left []*running) {
	ctx, cancel := context.WithTimeout(service, d.cfg.Holder.Duration())
	defer cancel()
	var wg sync.WaitGroup
	for _, r := range left {
		if !r.ending.CompareAndSwap(false, true) {
			continue // it just ended by itself
		}
		r.cancel(execution.ErrDraining)
		wg.Go(func() {
			log := d.cfg.Logger.With(zap.String("execution", string(r.ID)), zap.Int64("token", int64(r.Token)))
			d.end(ctx, r, log, "acknowledge", func(ctx context.Context) error {
				return d.cfg.Holder.Acknowledge(ctx, r.Lease, execution.Outcome{Kind: execution.Suspended, Handover: true})
			})
		})
	}
	wg.Wait()
}
