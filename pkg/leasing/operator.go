package leasing

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Cancel ends an execution as failed with the code "cancelled", whether or not a
// delivery runs: its holder is fenced at once, and told to stop. An unknown id
// gives an [execution.ErrNotFound], one that ended otherwise an
// [execution.ErrTerminal]; cancelling twice is nothing new.
//
//	compare  state, live and wake as read
//	then     state terminal, done entry, notice of the end; live, wake, due and reaped
//	         entry deleted; an eviction for the holder's process
//	keeps    I2, I5, I6
func (c *Client) Cancel(ctx context.Context, id execution.ID, why string) error {
	nonce := newNonce()
	var terminal error
	ends := false
	outcome := execution.Outcome{Kind: execution.Failed, Error: &execution.Error{Message: cancelText(why), Code: execution.CodeCancelled}}
	err := c.revise(ctx, "cancel", id, nonce, func(v *view) (*etcd.Txn, bool) {
		if v.state.Terminal() {
			if !outcomeOf(v.state).Cancelled() {
				terminal = fmt.Errorf("cancel %q: it is %s: %w", string(id), v.state.Base, execution.ErrTerminal)
			}
			return nil, false
		}
		now := c.now()
		n := ended(v.state, execution.Token(v.rev), now, execution.HowCancelled, why, nonce)
		n.Unacked = 0
		terminate(n, outcome, now)
		ends = true
		return c.takeAway(v, n, why), true
	})
	if ends && err == nil && terminal == nil {
		c.ended(ctx, id)
	}
	return errors.Join(err, terminal)
}

func cancelText(why string) string {
	if why == "" {
		return "cancelled"
	}
	return "cancelled: " + clip(why)
}

// Fence takes a claimed execution from its holder, as a release by somebody else:
// the holder is fenced at once and told to stop, the delivery counts, and the
// execution is due again after the redelivery delay. Of an unclaimed one nothing
// is changed. An unknown id gives an [execution.ErrNotFound].
//
//	compare  state, live and wake as read
//	then     state and due entry as by a release; live, wake and reaped entry
//	         deleted; an eviction for the holder's process
//	keeps    I2, I6, I7, I8, I9
func (c *Client) Fence(ctx context.Context, id execution.ID, why string) error {
	nonce := newNonce()
	return c.revise(ctx, "fence", id, nonce, func(v *view) (*etcd.Txn, bool) {
		if !v.state.Claimed {
			return nil, false
		}
		now := c.now()
		n := ended(v.state, execution.Token(v.rev), now, execution.HowFenced, why, nonce)
		c.unacknowledged(n, v.wake, now)
		return c.takeAway(v, n, why), true
	})
}

// takeAway makes the transaction that ends somebody else's delivery, or that of
// an unclaimed execution.
func (c *Client) takeAway(v *view, next *record.State, why string) *etcd.Txn {
	compares, ops := c.unhold(v)
	ops = append(ops, etcd.Put{Key: c.space.State(string(v.id)), Value: next.Encode()})
	ops = append(append(ops, c.entry(v, next)...), c.doneEntry(v.id, next)...)
	if v.live != nil {
		evict := record.Evict{Token: execution.Token(v.rev), Why: clip(why)}
		ops = append(ops, etcd.Put{Key: c.space.Evict(v.live.Proc, string(v.id)), Value: evict.Encode()})
	}
	return &etcd.Txn{If: compares, Then: ops}
}
