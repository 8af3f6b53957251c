package stores

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

const (
	// wakeTimeout bounds one wake: one that takes longer has failed for now.
	wakeTimeout = 5 * time.Second

	// wakers is how many wakes of one store are asked for at once.
	wakers = 16

	// A piece is one transaction of a drain: at most so many waiters, of which each
	// takes one operation of etcd's 128 and two more inside it; and, by what the events
	// of pulled ones weigh, at most so many bytes.
	pieceWaiters = 40
	pieceBytes   = 512 << 10
)

// drainNow drains after a commit. What fails is left to be drained later: the commit
// stands.
func (c *Client) drainNow(ctx context.Context, key execution.StoreID) {
	if err := c.Drain(ctx, key); err != nil {
		c.cfg.Logger.Warn("wakes are owed still; a worker, or the next change, will deliver them",
			zap.String("store", key.Name), zap.String("id", key.ID), zap.Error(err))
	}
}

// Drain tells a store's waiters of its changes, and delivers the wakes that are owed.
// A wake that fails stays owed and hinders no other. It may be called by many at once,
// and again after a crash at any point: a wake may then come twice.
func (c *Client) Drain(ctx context.Context, key execution.StoreID) error {
	err := c.tell(ctx, key)
	if err == nil {
		err = c.deliver(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("wake the waiters of %s: %w", describe(key), err)
	}
	return nil
}

// A notice is a change that is to be told.
type notice struct {
	key   string
	rev   int64
	rec   *record.Change
	paths Paths
}

// tell wakes the waiters that the store's changes concern, and then forgets the
// changes.
func (c *Client) tell(ctx context.Context, key execution.StoreID) error {
	span := c.cfg.Space.ChangesOf(storeKey(key))
	var notices []notice
	err := c.pages(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: pageRecords}, func(kvs []etcd.KV) error {
		for _, kv := range kvs {
			notices = append(notices, c.notification(kv))
		}
		return nil
	})
	if err != nil || len(notices) == 0 {
		return err
	}
	span = c.cfg.Space.WaitersOf(storeKey(key))
	err = c.pages(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: pageRecords}, func(kvs []etcd.KV) error {
		return c.wakeConcerned(ctx, kvs, notices)
	})
	if err != nil {
		return err
	}
	p := piece{client: c}
	for _, n := range notices {
		p.add(etcd.ModIs(n.key, n.rev), 0, etcd.Delete{Key: n.key})
		if err := p.flushFull(ctx); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}

// notification reads a change. One that can't be read is taken for a change of
// everything, of any instance: nobody is to be forgotten.
func (c *Client) notification(kv etcd.KV) notice {
	n := notice{key: kv.Key, rev: kv.Modified}
	var err error
	if n.rec, err = record.DecodeChange(kv.Value); err == nil {
		n.paths, err = ParsePaths(n.rec.Paths)
	}
	if err != nil {
		c.bad(kv.Key, err)
		n.rec, n.paths = nil, Paths{Path{}}
	}
	return n
}

// concerns says whether the change is one that the waiter has not seen and that
// touches what it has read.
func (n *notice) concerns(w *record.Waiter, reads Paths) bool {
	if n.rec == nil {
		return true
	}
	return n.rec.Instance == w.Instance && n.rec.Version > w.Since && Intersect(reads, n.paths)
}

// A concern is a waiter that is to be woken. An unreadable one is woken whatever has
// changed, and stays as it is: a later release may have written it.
type concern struct {
	kv         etcd.KV
	store      keyspace.StoreKey
	call       keyspace.CallKey
	rec        *record.Waiter
	unreadable bool
	failed     bool
}

func (w *concern) step() execution.StepID { return stepOf(w.call) }

func stepOf(call keyspace.CallKey) execution.StepID {
	return execution.StepID{Execution: execution.ID(call.ID), Incarnation: call.Incarnation, Run: call.Run, Step: call.Step}
}

// wakeConcerned wakes those of a page of waiters whom a change concerns. A registration
// that took the place of one of these meanwhile is not touched.
func (c *Client) wakeConcerned(ctx context.Context, kvs []etcd.KV, notices []notice) error {
	var concerned []*concern
	for _, kv := range kvs {
		w, err := c.concern(kv, notices)
		if err != nil {
			c.bad(kv.Key, err)
		}
		if w != nil {
			concerned = append(concerned, w)
		}
	}
	group, bounded := errgroup.WithContext(ctx)
	group.SetLimit(wakers)
	for _, w := range concerned {
		if !w.rec.Pulled {
			group.Go(func() error {
				w.failed = c.wake(bounded, w.step()) != nil
				return ctx.Err()
			})
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	p := piece{client: c}
	for _, w := range concerned {
		if w.unreadable {
			continue
		}
		ops := []etcd.Op{etcd.Delete{Key: w.kv.Key}}
		if w.rec.Pulled || w.failed {
			ops = append(ops, c.owe(w.store, w.call, w.rec))
		}
		p.add(etcd.ModIs(w.kv.Key, w.kv.Modified), len(w.rec.Event), ops...)
		if err := p.flushFull(ctx); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}

// concern returns the waiter if a change concerns it. The error is of a record that
// can't be read.
func (c *Client) concern(kv etcd.KV, notices []notice) (*concern, error) {
	k, err := c.cfg.Space.Parse(kv.Key)
	if err != nil {
		return nil, err
	}
	w := &concern{kv: kv, store: k.Store, call: k.Call}
	var reads Paths
	if w.rec, err = record.DecodeWaiter(kv.Value); err == nil {
		reads, err = ParsePaths(w.rec.Paths)
	}
	if err != nil {
		w.rec, w.unreadable = &record.Waiter{}, true
		return w, err
	}
	for i := range notices {
		if notices[i].concerns(w.rec, reads) {
			return w, nil
		}
	}
	return nil, nil
}

// wake asks for a delivery. Nobody to wake is as good as somebody who is awake.
func (c *Client) wake(ctx context.Context, step execution.StepID) error {
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	err := c.cfg.Wake(ctx, step)
	if err == nil || errors.Is(err, execution.ErrNotFound) {
		return nil
	}
	c.cfg.Logger.Warn("wake failed; it stays owed", zap.String("execution", string(step.Execution)), zap.String("step", step.Step), zap.Error(err))
	c.cfg.Observer.Tell(execution.Event{Kind: execution.EventWakeFailed, ID: step.Execution, Operation: step.Step, Err: err})
	return err
}

// deliver delivers the wakes that are owed.
func (c *Client) deliver(ctx context.Context, key execution.StoreID) error {
	span := c.cfg.Space.OwedOf(storeKey(key))
	p := piece{client: c}
	err := c.pages(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: pageRecords}, func(kvs []etcd.KV) error {
		for _, kv := range kvs {
			rec, err := record.DecodeOwed(kv.Value)
			if err != nil {
				c.bad(kv.Key, err)
				continue
			}
			step := execution.StepID{Execution: execution.ID(rec.Execution), Incarnation: rec.Incarnation, Run: rec.Run, Step: rec.Step}
			if c.wake(ctx, step) != nil {
				continue
			}
			p.add(etcd.ModIs(kv.Key, kv.Modified), 0, etcd.Delete{Key: kv.Key})
			if err := p.flushFull(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, p.flush(ctx))
}

// bad tells of a record that can't be read, which is left as it is.
func (c *Client) bad(key string, err error) {
	c.cfg.Logger.Error("record can't be read", zap.String("key", key), zap.Error(err))
	c.cfg.Observer.Tell(execution.Event{Kind: execution.EventBadRecord, Operation: key, Err: err})
}

// A piece collects small transactions, each with its own compare, into one: those
// whose compare fails change nothing and hinder no other.
type piece struct {
	client *Client
	txns   []etcd.Op
	bytes  int
}

func (p *piece) add(compare etcd.Compare, bytes int, ops ...etcd.Op) {
	p.txns = append(p.txns, &etcd.Txn{If: []etcd.Compare{compare}, Then: ops})
	p.bytes += bytes
}

func (p *piece) flushFull(ctx context.Context) error {
	if len(p.txns) < pieceWaiters && p.bytes < pieceBytes {
		return nil
	}
	return p.flush(ctx)
}

func (p *piece) flush(ctx context.Context) error {
	if len(p.txns) == 0 {
		return nil
	}
	_, _, err := fencing.Send(ctx, p.client.cfg.Store, &etcd.Txn{Then: p.txns})
	p.txns, p.bytes = nil, 0
	return err
}
