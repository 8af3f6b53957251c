package leasing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Renew extends a lease and confirms that its token is current. (RFC 002, renew.)
//
//	etcd lease alive, same duration  it is renewed, then mod(state) == token is
//	                                 confirmed; nothing is written
//	otherwise                        compare the guard and mod(live) as known; then
//	                                 live with a new process, the reaped entry
//	                                 deleted
//	keeps                            I2, I4, I6
//
// So a lease that has expired can still be renewed while nobody has claimed the
// execution since. A stale token gives an [execution.ErrLost] and changes nothing.
func (c *Client) Renew(ctx context.Context, lease execution.Lease, duration time.Duration) (execution.Lease, error) {
	if err := errors.Join(lease.ID.Validate(), validateDuration(duration)); err != nil {
		return lease, err
	}
	v, kv, err := c.lookHeld(ctx, lease)
	if err != nil {
		return lease, err
	}
	if old, until := c.tryKeepAlive(ctx, kv, duration); old {
		if _, _, err := c.lookHeld(ctx, lease); err != nil {
			return lease, err
		}
		lease.ExpiresAt = until
		return lease, nil
	}
	holder := v.live.Holder
	p, err := c.newProc(ctx, holder, duration, true)
	if err != nil {
		return lease, fmt.Errorf("renew %q: %w", string(lease.ID), err)
	}
	if err := c.move(ctx, lease, &v, p); err != nil {
		c.revoke(ctx, p)
		return lease, err
	}
	if rec, err := record.DecodeProc(kv.Value); err == nil && rec.Single {
		c.revoke(ctx, &proc{lease: kv.Lease, ttl: p.ttl})
	}
	c.claims.single(lease, p)
	lease.ExpiresAt = p.until
	return lease, nil
}

// lookHeld reads an execution and the process that holds it, and gives an ErrLost
// unless the lease's token is current.
func (c *Client) lookHeld(ctx context.Context, lease execution.Lease) (view, etcd.KV, error) {
	call := c.call(lease, "renew", "")
	// A transaction without operations: its guard holds exactly if the token is current.
	ans, err := call.Do(ctx, nil, c.viewGets(lease.ID), nil)
	switch {
	case err != nil:
		return view{}, etcd.KV{}, err
	case ans.Lost != nil:
		c.over(ctx, lease)
		return view{}, etcd.KV{}, call.Refuse(ans.Lost)
	}
	v, err := parseView(lease.ID, ans.Rest)
	if err == nil && v.live == nil {
		err = errors.New("it is claimed but has no live record; run the audit")
	}
	if err != nil {
		return view{}, etcd.KV{}, fmt.Errorf("renew %q: %w", string(lease.ID), err)
	}
	res, _, err := c.store.Get(ctx, etcd.Get{Key: c.space.Proc(v.live.Proc)})
	if err != nil {
		return view{}, etcd.KV{}, fmt.Errorf("renew %q: %w", string(lease.ID), err)
	}
	kv, _ := res.One()
	return v, kv, nil
}

// tryKeepAlive renews the process's own etcd lease if it lives and has the wanted
// duration.
func (c *Client) tryKeepAlive(ctx context.Context, kv etcd.KV, duration time.Duration) (bool, time.Time) {
	rec, err := record.DecodeProc(kv.Value)
	if err != nil || kv.Lease == 0 {
		return false, time.Time{}
	}
	if granted := time.Duration(rec.TTL) * time.Second; granted != wholeSeconds(duration) {
		return false, time.Time{}
	}
	until, err := c.keepAlive(ctx, &proc{lease: kv.Lease})
	return err == nil, until
}

// move puts a claim onto another process, whatever became of the one before.
func (c *Client) move(ctx context.Context, lease execution.Lease, v *view, p *proc) error {
	call := c.call(lease, "renew", "")
	for {
		compares, ops := c.moveOps(v, p, lease.Token)
		ans, err := call.Do(ctx, compares, ops, c.viewGets(lease.ID)[1:])
		switch {
		case err != nil:
			return err
		case ans.Applied:
			return nil
		case ans.Lost != nil:
			c.over(ctx, lease)
			return call.Refuse(ans.Lost)
		}
		if err := v.parseHolding(ans.Rest[0], ans.Rest[1]); err != nil {
			return fmt.Errorf("renew %q: %w", string(lease.ID), err)
		}
		if v.live == nil || v.live.Proc == p.name {
			return nil // an earlier try, whose answer was lost
		}
	}
}

// moveOps makes the compares and operations that move a claim onto a process: no
// entry of a reaper outlives it.
func (c *Client) moveOps(v *view, p *proc, token execution.Token) ([]etcd.Compare, []etcd.Op) {
	id := string(v.id)
	live := record.Live{Token: int64(token), Proc: p.name, Holder: v.live.Holder, Extra: v.live.Extra}
	ops := []etcd.Op{etcd.Put{Key: c.space.Live(id), Value: live.Encode()}}
	if v.live.Reaped != 0 {
		ops = append(ops, etcd.Delete{Key: c.dueKey(v, v.live.Reaped)})
	}
	return []etcd.Compare{
		etcd.ModIs(c.space.Live(id), v.liveRev),
		etcd.Present(c.space.Proc(p.name)),
	}, ops
}
