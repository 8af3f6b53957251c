package leasing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// An ending is how a delivery ends: next makes the state from the claimed one and
// the pending wake, also what is written beside that state.
type ending struct {
	operation string
	nonce     string
	next      func(*view) *record.State
	also      func(next *record.State) []etcd.Op // nil: nothing
}

// ended returns the state without its claim, the delivery noted in its history.
func ended(s *record.State, token execution.Token, now time.Time, how execution.How, why, nonce string) *record.State {
	n := s.Clone()
	n.Claimed, n.Nonce = false, nonce
	if last := n.Last(); last != nil && last.How == execution.HowRunning {
		last.Token, last.Ended, last.How, last.Why, last.EndNonce = token, millis(now), how, clip(why), nonce
	}
	return n
}

// clip bounds a reason, which is kept in the history, to some hundred bytes of
// valid UTF-8.
func clip(why string) string {
	const limit = 400
	if len(why) <= limit {
		return strings.ToValidUTF8(why, "�")
	}
	return strings.ToValidUTF8(why[:limit], "") + "…"
}

// unacknowledged counts a delivery against the execution: it stays due, or is due
// at the wake requested meanwhile if that is earlier (it may have been claimed
// before its time, by a clock that is ahead), but not before the redelivery delay
// has passed. (I7, I8, I9)
func (c *Client) unacknowledged(n *record.State, wake *record.Wake, now time.Time) {
	n.Unacked = counted(n.Unacked)
	n.NotBefore = millis(now.Add(c.delay.Delay(n.Unacked)))
	if n.Due == 0 {
		n.Due = millis(now)
	}
	if wake != nil {
		n.Due = min(n.Due, wake.At)
	}
}

// counted adds one to a stored count, whatever was stored.
func counted(n int64) int64 {
	if n = max(n, 0); n == math.MaxInt64 {
		return n
	}
	return n + 1
}

// end runs the holder's transaction that ends its delivery.
//
//	compare  the guard, mod(live) as known, mod(wake) as read
//	then     state; live, wake and the reaped entry deleted; due or done entry; the
//	         notice of an end that somebody waits for
//
// What the claim wrote is known, so the first try needs no read; where it turns
// out otherwise (a reaper came by, a wake was requested) the refusal has read what
// is there, and the next try uses that.
// It returns the state that it wrote.
func (c *Client) end(ctx context.Context, lease execution.Lease, e ending) (*record.State, error) {
	call := c.call(lease, e.operation, e.nonce)
	v, err := c.claimed(ctx, lease)
	for {
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", e.operation, string(lease.ID), err)
		}
		if v.rev != int64(lease.Token) || v.state == nil {
			// Only a read without a known claim sees this; the guard's refusal proves it.
			v.state = &record.State{Claimed: true, Base: execution.StatusAdmitted}
		}
		compares, ops := c.unhold(&v)
		next := e.next(&v)
		ops = append(ops, etcd.Put{Key: c.space.State(string(lease.ID)), Value: next.Encode()})
		ops = append(append(ops, c.entry(&v, next)...), c.doneEntry(lease.ID, next)...)
		if e.also != nil {
			ops = append(ops, e.also(next)...)
		}
		ans, doErr := call.Do(ctx, compares, ops, c.viewGets(lease.ID)[1:])
		switch {
		case doErr != nil:
			return nil, doErr
		case ans.Applied:
			c.over(ctx, lease)
			c.tellEnd(ctx, lease.ID, next, ans)
			return next, nil
		case ans.Lost != nil:
			c.over(ctx, lease)
			return nil, call.Refuse(ans.Lost)
		}
		v.state, v.rev = ans.State, int64(lease.Token)
		err = v.parseHolding(ans.Rest[0], ans.Rest[1])
	}
}

// over forgets a claim that has ended, and ends the etcd lease that served it only.
func (c *Client) over(ctx context.Context, lease execution.Lease) {
	if p := c.claims.drop(lease); p != nil {
		c.revoke(ctx, p)
	}
}

// claimed returns the claim's records as its holder knows them.
func (c *Client) claimed(ctx context.Context, lease execution.Lease) (view, error) {
	if err := lease.ID.Validate(); err != nil {
		return view{}, err
	}
	if s := c.claims.get(lease); s != nil {
		return view{id: lease.ID, state: s, rev: int64(lease.Token), liveRev: int64(lease.Token)}, nil
	}
	return c.look(ctx, lease.ID)
}

// doneEntry returns what is written with a terminal state: the entry among those that
// have ended and, if somebody waits for the end, the notice of it.
func (c *Client) doneEntry(id execution.ID, s *record.State) []etcd.Op {
	if !s.Terminal() {
		return nil
	}
	return []etcd.Op{etcd.Put{Key: c.space.Done(time.UnixMilli(s.Ended), string(id)), Value: []byte{}}, c.notice(id, s)}
}

// Release ends the delivery without an outcome, noting why. It counts: the
// execution is due again, with a higher token, after the redelivery delay. (RFC
// 002, release.) A stale token gives an [execution.ErrLost] and changes nothing.
// Keeps I4, I6, I7, I8.
func (c *Client) Release(ctx context.Context, lease execution.Lease, why string) error {
	next, err := c.release(ctx, lease, "release", execution.HowReleased, why)
	if err == nil {
		c.observer.Tell(execution.Event{
			Kind: execution.EventReleased, ID: lease.ID, Token: lease.Token, Workflow: next.Workflow, Err: errors.New(why),
		})
	}
	return err
}

func (c *Client) release(ctx context.Context, lease execution.Lease, op string, how execution.How, why string) (*record.State, error) {
	nonce := newNonce()
	return c.end(ctx, lease, ending{operation: op, nonce: nonce, next: func(v *view) *record.State {
		now := c.now()
		n := ended(v.state, lease.Token, now, how, why, nonce)
		c.unacknowledged(n, v.wake, now)
		return n
	}})
}
