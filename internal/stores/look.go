package stores

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// A look is what one transaction saw of a store and of a step's part in it.
type look struct {
	rec     *record.Store   // nil: there is no such store
	rev     int64           // its mod-revision, or 0
	receipt *record.Receipt // nil: none
	gone    string          // why nothing of the step is applied any more; empty: it is
	epoch   etcd.Result
}

// A subject is whom a look is about: a store, and the step of a caller if it has one.
type subject struct {
	key  execution.StoreID
	step *execution.StepID
}

// ours says whether the step is one of an execution of the engine. Others' have no
// incarnation, and no record by which their end could be seen.
func (s subject) ours() bool { return s.step != nil && s.step.Incarnation != 0 }

// gets are the operations whose results parse reads.
func (c *Client) gets(s subject) []etcd.Op {
	space := c.cfg.Space
	ops := []etcd.Op{etcd.Get{Key: space.Store(storeKey(s.key))}, etcd.Get{Key: space.Epoch()}}
	if s.step != nil {
		ops = append(ops, etcd.Get{Key: space.Receipt(callKey(*s.step), storeKey(s.key))})
	}
	if s.ours() {
		ops = append(ops, fencing.ReceiptedGets(space, *s.step)...)
	}
	return ops
}

func (c *Client) parse(s subject, rs []etcd.Result) (l look, err error) {
	if kv, there := rs[0].One(); there {
		if l.rec, err = record.DecodeStore(kv.Value); err != nil {
			return l, fmt.Errorf("key %q: %w", kv.Key, err)
		}
		l.rev = kv.Modified
	}
	l.epoch = rs[1]
	if s.step == nil {
		return l, nil
	}
	if kv, there := rs[2].One(); there {
		if l.receipt, err = record.DecodeReceipt(kv.Value); err != nil {
			return l, fmt.Errorf("key %q: %w", kv.Key, err)
		}
	}
	if s.ours() {
		l.gone = fencing.Gone(*s.step, rs[3:])
	}
	return l, nil
}

func (c *Client) look(ctx context.Context, s subject) (look, error) {
	res, err := c.cfg.Store.Txn(ctx, &etcd.Txn{Then: c.gets(s)})
	if err != nil {
		return look{}, err
	}
	return c.parse(s, res.Results)
}

// unchanged returns the compares of a transaction that acts on the look: the store is
// as it was seen, in the epoch that was seen, and the step's execution is there, in the
// step's run.
func (c *Client) unchanged(s subject, l *look) []etcd.Compare {
	space := c.cfg.Space
	compares := []etcd.Compare{etcd.ModIs(space.Store(storeKey(s.key)), l.rev), etcd.Absent(space.Epoch())}
	if kv, there := l.epoch.One(); there {
		compares[1] = etcd.ValueIs(space.Epoch(), string(kv.Value))
	}
	if s.ours() {
		compares = append(compares, fencing.Receipted(space, *s.step)...)
	}
	return compares
}
