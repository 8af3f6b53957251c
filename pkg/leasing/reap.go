package leasing

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// livePage is how many live records a scan reads at once.
const livePage = 500

// reapAll makes every execution claimable whose holder's etcd lease has ended. It
// returns the live records that it saw, and the revision at which it began to look. Live records are read before the
// processes: a process is recorded before its first claim and its name never comes
// back, so one that is absent then is gone for good.
func (c *Client) reapAll(ctx context.Context) (held []view, rev int64, err error) {
	held, rev, err = c.lives(ctx, nil)
	if err != nil || len(held) == 0 {
		return nil, rev, err
	}
	procs, err := c.procs(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("scan for expired leases: %w", err)
	}
	var expired []view
	for _, v := range held {
		if v.live.Reaped == 0 && !slices.Contains(procs, v.live.Proc) {
			expired = append(expired, v)
		}
	}
	return held, rev, c.reap(ctx, expired)
}

// reapProc makes the executions claimable that a process held which is gone.
func (c *Client) reapProc(ctx context.Context, name string) error {
	held, _, err := c.lives(ctx, func(l *record.Live) bool { return l.Proc == name && l.Reaped == 0 })
	if err != nil {
		return err
	}
	return c.reap(ctx, held)
}

// lives reads the live records that want selects, or all.
func (c *Client) lives(ctx context.Context, want func(*record.Live) bool) (found []view, rev int64, err error) {
	span := c.space.Lives()
	get := etcd.Get{Key: span.Start, End: span.End, Limit: livePage}
	for {
		res, at, err := c.store.Get(ctx, get)
		if err != nil {
			return nil, 0, fmt.Errorf("scan the live records: %w", err)
		}
		if rev == 0 {
			rev = at
		}
		for _, kv := range res.KVs {
			k, err := c.space.Parse(kv.Key)
			if err != nil {
				c.bad(kv.Key, err)
				continue
			}
			l, err := record.DecodeLive(kv.Value, kv.Modified)
			if err != nil {
				c.bad(kv.Key, err)
				continue
			}
			if want == nil || want(l) {
				found = append(found, view{id: execution.ID(k.ID), live: l, liveRev: kv.Modified})
			}
		}
		if !res.More {
			return found, rev, nil
		}
		get.Key = res.KVs[len(res.KVs)-1].Key + "\x00"
	}
}

// reap gives expired claims their redelivery: each becomes due after the delay
// that one more unacknowledged delivery asks for.
//
//	compare  for each: mod(live) as read; once: the processes are absent, the epoch
//	then     for each: live with the due time, a due entry for it
//	keeps    I2, I6, I8
//
// The state is not touched: the holder, should it wake up, may still write until
// somebody claims. Several dispatchers reap the same claims at the same time, each
// beginning at another one; mod(live) lets each be reaped once.
func (c *Client) reap(ctx context.Context, expired []view) error {
	if n := len(expired); n > 0 {
		first := int(place(c.name) % uint32(n))
		expired = slices.Concat(expired[first:], expired[:first])
	}
	for part := range slices.Chunk(expired, claimBatch) {
		if err := c.reapPart(ctx, part); err != nil {
			return fmt.Errorf("reap expired leases: %w", err)
		}
	}
	return nil
}

func (c *Client) reapPart(ctx context.Context, part []view) error {
	part, err := c.reread(ctx, part)
	if err != nil || len(part) == 0 {
		return err
	}
	now := c.now()
	txn := &etcd.Txn{If: []etcd.Compare{c.inEpoch()}, Else: []etcd.Op{etcd.Get{Key: c.space.Epoch()}}}
	gone := map[string]bool{}
	for i := range part {
		if p := part[i].live.Proc; !gone[p] {
			gone[p] = true
			txn.If = append(txn.If, etcd.Absent(c.space.Proc(p)))
		}
		txn.Then = append(txn.Then, c.reapOne(&part[i], now))
	}
	res, _, err := fencing.Send(ctx, c.store, txn)
	if err != nil {
		return err
	}
	if !res.Succeeded {
		c.sawEpoch(res.Results[0])
		return nil // the next scan looks again
	}
	for i, r := range res.Results {
		if r.Txn.Succeeded {
			c.log.Info("a lease has expired; its execution will be delivered again",
				zap.String("execution", string(part[i].id)), zap.Int64("token", part[i].live.Token), zap.String("holder", part[i].live.Holder))
			c.observer.Tell(execution.Event{Kind: execution.EventReaped, ID: part[i].id, Token: execution.Token(part[i].live.Token)})
		}
	}
	return nil
}

// reread keeps what is still claimed by the same process and not reaped.
func (c *Client) reread(ctx context.Context, part []view) ([]view, error) {
	ids := make([]execution.ID, len(part))
	for i, v := range part {
		ids[i] = v.id
	}
	now, err := c.lookMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	var kept []view
	for i, v := range now {
		if v.state != nil && v.state.Claimed && v.live != nil && v.live.Reaped == 0 && v.live.Proc == part[i].live.Proc {
			kept = append(kept, v)
		}
	}
	return kept, nil
}

func (c *Client) reapOne(v *view, now time.Time) *etcd.Txn {
	live := *v.live
	live.Expired = millis(now)
	live.Reaped = millis(now.Add(c.delay.Delay(counted(v.state.Unacked))))
	due := record.Due{StateRevision: v.rev, LiveRevision: record.Own, Expired: live.Expired}
	return &etcd.Txn{
		If: []etcd.Compare{etcd.ModIs(c.space.Live(string(v.id)), v.liveRev)},
		Then: []etcd.Op{
			etcd.Put{Key: c.space.Live(string(v.id)), Value: live.Encode()},
			etcd.Put{Key: c.dueKey(v, live.Reaped), Value: due.Encode(v.state)},
		},
	}
}
