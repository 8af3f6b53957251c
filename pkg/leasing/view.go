package leasing

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// A view is an execution's records as one transaction saw them.
type view struct {
	id      execution.ID
	state   *record.State // nil: no such execution
	rev     int64         // mod-revision of the state; the token while claimed
	created int64         // its create-revision
	live    *record.Live  // nil: none
	liveRev int64
	wake    *record.Wake // nil: none
	wakeRev int64
}

// viewGets are the operations whose results parseView reads.
func (c *Client) viewGets(id execution.ID) []etcd.Op {
	s := string(id)
	return []etcd.Op{etcd.Get{Key: c.space.State(s)}, etcd.Get{Key: c.space.Live(s)}, etcd.Get{Key: c.space.Wake(s)}}
}

const viewOps = 3

func parseView(id execution.ID, rs []etcd.Result) (v view, err error) {
	v.id = id
	if kv, ok := rs[0].One(); ok {
		if v.state, err = record.DecodeState(kv.Value); err != nil {
			return v, fmt.Errorf("key %q: %w", kv.Key, err)
		}
		v.rev, v.created = kv.Modified, kv.Created
		v.state.Incarnation = kv.Created
	}
	return v, v.parseHolding(rs[1], rs[2])
}

func (v *view) parseHolding(live, wake etcd.Result) (err error) {
	v.live, v.liveRev, v.wake, v.wakeRev = nil, 0, nil, 0
	if kv, ok := live.One(); ok {
		if v.live, err = record.DecodeLive(kv.Value, kv.Modified); err != nil {
			return fmt.Errorf("key %q: %w", kv.Key, err)
		}
		v.liveRev = kv.Modified
	}
	if kv, ok := wake.One(); ok {
		if v.wake, err = record.DecodeWake(kv.Value); err != nil {
			return fmt.Errorf("key %q: %w", kv.Key, err)
		}
		v.wakeRev = kv.Modified
	}
	return nil
}

// look reads an execution's records in one transaction.
func (c *Client) look(ctx context.Context, id execution.ID) (view, error) {
	res, err := c.store.Txn(ctx, &etcd.Txn{Then: c.viewGets(id)})
	if err != nil {
		return view{}, err
	}
	return parseView(id, res.Results)
}

// lookMany reads the state and live records of some executions, at most
// claimBatch, at one revision. One that can't be read is reported, and its view is
// empty.
func (c *Client) lookMany(ctx context.Context, ids []execution.ID) ([]view, error) {
	var ops []etcd.Op
	for _, id := range ids {
		ops = append(ops, c.viewGets(id)[:2]...)
	}
	res, err := c.store.Txn(ctx, &etcd.Txn{Then: ops})
	if err != nil {
		return nil, err
	}
	views := make([]view, len(ids))
	for i, id := range ids {
		v, err := parseView(id, []etcd.Result{res.Results[2*i], res.Results[2*i+1], {}})
		if err != nil {
			c.bad(c.space.State(string(id)), err)
			v = view{id: id}
		}
		views[i] = v
	}
	return views, nil
}

// dueKey is the key of the execution's entry at a time in Unix milliseconds.
func (c *Client) dueKey(v *view, at int64) string {
	return c.space.Due(keyspace.Due{Queue: v.state.Queue, Priority: keyspace.DefaultPriority, At: time.UnixMilli(at), ID: string(v.id)})
}

// entryKey is the key of the due entry that exists now, or empty: of an unclaimed
// execution that is due, or of a claimed one that was reaped. (I6)
func (c *Client) entryKey(v *view) string {
	switch {
	case v.state.Claimed && v.live != nil && v.live.Reaped != 0:
		return c.dueKey(v, v.live.Reaped)
	case !v.state.Claimed && !v.state.Terminal() && v.state.Due != 0:
		return c.dueKey(v, max(v.state.Due, v.state.NotBefore))
	}
	return ""
}

// entry returns the operations that take the due index from what the view saw to
// what the next state wants: no entry where it is claimed, terminal or not due.
// Etcd refuses a transaction that puts and deletes one key, so where the new key
// equals the old it is only put.
func (c *Client) entry(v *view, next *record.State) []etcd.Op {
	var ops []etcd.Op
	old, now := c.entryKey(v), ""
	if !next.Claimed && !next.Terminal() && next.Due != 0 {
		now = c.dueKey(v, max(next.Due, next.NotBefore))
		due := record.Due{StateRevision: record.Own}
		ops = append(ops, etcd.Put{Key: now, Value: due.Encode(next)})
	}
	if old != "" && old != now {
		ops = append(ops, etcd.Delete{Key: old})
	}
	return ops
}

// unhold returns the compares and operations that end a claim, or that prove that
// there is none: live and wake are as the view saw them, and go.
func (c *Client) unhold(v *view) ([]etcd.Compare, []etcd.Op) {
	id := string(v.id)
	compares := []etcd.Compare{etcd.ModIs(c.space.Live(id), v.liveRev), etcd.ModIs(c.space.Wake(id), v.wakeRev)}
	if !v.state.Claimed {
		return compares, nil
	}
	return compares, []etcd.Op{etcd.Delete{Key: c.space.Live(id)}, etcd.Delete{Key: c.space.Wake(id)}}
}

// revise changes an execution on behalf of somebody who is not its holder: it
// reads, lets change make the transaction's compares and operations, and repeats
// that until nobody came in between. The compare of the state and of the epoch is
// added here. change returns false for nothing to do.
func (c *Client) revise(ctx context.Context, op string, id execution.ID, nonce string, change func(*view) (*etcd.Txn, bool)) error {
	if err := id.Validate(); err != nil {
		return err
	}
	v, err := c.look(ctx, id)
	for {
		if err != nil {
			return fmt.Errorf("%s %q: %w", op, string(id), err)
		}
		if v.state == nil {
			return fmt.Errorf("%s %q: %w", op, string(id), execution.ErrNotFound)
		}
		txn, wanted := change(&v)
		if !wanted {
			return nil
		}
		txn.If = append(txn.If, etcd.ModIs(c.space.State(string(id)), v.rev), c.inEpoch())
		txn.Else = append(c.viewGets(id), etcd.Get{Key: c.space.Epoch()})
		res, again, sendErr := fencing.Send(ctx, c.store, txn)
		if sendErr != nil {
			return fmt.Errorf("%s %q: %w", op, string(id), sendErr)
		}
		if res.Succeeded {
			return nil
		}
		c.sawEpoch(res.Results[viewOps])
		v, err = parseView(id, res.Results)
		if again && err == nil && v.state != nil && v.state.Knows(nonce) {
			return nil
		}
	}
}
