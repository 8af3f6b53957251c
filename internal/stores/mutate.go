package stores

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

// recentLimit bounds record.Store.Recent. It also bounds after how many commits of
// others the outcome of a call without a step id can still be told.
const recentLimit = 8

// A plan is what a mutation does to the store that it has seen.
type plan struct {
	next    *record.Store // nil: the store is deleted
	changed Paths
	result  []byte // for the receipt
}

// A done is what became of a mutation.
type done struct {
	result   []byte // what the receipt holds, of this call or of an earlier one
	repeated bool   // of an earlier one
	plan     *plan  // nil: nothing was to be done
}

// A mutation is one call that changes a store.
type mutation struct {
	subject
	op   string // for errors
	kind string // for the receipt
	// decide makes the plan from what was seen; it is called again when somebody came
	// in between. A nil plan: nothing is to be done.
	decide func(*look) (*plan, error)
	// identity: whoever does it, it is done: the outcome of a try needs not be told.
	identity bool

	nonce string
}

// mutate runs the mutation.
//
//	compare  the store is as it was seen, epoch; of a step: its receipt is absent, its
//	         execution is there
//	then     the store or its deletion, the receipt and, where the store has waiters,
//	         what was changed
//	keeps    I10
//
// The receipt is looked for before all else, also before decide is called.
func (c *Client) mutate(ctx context.Context, m mutation) (done, error) {
	if err := validate(m.key, m.step); err != nil {
		return done{}, err
	}
	m.nonce = newNonce()
	d, owing, err := c.inTurn(ctx, m)
	switch missing, is := errors.AsType[*NotFoundError](err); {
	case is && missing.Store == m.key:
		return d, missing // it names the store
	case err != nil:
		return d, fmt.Errorf("%s of %s: %w", m.op, describe(m.key), err)
	}
	if owing {
		c.drainNow(ctx, m.key)
	}
	return d, nil
}

// inTurn makes the attempt when its turn comes. The turn ends also with a decide that
// panics.
func (c *Client) inTurn(ctx context.Context, m mutation) (d done, owing bool, err error) {
	end, err := c.turns.take(ctx, m.key)
	if err != nil {
		return done{}, false, err
	}
	defer end()
	return c.attempt(ctx, m)
}

// attempt looks, decides and commits until nobody came in between. owing: somebody is
// to be woken.
func (c *Client) attempt(ctx context.Context, m mutation) (d done, owing bool, err error) {
	l, err := c.look(ctx, m.subject)
	unanswered := false // a try was left without an answer
	for {
		switch {
		case err != nil && unanswered:
			return done{}, false, fmt.Errorf("%w: %w", fencing.ErrUnknown, err)
		case err != nil:
			return done{}, false, err
		case l.receipt != nil && l.receipt.Kind != m.kind:
			return done{}, false, &ReceiptError{Step: *m.step, Kind: l.receipt.Kind, Wanted: m.kind}
		case l.receipt != nil:
			return done{result: l.receipt.Result, repeated: true}, unanswered, nil
		case l.gone != "":
			return done{}, false, gone(m.op, *m.step, l.gone)
		}
		p, decideErr := m.decide(&l)
		if decideErr == nil && p != nil {
			decideErr = m.recordable(p.result)
		}
		if decideErr != nil || p == nil {
			return done{}, false, decideErr
		}
		if p.next != nil {
			p.next.Recent = append(slices.Clone(p.next.Recent), m.nonce)
			p.next.Recent = p.next.Recent[max(len(p.next.Recent)-recentLimit, 0):]
		}
		res, again, sendErr := c.send(ctx, m, &l, p)
		if sendErr != nil {
			return done{}, false, sendErr
		}
		if res.Succeeded {
			return done{result: p.result, plan: p}, owed(res), nil
		}
		unanswered = unanswered || again
		seen := l
		if l, err = c.parse(m.subject, res.Results); err != nil || !again || l.receipt != nil {
			continue
		}
		if applied, unknown := m.resolve(p, &seen, &l); unknown {
			return done{}, false, fmt.Errorf("the store or the execution went on meanwhile: %w", fencing.ErrUnknown)
		} else if applied {
			return done{result: p.result, plan: p}, true, nil
		}
	}
}

// send sends the transaction until it is answered.
func (c *Client) send(ctx context.Context, m mutation, l *look, p *plan) (res *etcd.TxnResult, again bool, err error) {
	txn := c.transaction(m, l, p)
	if p.next == nil || l.rec != nil {
		return fencing.Send(ctx, c.cfg.Store, txn)
	}
	store := &creating{Store: c.cfg.Store, try: func() *etcd.Txn {
		next := *p.next
		next.Instance = newInstance()
		p.next = &next
		return c.transaction(m, l, p)
	}}
	return fencing.Send(ctx, store, txn)
}

// resolve says, after a try without an answer, whether that try was applied. With a
// step id the receipt would have told, unless it was deleted since with all that the
// step's run has left.
func (m *mutation) resolve(p *plan, seen, now *look) (applied, unknown bool) {
	switch {
	case m.step != nil:
		return false, now.gone != ""
	case m.identity:
		return false, false
	case now.rec == nil || seen.rec == nil || now.rec.Instance != seen.rec.Instance:
		return false, true
	case p.next == nil:
		return false, false // it was to be deleted, and is there
	case slices.Contains(now.rec.Recent, m.nonce):
		return true, false
	}
	return false, now.rec.Version-seen.rec.Version > recentLimit
}

func (c *Client) transaction(m mutation, l *look, p *plan) *etcd.Txn {
	store := storeKey(m.key)
	txn := &etcd.Txn{If: c.unchanged(m.subject, l), Else: c.gets(m.subject)}
	if p.next == nil {
		txn.Then = c.removal(m.key)
	} else {
		txn.Then = []etcd.Op{etcd.Put{Key: c.cfg.Space.Store(store), Value: p.next.Encode()}}
	}
	if m.step != nil {
		key := c.cfg.Space.Receipt(callKey(*m.step), store)
		rec := record.Receipt{Kind: m.kind, Written: time.Now().UnixMilli(), Result: p.result}
		if p.next != nil {
			rec.Instance, rec.Version = p.next.Instance, p.next.Version
		} else {
			rec.Instance, rec.Version = l.rec.Instance, l.rec.Version
		}
		txn.If = append(txn.If, etcd.Absent(key))
		txn.Then = append(txn.Then, etcd.Put{Key: key, Value: rec.Encode()})
	}
	if p.next != nil && len(p.changed) > 0 {
		txn.Then = append(txn.Then, c.notice(m.key, p))
	}
	if p.next != nil {
		txn.Then = append(txn.Then, c.owing(m.key)...)
	}
	return txn
}

// notice leaves a record of the change if the store has waiters: the obligation to
// wake them. One record for all of them, so that no number of waiters makes the
// transaction too large.
func (c *Client) notice(key execution.StoreID, p *plan) *etcd.Txn {
	store := storeKey(key)
	waiters := c.cfg.Space.WaitersOf(store)
	change := record.Change{Instance: p.next.Instance, Version: p.next.Version, Paths: encodePaths(p.changed)}
	return &etcd.Txn{
		If:   []etcd.Compare{etcd.RangeEmpty(waiters.Start, waiters.End)},
		Else: []etcd.Op{etcd.Put{Key: c.cfg.Space.Change(store, p.next.Version), Value: change.Encode()}},
	}
}

// owing returns the operations by which a transaction sees whether anybody is still
// to be woken.
func (c *Client) owing(key execution.StoreID) []etcd.Op {
	changes, owed := c.cfg.Space.ChangesOf(storeKey(key)), c.cfg.Space.OwedOf(storeKey(key))
	return []etcd.Op{
		etcd.Get{Key: changes.Start, End: changes.End, Limit: 1, KeysOnly: true},
		etcd.Get{Key: owed.Start, End: owed.End, Limit: 1, KeysOnly: true},
	}
}

func owed(res *etcd.TxnResult) bool {
	return slices.ContainsFunc(res.Results, func(r etcd.Result) bool { return len(r.KVs) > 0 })
}

// removal deletes a store with its waiters and all that is owed to them, silently.
// Each is one operation, however many keys it takes.
func (c *Client) removal(key execution.StoreID) []etcd.Op {
	store, space := storeKey(key), c.cfg.Space
	ops := []etcd.Op{etcd.Delete{Key: space.Store(store)}}
	for _, s := range []struct{ Start, End string }{space.WaitersOf(store), space.ChangesOf(store), space.OwedOf(store), space.PulledOf(store)} {
		ops = append(ops, etcd.Delete{Key: s.Start, End: s.End})
	}
	return ops
}
