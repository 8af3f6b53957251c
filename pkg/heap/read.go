package heap

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// pageSteps is how many records one read asks for.
const pageSteps = 250

// Read returns every recorded attempt of the lease's run, by key and then by
// attempt. It reads at a revision that is not older than the claim, in pages at
// one revision; a run of up to 250 attempts takes one request. A record that
// can't be read is an error that names it: going on without it would run its step
// again.
func (c *Client) Read(ctx context.Context, lease execution.Lease) ([]execution.Step, error) {
	if err := lease.ID.Validate(); err != nil {
		return nil, err
	}
	span := c.cfg.Space.Run(string(lease.ID), lease.Incarnation, lease.Run)
	var steps []execution.Step
	get := etcd.Get{Key: span.Start, End: span.End, Limit: pageSteps}
	for {
		res, rev, err := c.cfg.Store.Get(ctx, get)
		if err != nil {
			return nil, fmt.Errorf("read the steps of %q: %w", string(lease.ID), err)
		}
		if rev < int64(lease.Token) {
			return nil, fmt.Errorf("read the steps of %q: etcd answered at revision %d, older than token %d: was it restored from a backup?", string(lease.ID), rev, lease.Token)
		}
		for _, kv := range res.KVs {
			st, err := c.parse(kv)
			if err != nil {
				return nil, fmt.Errorf("read the steps of %q: %w", string(lease.ID), err)
			}
			steps = append(steps, st)
		}
		if !res.More {
			return steps, nil
		}
		get.Key = res.KVs[len(res.KVs)-1].Key + "\x00"
		if get.Revision == 0 {
			get.Revision = rev
		}
	}
}

func (c *Client) parse(kv etcd.KV) (execution.Step, error) {
	k, err := c.cfg.Space.Parse(kv.Key)
	if err != nil {
		return execution.Step{}, err
	}
	rec, err := record.DecodeStep(kv.Value)
	if err != nil {
		return execution.Step{}, fmt.Errorf("key %q: %w", kv.Key, err)
	}
	return step(k.Step.Key, k.Step.Attempt, rec), nil
}
