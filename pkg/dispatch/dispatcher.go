package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

const (
	// recheck bounds how long the loop trusts its timers: a missed watch event or a
	// clock that was set costs no more than this.
	recheck = 30 * time.Second
	// claimTimeout bounds one claim call.
	claimTimeout = 10 * time.Second
	// The pauses between claims that fail.
	minClaimPause = 100 * time.Millisecond
	maxClaimPause = 5 * time.Second
)

// ErrUnended says that a drain had to leave deliveries to expire, since etcd did not
// answer. They are not lost: they count as unacknowledged, and come again.
var ErrUnended = errors.New("deliveries could not be ended, since etcd did not answer")

// A Dispatcher claims and runs deliveries. Make one with [New], run it once.
type Dispatcher struct {
	cfg   Config
	drain chan struct{} // closed when a shutdown begins
	due   alarm         // when the next claim is worth a try
	slot  signal        // a delivery has ended
	renew signal        // renew at once

	deliveries sync.WaitGroup

	mu        sync.Mutex
	running   map[key]*running
	unended   int       // deliveries that were given up: etcd did not answer
	confirmed time.Time // until when the leases are confirmed; monotonic
}

// New returns a dispatcher, or an error that says what is wrong with the
// configuration. It starts nothing.
func New(cfg Config) (*Dispatcher, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Dispatcher{
		cfg: cfg, drain: make(chan struct{}), slot: newSignal(), renew: newSignal(),
		due: alarm{ring: newSignal()}, running: map[key]*running{},
	}, nil
}

// Run claims and runs deliveries until ctx ends, then drains. The
// drain claims nothing more and goes on renewing. Each delivery is told, and hands
// itself over at its next step boundary; those that are still inside a step after
// DrainTimeout have their contexts cancelled with [execution.ErrDraining] and are
// handed over as they are, so that their late writes are refused. A handover is an
// acknowledgement as suspended with an immediate wake: nothing is counted, nothing
// delayed. Where etcd does not answer, Run returns an [ErrUnended] that says how many
// deliveries it had to leave to expire. Run may be called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	base, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(nil)
	service, stop := context.WithCancel(base)
	defer stop()
	var g errgroup.Group
	g.Go(func() error { d.renewals(service); return nil })
	g.Go(func() error { d.watchdog(service); return nil })
	g.Go(func() error {
		d.cfg.Holder.Watch(service, d.due.set, d.lose, d.renew.set)
		return nil
	})
	d.claims(ctx, base, service)
	close(d.drain)
	d.drainAll(service)
	stop()
	err := g.Wait()
	d.cfg.Holder.Close(base)
	if n := d.givenUp(); n > 0 {
		err = fmt.Errorf("%w: %d of them; their leases expire, and other workers go on with them then", ErrUnended, n)
	}
	return err
}

// claims is the claim loop. It returns when ctx ends.
func (d *Dispatcher) claims(ctx, base, service context.Context) {
	pause := minClaimPause
	for ctx.Err() == nil {
		free := d.free()
		if free == 0 || !d.isConfirmed() {
			d.sleep(ctx, recheck, false)
			continue
		}
		d.due.take()
		claimed, next, err := d.claim(base, free)
		for _, del := range claimed {
			d.start(base, service, del)
		}
		d.due.set(next)
		switch {
		case ctx.Err() != nil:
			return // nothing that failed is tried again
		case err != nil:
			d.cfg.Logger.Warn("could not claim; it is tried again", zap.Error(err))
			d.renew.set()
			d.due.set(d.cfg.Now())
			d.pause(ctx, pause/2+d.cfg.Jitter(pause/2))
			pause = min(2*pause, maxClaimPause)
		case len(claimed) < free:
			pause = minClaimPause
			d.sleep(ctx, d.due.wait(d.cfg.Now(), recheck), true)
		}
	}
}

// claim is not cut short by a shutdown: a claim that is under way would be left
// without anybody to run it.
func (d *Dispatcher) claim(base context.Context, limit int) ([]execution.Delivery, time.Time, error) {
	ctx, cancel := context.WithTimeout(base, claimTimeout)
	defer cancel()
	return d.cfg.Holder.Claim(ctx, limit)
}

// sleep waits until the time has passed, a slot is free or, if due, the alarm was
// moved forward.
func (d *Dispatcher) sleep(ctx context.Context, bound time.Duration, due bool) {
	t := time.NewTimer(bound)
	defer t.Stop()
	for {
		ring, slot := d.due.ring, d.slot
		if !due {
			ring = nil
		} else {
			slot = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			return
		case <-slot:
			return
		case <-ring:
			t.Reset(d.due.wait(d.cfg.Now(), bound))
		}
	}
}

func (d *Dispatcher) pause(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
