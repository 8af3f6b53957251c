package stores

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// Drop deletes everything of stores in the namespace: stores, receipts, waiters and
// wakes, in small pieces. It refuses a namespace that holds executions, by [ErrInUse]:
// their receipts are what keeps their mutations from being applied again. Nobody should
// use the namespace meanwhile; what is written then may stay.
func (c *Client) Drop(ctx context.Context) error {
	space := c.cfg.Space
	specs := space.Specs()
	res, _, err := c.cfg.Store.Get(ctx, etcd.Get{Key: specs.Start, End: specs.End, Limit: 1, KeysOnly: true})
	if err != nil {
		return fmt.Errorf("drop the namespace: %w", err)
	}
	if len(res.KVs) > 0 {
		return fmt.Errorf("drop the namespace: %w; delete those first", ErrInUse)
	}
	for _, span := range []keyspace.Span{space.Waiters(), space.Outbox(), space.AllPulled(), space.AllStores(), space.Receipts()} {
		if err := c.clear(ctx, span); err != nil {
			return fmt.Errorf("drop the namespace: %w", err)
		}
	}
	return nil
}

// clear deletes the keys of the span in pieces: a large deletion would stop etcd.
func (c *Client) clear(ctx context.Context, span keyspace.Span) error {
	for {
		res, _, err := c.cfg.Store.Get(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: pageKeys, KeysOnly: true})
		if err != nil || len(res.KVs) == 0 {
			return err
		}
		last := res.KVs[len(res.KVs)-1].Key + "\x00"
		if _, _, err := fencing.Send(ctx, c.cfg.Store, &etcd.Txn{Then: []etcd.Op{etcd.Delete{Key: span.Start, End: last}}}); err != nil {
			return err
		}
	}
}
