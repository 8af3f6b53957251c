package leasing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// claimBatch bounds the claims of one transaction: the outer operations and the
// largest nested list must stay within etcd's limit of 128.
const claimBatch = 32

// errProcGone: the process's etcd lease has ended, or the namespace's epoch has
// changed, so that it can claim nothing.
var errProcGone = errors.New("the holder's etcd lease has ended")

// A claimer is who claims: a process with its etcd lease.
type claimer struct {
	proc   string
	holder string
	epoch  string
	until  time.Time // when its etcd lease ends unless renewed
}

// claim claims candidates, in batches of one transaction each.
//
//	compare  once: the process exists, the epoch; for each: mod(state) and
//	         mod(live) are those that its due entry is for
//	then     for each: state (claimed; an expired delivery before it counted),
//	         live; the entry and the wake deleted; the params of its run read
//	keeps    I1, I2, I6, I7, I8
//
// The token is the transaction's revision. A candidate that somebody else took
// just fails its compare.
func (c *Client) claim(ctx context.Context, by claimer, candidates []candidate, now time.Time) ([]execution.Delivery, error) {
	slices.SortStableFunc(candidates, byDue)
	var claimed []execution.Delivery
	for part := range slices.Chunk(candidates, claimBatch) {
		ds, err := c.claimPart(ctx, by, part, now)
		claimed = append(claimed, ds...)
		if err != nil {
			return claimed, fmt.Errorf("claim: %w", err)
		}
	}
	return claimed, nil
}

func (c *Client) claimPart(ctx context.Context, by claimer, part []candidate, now time.Time) ([]execution.Delivery, error) {
	nonce := newNonce()
	states := make([]*record.State, len(part))
	txn := &etcd.Txn{
		If:   []etcd.Compare{etcd.Present(c.space.Proc(by.proc)), etcd.ValueIs(c.space.Epoch(), by.epoch)},
		Else: []etcd.Op{etcd.Get{Key: c.space.Epoch()}},
	}
	for i := range part {
		states[i] = c.claimState(by, &part[i], now, nonce)
		txn.Then = append(txn.Then, c.claimOne(by, &part[i], states[i]))
	}
	res, again, err := fencing.Send(ctx, c.store, txn)
	if err != nil {
		return nil, err
	}
	if !res.Succeeded {
		c.sawEpoch(res.Results[0])
		return nil, errProcGone
	}
	var claimed []execution.Delivery
	for i, r := range res.Results {
		d, won, err := c.claimAnswer(&part[i], states[i], r.Txn, res.Revision, again, nonce)
		if err != nil {
			c.bad(c.paramsKey(part[i].id, states[i]), err)
			continue // it stays claimed by this process, which does not run it: swept
		}
		if !won {
			c.outdated.add(part[i].key, part[i].rev)
			continue
		}
		d.Epoch, d.ExpiresAt = by.epoch, by.until
		c.claims.put(d.Lease, states[i])
		c.tellClaimed(d)
		claimed = append(claimed, d)
	}
	return claimed, nil
}

// claimState is the state that a claim writes.
func (c *Client) claimState(by claimer, cand *candidate, now time.Time, nonce string) *record.State {
	n := cand.state.Clone()
	if n.Claimed { // its delivery expired: counted now
		if last := n.Last(); last != nil && last.How == execution.HowRunning {
			last.Token, last.Ended, last.How = execution.Token(cand.due.StateRevision), cand.due.Expired, execution.HowExpired
		}
		n.Unacked = counted(n.Unacked)
	}
	n.Claimed, n.Nonce, n.NotBefore = true, nonce, 0
	n.Claims = counted(n.Claims)
	n.Append(record.Delivery{Holder: by.holder, Proc: by.proc, Claimed: millis(now), How: execution.HowRunning, Nonce: nonce})
	return n
}

func (c *Client) claimOne(by claimer, cand *candidate, state *record.State) *etcd.Txn {
	id, params := string(cand.id), etcd.Get{Key: c.paramsKey(cand.id, state)}
	live := record.Live{Token: record.Own, Proc: by.proc, Holder: by.holder}
	return &etcd.Txn{
		If: []etcd.Compare{
			etcd.ModIs(c.space.State(id), cand.due.StateRevision),
			etcd.ModIs(c.space.Live(id), cand.due.LiveRevision),
		},
		Then: []etcd.Op{
			etcd.Put{Key: c.space.State(id), Value: state.Encode()},
			etcd.Put{Key: c.space.Live(id), Value: live.Encode()},
			etcd.Delete{Key: cand.key},
			etcd.Delete{Key: c.space.Wake(id)},
			params,
		},
		Else: []etcd.Op{etcd.Get{Key: c.space.State(id)}, params},
	}
}

// claimAnswer reads one nested answer: whether the claim was won, by this try or,
// where an earlier one was not answered, by that.
func (c *Client) claimAnswer(cand *candidate, state *record.State, res *etcd.TxnResult, revision int64, again bool, nonce string) (execution.Delivery, bool, error) {
	token := execution.Token(revision)
	if !res.Succeeded {
		kv, ok := res.Results[0].One()
		if !again || !ok {
			return execution.Delivery{}, false, nil
		}
		s, err := record.DecodeState(kv.Value)
		if err != nil || !s.Claimed || s.Nonce != nonce {
			return execution.Delivery{}, false, err
		}
		token = execution.Token(kv.Modified)
	}
	params, err := paramsOf(state, res.Results[len(res.Results)-1])
	if err != nil {
		return execution.Delivery{}, false, fmt.Errorf("run %d of execution %q: %w", state.Run, string(cand.id), err)
	}
	return execution.Delivery{
		Lease:    execution.Lease{ID: cand.id, Token: token, Incarnation: state.Incarnation, Run: state.Run},
		Workflow: state.Workflow, Queue: state.Queue, Params: params, Deadline: instant(state.Deadline),
		First: state.Claims == 1, UnacknowledgedDeliveries: state.Unacked, Takeover: cand.state.Claimed,
	}, true, nil
}

func (c *Client) tellClaimed(d execution.Delivery) {
	e := execution.Event{Kind: execution.EventClaimed, ID: d.ID, Token: d.Token, Workflow: d.Workflow, Queue: d.Queue, Count: 1}
	c.observer.Tell(e)
	if d.Takeover {
		e.Kind = execution.EventTakeover
		c.observer.Tell(e)
	}
}
