package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The pauses between tries to end a delivery while etcd refuses or is away.
const (
	minEndPause = 100 * time.Millisecond
	maxEndPause = 5 * time.Second
)

// A running delivery. Whoever sets ending first ends it: its own reply, the drain's
// deadline or its execution's.
type running struct {
	execution.Delivery
	cancel      context.CancelCauseFunc
	ending      atomic.Bool
	unconfirmed atomic.Bool // the watchdog has cancelled it
}

// key names a delivery: the claims of one batch share a token, so the token alone
// does not.
type key struct {
	id    execution.ID
	token execution.Token
}

func keyOf(l execution.Lease) key { return key{l.ID, l.Token} }

// start runs a delivery in a goroutine that Run waits for.
func (d *Dispatcher) start(base, service context.Context, del execution.Delivery) {
	ctx, cancel := context.WithCancelCause(base)
	r := &running{Delivery: del, cancel: cancel}
	d.mu.Lock()
	d.running[keyOf(del.Lease)] = r
	d.mu.Unlock()
	d.deliveries.Go(func() {
		defer cancel(nil)
		stop := d.watchDeadline(service, r)
		reply := d.handle(ctx, del)
		stop()
		if r.ending.CompareAndSwap(false, true) {
			d.settle(ctx, service, r, reply)
		}
		d.mu.Lock()
		delete(d.running, keyOf(del.Lease))
		d.mu.Unlock()
		d.slot.set()
	})
}

// handle calls the handler; a panic of it is a failed delivery with its stack.
func (d *Dispatcher) handle(ctx context.Context, del execution.Delivery) (reply Reply) {
	defer func() {
		if p := recover(); p != nil {
			reply = Reply{Retry: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	return d.cfg.Handler(ctx, del, d.drain)
}

// settle ends a delivery as its handler replied.
func (d *Dispatcher) settle(ctx, service context.Context, r *running, reply Reply) {
	log := d.cfg.Logger.With(zap.String("execution", string(r.ID)), zap.String("workflow", r.Workflow), zap.Int64("token", int64(r.Token)))
	switch {
	case reply.Lost || errors.Is(context.Cause(ctx), execution.ErrLost):
		log.Info("a delivery has ended late: its lease was lost", zap.NamedError("cause", context.Cause(ctx)))
		d.cfg.Holder.Forget(r.Lease)
	case reply.Outcome != nil:
		d.end(service, r, log, "acknowledge", func(ctx context.Context) error {
			return d.cfg.Holder.Acknowledge(ctx, r.Lease, *reply.Outcome)
		})
	default:
		if reply.Retry == nil {
			reply.Retry = errors.New("the handler gave no reply")
		}
		log.Warn("a delivery has failed; it will be delivered again", zap.Int64("unacknowledged", r.UnacknowledgedDeliveries+1), zap.Error(reply.Retry))
		d.release(service, r, log, reply.Retry)
	}
}

func (d *Dispatcher) release(service context.Context, r *running, log *zap.Logger, why error) {
	d.end(service, r, log, "release", func(ctx context.Context) error {
		return d.cfg.Holder.Release(ctx, r.Lease, why.Error())
	})
}

// end tries until it is certain how the delivery ended, or the dispatcher stops:
// the lease is renewed meanwhile, and nobody else can do it.
func (d *Dispatcher) end(service context.Context, r *running, log *zap.Logger, what string, do func(context.Context) error) {
	for pause := minEndPause; ; pause = min(2*pause, maxEndPause) {
		err := do(service)
		var invalid *execution.InvalidError
		switch {
		case err == nil:
			return
		case errors.Is(err, execution.ErrLost):
			log.Info("a delivery has ended late: "+what+" was refused", zap.Error(err))
			return
		case errors.As(err, &invalid) && what != "release":
			log.Error("an outcome was refused; the delivery is released", zap.Error(err))
			d.release(service, r, log, err)
			return
		}
		log.Warn("could not "+what+"; it is tried again", zap.Error(err))
		select {
		case <-service.Done():
			d.giveUp(r)
			return
		case <-time.After(pause):
		}
	}
}

// giveUp leaves a delivery to expire.
func (d *Dispatcher) giveUp(r *running) {
	d.cfg.Holder.Forget(r.Lease)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unended++
}

// givenUp returns how many deliveries were left to expire.
func (d *Dispatcher) givenUp() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unended
}

// lose cancels the delivery that was lost, if it still runs here.
func (d *Dispatcher) lose(lost *execution.LostError) {
	d.mu.Lock()
	r := d.running[key{lost.ID, lost.Carried}]
	d.mu.Unlock()
	if r != nil {
		r.cancel(lost)
	}
}

// all returns what runs.
func (d *Dispatcher) all() []*running {
	d.mu.Lock()
	defer d.mu.Unlock()
	rs := make([]*running, 0, len(d.running))
	for _, r := range d.running {
		rs = append(rs, r)
	}
	return rs
}

// free returns the number of free slots.
func (d *Dispatcher) free() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg.Concurrency - len(d.running)
}
