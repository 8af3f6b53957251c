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
)

const (
	// wakeTimeout bounds one wake: one that takes longer has failed for now.
	wakeTimeout = 5 * time.Second

	// wakers is how many wakes of one store are asked for at once.
	wakers = 16
)

// drainNow drains, and says whether it could. What fails is left to be drained later: a
// commit stands.
func (c *Client) drainNow(ctx context.Context, key execution.StoreID) bool {
	err := c.Drain(ctx, key)
	if err != nil && ctx.Err() == nil {
		c.cfg.Logger.Warn("wakes are owed still; a worker, or the next change, will deliver them",
			zap.String("store", key.Name), zap.String("id", key.ID), zap.Error(err))
	}
	return err == nil
}

// Drain delivers the wakes that a store owes, and tells its waiters of its changes.
// A wake that fails stays owed, for the next drain, and hinders no other. It may be
// called by many at once, and again after a crash at any point: a wake may then come
// twice.
func (c *Client) Drain(ctx context.Context, key execution.StoreID) error {
	if err := errors.Join(c.deliver(ctx, key), c.tell(ctx, key)); err != nil {
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
		if err := p.add(ctx, etcd.ModIs(n.key, n.rev), etcd.Delete{Key: n.key}); err != nil {
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
// changed, and stays as it is: a later release may have written it. (Another runtime's
// can't be woken without its event, and only stays.)
type concern struct {
	kv         etcd.KV
	store      keyspace.StoreKey
	call       keyspace.CallKey
	rec        *record.Waiter
	unreadable bool
	failed     bool
}

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
	var asked []*concern
	var steps []execution.StepID
	for _, w := range concerned {
		if !w.rec.Pulled {
			asked, steps = append(asked, w), append(steps, stepOf(w.call))
		}
	}
	failed, err := c.wakeAll(ctx, steps)
	if err != nil {
		return err
	}
	for i, w := range asked {
		w.failed = failed[i]
	}
	p := piece{client: c}
	for _, w := range concerned {
		var ops []etcd.Op
		if !w.unreadable {
			ops = append(ops, etcd.Delete{Key: w.kv.Key})
		}
		if w.rec.Pulled || w.failed {
			ops = append(ops, c.owe(w.store, w.call, w.rec))
		}
		if len(ops) == 0 {
			continue
		}
		if err := p.add(ctx, etcd.ModIs(w.kv.Key, w.kv.Modified), ops...); err != nil {
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
	switch {
	case err != nil && k.Call.Incarnation == 0:
		return nil, err
	case err != nil:
		w.rec, w.unreadable = &record.Waiter{}, true
		return w, err
	}
	for i := range notices {
		if notices[i].concerns(w.rec, reads) {
			return w, nil
		}
	}
	return nil, nil //nolint:nilnil // it does not concern it
}

// wakeAll asks for several deliveries at once, so that one that hangs holds up no other,
// and says which failed. An error says that ctx has ended.
func (c *Client) wakeAll(ctx context.Context, steps []execution.StepID) (failed []bool, err error) {
	failed = make([]bool, len(steps))
	var group errgroup.Group
	group.SetLimit(wakers)
	for i, step := range steps {
		group.Go(func() error {
			failed[i] = c.wake(ctx, step) != nil
			return ctx.Err()
		})
	}
	return failed, group.Wait()
}

// wake asks for a delivery. Nobody to wake is as good as somebody who is awake.
func (c *Client) wake(ctx context.Context, step execution.StepID) error {
	bounded, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	err := c.cfg.Wake(bounded, step)
	switch {
	case err == nil, errors.Is(err, execution.ErrNotFound):
		return nil
	case ctx.Err() != nil:
		return err // it is given up, and has not failed
	}
	c.cfg.Logger.Warn("wake failed; it stays owed", zap.String("execution", string(step.Execution)), zap.String("step", step.Step), zap.Error(err))
	c.cfg.Observer.Tell(execution.Event{Kind: execution.EventWakeFailed, ID: step.Execution, Operation: step.Step, Err: err})
	return err
}

// deliver delivers the wakes that are owed.
func (c *Client) deliver(ctx context.Context, key execution.StoreID) error {
	span := c.cfg.Space.OwedOf(storeKey(key))
	return c.pages(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: pageRecords}, func(kvs []etcd.KV) error {
		return c.deliverPage(ctx, kvs)
	})
}

func (c *Client) deliverPage(ctx context.Context, kvs []etcd.KV) error {
	var readable []etcd.KV
	var steps []execution.StepID
	for _, kv := range kvs {
		rec, err := record.DecodeOwed(kv.Value)
		if err != nil {
			c.bad(kv.Key, err)
			continue
		}
		readable = append(readable, kv)
		steps = append(steps, execution.StepID{Execution: execution.ID(rec.Execution), Incarnation: rec.Incarnation, Run: rec.Run, Step: rec.Step})
	}
	failed, err := c.wakeAll(ctx, steps)
	if err != nil {
		return err
	}
	p := piece{client: c}
	for i, kv := range readable {
		if failed[i] {
			continue
		}
		if err := p.add(ctx, etcd.ModIs(kv.Key, kv.Modified), etcd.Delete{Key: kv.Key}); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}

// bad tells of a record that can't be read, which is left as it is.
func (c *Client) bad(key string, err error) {
	c.cfg.Logger.Error("record can't be read", zap.String("key", key), zap.Error(err))
	c.cfg.Observer.Tell(execution.Event{Kind: execution.EventBadRecord, Operation: key, Err: err})
}
