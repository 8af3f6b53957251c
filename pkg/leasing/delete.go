package leasing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// Delete removes an execution that has ended, with all that belongs to it: its steps,
// its receipts, the events that were sent to it, and what waits for it at stores. A stale holder of it changes nothing
// afterwards, and an execution that is admitted with its id later starts clean. One
// that goes on gives an [execution.ErrNotTerminal]: cancel it first. An unknown id
// gives an [execution.ErrNotFound].
//
//	compare  mod(state) as read, terminal; nobody has begun; epoch
//	then     purging
//
//	compare  purging as read; epoch                  (for each piece)
//	then     some steps, with their registrations at stores, some receipts, some
//	         events or some of their receipts deleted
//
//	compare  mod(state) and purging as read; epoch
//	then     spec, params, state, done entry and purging deleted
//
//	keeps    I3, I6, I10
//
// Each piece may be done twice, by whomever. What an error or a crash leaves undone,
// another Delete of the id does, or [Client.SweepPurging], or an Admit of the id.
// Until it is all done the execution can be read as it ended. An eviction that its
// holder has not seen yet stays, since it stops that holder.
func (c *Client) Delete(ctx context.Context, id execution.ID) error {
	if err := id.Validate(); err != nil {
		return err
	}
	err := c.beginDeletion(ctx, id)
	if err == nil {
		_, err = c.finishDeletion(ctx, id)
	}
	if err != nil {
		return fmt.Errorf("delete %q: %w", string(id), err)
	}
	return nil
}

// SweepPurging finishes the deletions that somebody has begun and not finished, and
// returns how many it found. One that fails does not keep it from the others.
func (c *Client) SweepPurging(ctx context.Context) (finished int, err error) {
	span := c.space.Purgings()
	get := etcd.Get{Key: span.Start, End: span.End, Limit: livePage, KeysOnly: true}
	for {
		res, _, getErr := c.store.Get(ctx, get)
		if getErr != nil {
			return finished, errors.Join(err, fmt.Errorf("scan for begun deletions: %w", getErr))
		}
		for _, kv := range res.KVs {
			k, parseErr := c.space.Parse(kv.Key)
			if parseErr != nil {
				c.bad(kv.Key, parseErr)
				continue
			}
			there, finishErr := c.finishDeletion(ctx, execution.ID(k.ID))
			if finishErr != nil {
				err = errors.Join(err, fmt.Errorf("finish the deletion of %q: %w", k.ID, finishErr))
			} else if there {
				finished++
				c.log.Info("a deletion that was begun is finished", zap.String("execution", k.ID))
			}
		}
		if !res.More {
			return finished, err
		}
		get.Key = res.KVs[len(res.KVs)-1].Key + "\x00"
	}
}

// A deletion is one that was begun, as one transaction saw it.
type deletion struct {
	id  string
	rec *record.Purging // nil: none was begun
	rev int64           // mod-revision of purging

	state    *record.State // nil: there is no such execution
	stateRev int64
	created  int64
}

// deletionGets are the operations whose results parseDeletion reads.
func (c *Client) deletionGets(id execution.ID) []etcd.Op {
	return []etcd.Op{etcd.Get{Key: c.space.State(string(id))}, etcd.Get{Key: c.space.Purging(string(id))}, etcd.Get{Key: c.space.Epoch()}}
}

func (c *Client) parseDeletion(id execution.ID, rs []etcd.Result) (d deletion, err error) {
	d.id = string(id)
	if kv, there := rs[0].One(); there {
		if d.state, err = record.DecodeState(kv.Value); err != nil {
			return d, fmt.Errorf("key %q: %w", kv.Key, err)
		}
		d.stateRev, d.created = kv.Modified, kv.Created
	}
	if kv, there := rs[1].One(); there {
		if d.rec, err = record.DecodePurging(kv.Value); err != nil {
			return d, fmt.Errorf("key %q: %w", kv.Key, err)
		}
		d.rev = kv.Modified
	}
	c.sawEpoch(rs[2])
	return d, nil
}

func (c *Client) lookForDeletion(ctx context.Context, id execution.ID) (deletion, error) {
	res, err := c.store.Txn(ctx, &etcd.Txn{Then: c.deletionGets(id)})
	if err != nil {
		return deletion{}, err
	}
	return c.parseDeletion(id, res.Results)
}

// beginDeletion puts the purging record, unless it is there, or another call has
// deleted meanwhile what this one has seen.
func (c *Client) beginDeletion(ctx context.Context, id execution.ID) error {
	d, err := c.lookForDeletion(ctx, id)
	for seen := d.created; ; {
		switch {
		case err != nil:
			return err
		case d.rec != nil, seen != 0 && d.created != seen:
			return nil
		case d.state == nil:
			return execution.ErrNotFound
		case !d.state.Terminal():
			return fmt.Errorf("%w: cancel it first", execution.ErrNotTerminal)
		}
		rec := record.Purging{Started: millis(c.now()), Incarnation: d.created}
		res, _, sendErr := fencing.Send(ctx, c.store, &etcd.Txn{
			If:   []etcd.Compare{etcd.ModIs(c.space.State(d.id), d.stateRev), etcd.Absent(c.space.Purging(d.id)), c.inEpoch()},
			Then: []etcd.Op{etcd.Put{Key: c.space.Purging(d.id), Value: rec.Encode()}},
			Else: c.deletionGets(id),
		})
		if sendErr != nil || res.Succeeded {
			return sendErr
		}
		d, err = c.parseDeletion(id, res.Results)
	}
}

// finishDeletion does what is left of a deletion that was begun. It returns whether
// there was one.
func (c *Client) finishDeletion(ctx context.Context, id execution.ID) (there bool, err error) {
	for {
		d, err := c.lookForDeletion(ctx, id)
		if err != nil || d.rec == nil {
			return there, err
		}
		there = true
		if d.state != nil && (!d.state.Terminal() || d.created != d.rec.Incarnation) {
			return there, fmt.Errorf("the purging record is for incarnation %d and the state, %s, for %d; run the audit", d.rec.Incarnation, d.state.Base, d.created)
		}
		if done, err := c.purge(ctx, &d); done || err != nil {
			return there, err
		}
	}
}

// purge deletes the execution piece by piece. It returns false if somebody has
// finished that meanwhile, or the namespace was restored from a backup: look again.
func (c *Client) purge(ctx context.Context, d *deletion) (done bool, err error) {
	goesOn := []etcd.Compare{etcd.ModIs(c.space.Purging(d.id), d.rev), c.inEpoch()}
	pages := append(c.runPages(d.id, d.rec.Incarnation, keyspace.MaxCounter), c.eventPages(d.id, d.rec.Incarnation)...)
	if there, err := c.erase(ctx, pages, goesOn...); err != nil || !there {
		return false, err
	}
	params := c.space.ParamsOf(d.id, d.rec.Incarnation)
	ops := []etcd.Op{
		etcd.Delete{Key: c.space.Spec(d.id)},
		etcd.Delete{Key: c.space.State(d.id)},
		etcd.Delete{Key: c.space.Purging(d.id)},
		etcd.Delete{Key: params.Start, End: params.End},
	}
	if d.state != nil {
		ops = append(ops, etcd.Delete{Key: c.space.Done(time.UnixMilli(d.state.Ended), d.id)})
	}
	res, _, err := fencing.Send(ctx, c.store, &etcd.Txn{
		If: append(goesOn, etcd.ModIs(c.space.State(d.id), d.stateRev)), Then: ops,
	})
	if err != nil {
		return false, err
	}
	return res.Succeeded, nil
}
