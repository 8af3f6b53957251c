package leasing

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// rehome moves a process's claims onto a new etcd lease, in batches of one
// transaction each, and returns those whose tokens are not current any more.
//
//	compare  once: the new process exists, the epoch; for each: mod(state) ==
//	         token, mod(live) as read
//	then     for each: live with the new process, the reaped entry deleted
//	keeps    I2, I6
func (c *Client) rehome(ctx context.Context, leases []execution.Lease, p *proc) (lost []*execution.LostError, err error) {
	for part := range slices.Chunk(leases, claimBatch) {
		for len(part) > 0 {
			var gone []*execution.LostError
			if part, gone, err = c.rehomePart(ctx, part, p); err != nil {
				return lost, fmt.Errorf("renew onto a new etcd lease: %w", err)
			}
			lost = append(lost, gone...)
		}
	}
	return lost, nil
}

// rehomePart tries each lease once, and returns those that somebody came between.
func (c *Client) rehomePart(ctx context.Context, part []execution.Lease, p *proc) (again []execution.Lease, lost []*execution.LostError, err error) {
	ids := make([]execution.ID, len(part))
	for i, l := range part {
		ids[i] = l.ID
	}
	views, err := c.lookMany(ctx, ids)
	if err != nil {
		return nil, nil, err
	}
	txn := &etcd.Txn{
		If:   []etcd.Compare{etcd.Present(c.space.Proc(p.name)), etcd.ValueIs(c.space.Epoch(), p.epoch)},
		Else: []etcd.Op{etcd.Get{Key: c.space.Epoch()}},
	}
	var moving []execution.Lease
	for i, lease := range part {
		v := &views[i]
		switch {
		case lease.Epoch != p.epoch, v.rev != int64(lease.Token):
			lost = append(lost, c.lostError(v, lease, p.epoch))
			continue
		case v.live == nil:
			return nil, nil, fmt.Errorf("execution %q is claimed but has no live record; run the audit", string(lease.ID))
		case v.live.Proc == p.name:
			continue
		}
		compares, ops := c.moveOps(v, p, lease.Token)
		compares = append(compares, etcd.ModIs(c.space.State(string(lease.ID)), int64(lease.Token)))
		txn.Then = append(txn.Then, &etcd.Txn{If: compares, Then: ops})
		moving = append(moving, lease)
	}
	if len(moving) == 0 {
		return nil, lost, nil
	}
	res, _, err := fencing.Send(ctx, c.store, txn)
	if err != nil {
		return nil, lost, err
	}
	if !res.Succeeded {
		c.sawEpoch(res.Results[0])
		return nil, lost, errProcGone
	}
	for i, r := range res.Results {
		if !r.Txn.Succeeded {
			again = append(again, moving[i])
		}
	}
	return again, lost, nil
}

// lostError says why a lease is not current any more, as a read has shown, and
// tells the observer.
func (c *Client) lostError(v *view, lease execution.Lease, epoch string) *execution.LostError {
	lost := &execution.LostError{ID: lease.ID, Operation: "renew", Carried: lease.Token}
	switch {
	case lease.Epoch != epoch:
		lost.Reason = "the namespace was restored from a backup"
	case v.state == nil:
		lost.Reason = "the execution was deleted"
	default:
		lost.Current = fencing.Current(v.state, v.rev, lease.Token)
	}
	c.claims.drop(lease)
	_ = c.call(lease, "renew", "").Refuse(lost)
	return lost
}
