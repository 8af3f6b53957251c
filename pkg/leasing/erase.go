package leasing

import (
	"context"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// The bounds of one piece of an erasure. Etcd's default limit is 128 operations in a
// transaction. Steps are read with their values, which may be large: one may name
// the store at which it waits.
const (
	eraseKeys  = 100
	eraseSteps = 32
)

// runPages returns the first pages of what belongs to the runs of the incarnation, up
// to and with the last one: their steps, their receipts, and what they have started.
func (c *Client) runPages(id string, inc, last int64) []etcd.Get {
	return []etcd.Get{
		{Key: c.space.Run(id, inc, 0).Start, End: c.space.Run(id, inc, last).End, Limit: eraseSteps},
		{Key: c.space.ReceiptsOfRun(id, inc, 0).Start, End: c.space.ReceiptsOfRun(id, inc, last).End, Limit: eraseKeys, KeysOnly: true},
		{Key: c.space.StartsOfRun(id, inc, 0).Start, End: c.space.StartsOfRun(id, inc, last).End, Limit: eraseKeys, KeysOnly: true},
	}
}

// eventPages returns the first pages of the events of the incarnation and their receipts,
// which belong to no run.
func (c *Client) eventPages(id string, inc int64) []etcd.Get {
	events, applied := c.space.EventsOf(id, inc), c.space.AppliedOf(id, inc)
	return []etcd.Get{
		{Key: events.Start, End: events.End, Limit: eraseKeys, KeysOnly: true},
		{Key: applied.Start, End: applied.End, Limit: eraseKeys, KeysOnly: true},
	}
}

// erase deletes the keys of ranges, page by page, each in a transaction that holds only
// if the compares do; same: they did. With a step goes what it has registered at a
// store. Nobody writes such keys any more, so those between the first and the last of a
// page are those that the page has.
func (c *Client) erase(ctx context.Context, pages []etcd.Get, compares ...etcd.Compare) (same bool, err error) {
	for len(pages) > 0 {
		gets := make([]etcd.Op, len(pages))
		for i, page := range pages {
			gets[i] = page
		}
		res, err := c.store.Txn(ctx, &etcd.Txn{Then: gets})
		if err != nil {
			return false, err
		}
		var rest []etcd.Get
		for i, page := range pages {
			kvs := res.Results[i].KVs
			if len(kvs) == 0 {
				continue
			}
			next := kvs[len(kvs)-1].Key + "\x00"
			done, _, err := fencing.Send(ctx, c.store, &etcd.Txn{
				If:   compares,
				Then: append(c.registrations(kvs), etcd.Delete{Key: page.Key, End: next}),
			})
			if err != nil || !done.Succeeded {
				return false, err
			}
			if page.Key = next; res.Results[i].More {
				rest = append(rest, page)
			}
		}
		pages = rest
	}
	return true, nil
}

// registrations returns the operations that delete what the steps among the keys
// have registered at stores, each once: the attempts of a step share theirs.
func (c *Client) registrations(kvs []etcd.KV) []etcd.Op {
	var ops []etcd.Op
	named := map[string]bool{}
	for _, kv := range kvs {
		k, err := c.space.Parse(kv.Key)
		if err != nil || k.Kind != keyspace.KindStep {
			continue
		}
		rec, err := record.DecodeStep(kv.Value)
		if err != nil {
			c.bad(kv.Key, err) // what it waits for, if anything, can't be known
			continue
		}
		if rec.Waiter == nil {
			continue
		}
		step := keyspace.CallKey{ID: k.Step.ID, Incarnation: k.Step.Incarnation, Run: k.Step.Run, Step: k.Step.Key}
		key := c.space.Waiter(keyspace.StoreKey{Name: rec.Waiter.Name, ID: rec.Waiter.ID}, step)
		if !named[key] {
			named[key] = true
			ops = append(ops, etcd.Delete{Key: key})
		}
	}
	return ops
}
