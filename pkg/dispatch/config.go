package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The defaults of a Config.
const (
	DefaultConcurrency  = 64
	DefaultDrainTimeout = 30 * time.Second
)

// A Claimer takes leases and keeps them.
type Claimer interface {
	// Claim claims at most limit due executions, and says when the next one is due
	// that it saw (zero: none soon).
	Claim(ctx context.Context, limit int) (claimed []execution.Delivery, next time.Time, err error)
	// KeepAlive renews every lease, and returns until when they are confirmed and
	// which of them are lost.
	KeepAlive(ctx context.Context) (until time.Time, lost []*execution.LostError, err error)
	// Duration is how long a lease lives without a renewal.
	Duration() time.Duration
	// Close gives up whatever is still held.
	Close(ctx context.Context)
}

// An Ender ends deliveries.
type Ender interface {
	Acknowledge(ctx context.Context, lease execution.Lease, outcome execution.Outcome) error
	Release(ctx context.Context, lease execution.Lease, why string) error
	// Forget gives a lease up without ending it.
	Forget(lease execution.Lease)
}

// A Watcher tells what happens outside, until ctx ends: an execution is or becomes
// due, a delivery was taken away, the leases should be renewed at once.
type Watcher interface {
	Watch(ctx context.Context, due func(at time.Time), evicted func(*execution.LostError), renew func())
}

// A Holder is what a dispatcher needs of the lease holder whose work it runs.
type Holder interface {
	Claimer
	Ender
	Watcher
}

// A Reply says how a delivery is to end: exactly one field is set.
type Reply struct {
	// Outcome: the delivery is acknowledged with it.
	Outcome *execution.Outcome
	// Retry: the delivery is released, which counts, and comes again after the
	// redelivery delay.
	Retry error
	// Lost: the lease is lost; nothing more is written.
	Lost bool
}

// A Handler runs one delivery. Its context is cancelled with the cause
// [execution.ErrLost], [execution.ErrUnconfirmed] or [execution.ErrDraining]. At the
// execution's deadline it replies that it has timed out; if it has not done that soon
// after, its context is cancelled with [execution.ErrTimeout], and so it is ended.
// drain is closed when a shutdown begins: at its next step boundary the handler
// replies with a suspended outcome that asks for a handover.
type Handler func(ctx context.Context, d execution.Delivery, drain <-chan struct{}) Reply

// Config describes a dispatcher.
type Config struct {
	Holder      Holder  // required
	Handler     Handler // required
	Concurrency int     // deliveries at once; default 64
	// RenewEvery is how often leases are renewed; default a third of their duration;
	// less than half of it.
	RenewEvery time.Duration
	// DrainTimeout is how long a shutdown waits for deliveries to reach a step
	// boundary; default 30 s; negative: not at all.
	DrainTimeout time.Duration
	// Jitter returns a part of the bound by which a pause is varied, so that many
	// dispatchers do not act at the same instant; default: a random one.
	Jitter   func(bound time.Duration) time.Duration
	Now      func() time.Time   // the wall clock, which due times go by; default time.Now
	Logger   *zap.Logger        // default: silent
	Observer execution.Observer // default: none
}

func (cfg *Config) complete() error {
	if cfg.Holder == nil || cfg.Handler == nil {
		return errors.New("dispatch: Holder and Handler are required")
	}
	if cfg.Concurrency < 0 {
		return fmt.Errorf("dispatch: concurrency %d is negative", cfg.Concurrency)
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = DefaultConcurrency
	}
	if cfg.RenewEvery == 0 {
		cfg.RenewEvery = cfg.Holder.Duration() / 3
	}
	if cfg.RenewEvery < 0 || cfg.RenewEvery > cfg.Holder.Duration()/2 {
		return fmt.Errorf("dispatch: renewal every %v of leases of %v: want more than 0 and at most half the lease, so that one lost renewal is not a lost lease", cfg.RenewEvery, cfg.Holder.Duration())
	}
	switch {
	case cfg.DrainTimeout == 0:
		cfg.DrainTimeout = DefaultDrainTimeout
	case cfg.DrainTimeout < 0:
		cfg.DrainTimeout = 0
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Jitter == nil {
		cfg.Jitter = func(bound time.Duration) time.Duration { return rand.N(max(bound, 1)) }
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return nil
}
