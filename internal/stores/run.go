package stores

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

const (
	// grace is how long whoever committed has to wake the waiters itself.
	grace = time.Second

	// The pauses after a trouble.
	minPause = time.Second
	maxPause = 30 * time.Second
)

// Run wakes the waiters whom a commit has left without a wake, because its process
// died or could not, until ctx ends. It watches what is owed, and costs nothing while
// nothing is. It returns nil.
func (c *Client) Run(ctx context.Context) error {
	for pause := minPause; ctx.Err() == nil; pause = min(2*pause, maxPause) {
		began := time.Now()
		if err := c.follow(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Warn("watch of the wakes that are owed broke off; it begins anew", zap.Error(err), zap.Duration("after", pause))
			c.cfg.Observer.Tell(execution.Event{Kind: execution.EventWatchRestart, Err: err})
		}
		if time.Since(began) > maxPause {
			pause = minPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + c.cfg.Jitter(pause/2)):
		}
	}
	return nil
}

// follow drains what is there, and what comes, once it is older than the grace.
func (c *Client) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	span := c.cfg.Space.Outbox()
	res, rev, err := c.cfg.Store.Get(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: 1, KeysOnly: true})
	if err != nil {
		return err
	}
	batches := c.cfg.Store.Watch(ctx, span.Start, span.End, rev+1)
	due := time.NewTimer(0)
	due.Stop()
	defer due.Stop()
	upTo := int64(0) // the revision up to which all is drained when the timer fires; 0: it is not set
	var at time.Time // when it fires
	set := func(rev int64, in time.Duration) {
		in += c.cfg.Jitter(in)
		upTo, at = rev, time.Now().Add(in)
		due.Reset(in)
	}
	if len(res.KVs) > 0 {
		set(rev, grace)
	}
	pause := minPause
	for {
		select {
		case <-ctx.Done():
			return nil
		case batch, open := <-batches:
			if !open || batch.Err != nil {
				return batch.Err
			}
			if puts(batch) && (upTo == 0 || time.Until(at) > 2*grace) {
				set(batch.Revision, grace)
			}
		case <-due.C:
			left, now, err := c.drainOlder(ctx, upTo)
			upTo = 0
			switch {
			case err != nil:
				return err
			case left == nothing:
				pause = minPause
			case left == younger:
				set(now, grace)
			case left == failed:
				set(now, pause)
				pause = min(2*pause, maxPause)
			}
		}
	}
}

func puts(batch etcd.Batch) bool {
	for _, e := range batch.Events {
		if !e.Deleted {
			return true
		}
	}
	return false
}

// A rest says what drainOlder has left.
type rest int

const (
	nothing rest = iota
	younger      // what came after the revision
	failed       // what could not be delivered
)

// drainOlder drains the stores that owe wakes since the revision or before, and says
// what is left at which revision.
func (c *Client) drainOlder(ctx context.Context, upTo int64) (rest, int64, error) {
	span := c.cfg.Space.Outbox()
	get := etcd.Get{Key: span.Start, End: span.End, Limit: pageKeys, KeysOnly: true}
	var old []execution.StoreID
	left := nothing
	var now int64
	for {
		res, rev, err := c.cfg.Store.Get(ctx, get)
		if err != nil {
			return nothing, 0, err
		}
		if now = rev; get.Revision == 0 {
			get.Revision = rev
		}
		for _, kv := range res.KVs {
			k, err := c.cfg.Space.Parse(kv.Key)
			key := execution.StoreID{Name: k.Store.Name, ID: k.Store.ID}
			switch {
			case err != nil:
				c.bad(kv.Key, err)
			case kv.Modified > upTo:
				left = younger
			case len(old) == 0 || old[len(old)-1] != key:
				old = append(old, key)
			}
		}
		if !res.More {
			break
		}
		get.Key = res.KVs[len(res.KVs)-1].Key + "\x00"
	}
	for _, key := range old { // one that can't be drained hinders no other
		drained := c.drainNow(ctx, key)
		if left == nothing && (!drained || c.owes(ctx, key)) {
			left = failed
		}
	}
	return left, now, ctx.Err()
}

// owes says whether wakes of the store are still owed.
func (c *Client) owes(ctx context.Context, key execution.StoreID) bool {
	span := c.cfg.Space.OwedOf(storeKey(key))
	res, _, err := c.cfg.Store.Get(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: 1, KeysOnly: true})
	return err != nil || len(res.KVs) > 0
}
