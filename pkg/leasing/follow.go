package leasing

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The pauses before a broken watch is begun again.
const (
	minRestart = 50 * time.Millisecond
	maxRestart = 5 * time.Second
)

// A follower reads a part of the keyspace and watches it from there on.
type follower struct {
	what string // for the log
	span keyspace.Span
	// resync reads what is there, acts on it and returns a revision that is not
	// newer than what it read.
	resync func(context.Context) (int64, error)
	event  func(context.Context, etcd.Event)
	// scan, if set, is called now and then, in the same goroutine: it looks for what
	// the watch may have missed.
	scan     func(context.Context) error
	interval time.Duration
}

// follow reads and watches until ctx ends. A watch that breaks, or that was
// compacted away, is begun again from a fresh read, so that nothing is missed.
func (c *Client) follow(ctx context.Context, f follower) {
	for pause := minRestart; ctx.Err() == nil; pause = min(2*pause, maxRestart) {
		rev, err := f.resync(ctx)
		if err == nil {
			pause = minRestart
			err = c.watchFrom(ctx, f, rev+1)
		}
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("a watch is begun again", zap.String("watch", f.what), zap.Error(err))
		c.observer.Tell(execution.Event{Kind: execution.EventWatchRestart, Operation: f.what, Err: err})
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + c.jitter(pause/2)):
		}
	}
}

func (c *Client) watchFrom(ctx context.Context, f follower, rev int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batches := c.store.Watch(ctx, f.span.Start, f.span.End, rev)
	timer := time.NewTimer(c.soon(f.interval))
	defer timer.Stop()
	if f.scan == nil {
		timer.Stop()
	}
	for {
		select {
		case b, open := <-batches:
			if !f.take(ctx, b, open) {
				return errors.Join(b.Err, ctx.Err())
			}
			continue
		default: // events come first
		}
		select {
		case b, open := <-batches:
			if !f.take(ctx, b, open) {
				return errors.Join(b.Err, ctx.Err())
			}
		case <-timer.C:
			if err := f.scan(ctx); err != nil && ctx.Err() == nil {
				c.log.Warn("a periodic scan failed; it is tried again", zap.String("scan", f.what), zap.Error(err))
			}
			timer.Reset(c.soon(f.interval))
		}
	}
}

// take acts on a batch, and says whether the watch goes on.
func (f follower) take(ctx context.Context, b etcd.Batch, open bool) bool {
	if !open || b.Err != nil {
		return false
	}
	for _, e := range b.Events {
		f.event(ctx, e)
	}
	return true
}

// soon varies an interval, so that processes that began together part.
func (c *Client) soon(interval time.Duration) time.Duration {
	return interval*3/4 + c.jitter(interval/2)
}

// revision reads the namespace's current revision.
func (c *Client) revision(ctx context.Context) (int64, error) {
	_, rev, err := c.store.Get(ctx, etcd.Get{Key: c.space.Epoch(), KeysOnly: true})
	return rev, err
}
