package leasing

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// reapPause bounds how often ClaimDue scans for expired leases by itself.
const reapPause = time.Second

// ClaimDue claims due executions: at most req.Limit, each without a live lease,
// each with a token greater than every earlier one of that execution. (RFC 002,
// claimDue.) Each claim has an etcd lease of its own; a dispatcher uses a [Holder]
// instead. req.Now only bounds the due times.
//
// It finds expired leases by itself, at most once a second: then the first call
// after a crash may only find the expiry, and a later one claims once the
// redelivery delay has passed.
func (c *Client) ClaimDue(ctx context.Context, req execution.ClaimRequest) ([]execution.Delivery, error) {
	if err := c.validateClaim(&req); err != nil {
		return nil, err
	}
	if err := c.reapNowAndThen(ctx); err != nil {
		return nil, err
	}
	if len(req.Queues) == 0 {
		var err error
		if req.Queues, err = c.queues(ctx); err != nil || len(req.Queues) == 0 {
			return nil, err
		}
	}
	scan := dueScan{
		client: c, queues: req.Queues, workflows: req.Workflows, now: req.Now,
		want: req.Limit, pages: callPages, first: int(c.scans.Add(1) % keyspace.Shards),
	}
	candidates, _, err := scan.run(ctx)
	if err != nil {
		return nil, err
	}
	var claimed []execution.Delivery
	for i := range candidates {
		ds, err := c.claimSingle(ctx, candidates[i:i+1], req)
		if claimed = append(claimed, ds...); err != nil {
			return claimed, err
		}
	}
	return claimed, nil
}

// claimSingle claims one execution under an etcd lease of its own.
func (c *Client) claimSingle(ctx context.Context, one []candidate, req execution.ClaimRequest) ([]execution.Delivery, error) {
	p, err := c.newProc(ctx, c.name, req.Duration, true)
	if err != nil {
		return nil, err
	}
	ds, err := c.claim(ctx, claimer{proc: p.name, holder: c.name, epoch: p.epoch, until: p.until}, one, c.now())
	if len(ds) == 0 {
		c.revoke(ctx, p)
	} else {
		c.claims.single(ds[0].Lease, p)
	}
	return ds, err
}

func (c *Client) reapNowAndThen(ctx context.Context) error {
	c.reapMu.Lock()
	due := c.reapedAt.IsZero() || time.Since(c.reapedAt) >= reapPause
	if due {
		c.reapedAt = time.Now()
	}
	c.reapMu.Unlock()
	if !due {
		return nil
	}
	_, _, err := c.reapAll(ctx)
	return err
}
