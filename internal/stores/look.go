package stores

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
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
		id := string(s.step.Execution)
		start, end := c.run(*s.step)
		ops = append(
			ops, etcd.Get{Key: space.State(id), KeysOnly: true}, etcd.Get{Key: space.Purging(id), KeysOnly: true},
			etcd.Get{Key: start, End: end, Limit: 1, KeysOnly: true},
		)
	}
	return ops
}

// run returns the key, or the range, by which it is seen whether the step's run is the
// current one: the params of that run, which are there, or in the first run those of any
// run, of which there are none.
func (c *Client) run(step execution.StepID) (start, end string) {
	if step.Run > 0 {
		return c.cfg.Space.Params(string(step.Execution), step.Incarnation, step.Run), ""
	}
	runs := c.cfg.Space.ParamsOf(string(step.Execution), step.Incarnation)
	return runs.Start, runs.End
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
		state, _ := rs[3].One()
		_, purging := rs[4].One()
		switch _, params := rs[5].One(); {
		case state.Created != s.step.Incarnation || purging:
			l.gone = "the execution was deleted"
		case params != (s.step.Run > 0):
			l.gone = "the execution went on as another run"
		}
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
		id := string(s.step.Execution)
		current := etcd.Compare{Target: etcd.CreateRevision, Not: s.step.Run > 0} // there, or none
		current.Key, current.End = c.run(*s.step)
		compares = append(compares, etcd.CreatedIs(space.State(id), s.step.Incarnation), etcd.Absent(space.Purging(id)), current)
	}
	return compares
}
