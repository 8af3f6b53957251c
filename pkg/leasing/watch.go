package leasing

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Watch tells what a dispatcher must act on, until ctx ends: due when an execution
// of the holder's queues is, or becomes, due at a time; evicted when an operator
// took a delivery away; renew when the etcd lease is gone and KeepAlive should be
// called at once. Calls may coalesce or come too often, and must not block.
//
// Meanwhile it makes executions of crashed processes claimable, and releases claims
// of this process that nobody runs: by watches, and by a scan now and then.
func (h *Holder) Watch(ctx context.Context, due func(at time.Time), evicted func(*execution.LostError), renew func()) {
	c := h.client
	g, ctx := errgroup.WithContext(ctx)
	run := func(f func(context.Context)) { g.Go(func() error { f(ctx); return nil }) }
	for _, q := range h.cfg.Queues {
		run(func(ctx context.Context) { c.follow(ctx, h.dueFollower(q, due)) })
	}
	run(func(ctx context.Context) { c.follow(ctx, h.procFollower(renew)) })
	run(func(ctx context.Context) { h.followEvictions(ctx, evicted) })
	_ = g.Wait() // none of them fails
}

func (h *Holder) dueFollower(queue string, due func(time.Time)) follower {
	return follower{
		what: "due", span: h.client.space.Dues(queue),
		resync: func(ctx context.Context) (int64, error) {
			rev, err := h.client.revision(ctx)
			due(h.client.now()) // whatever came before the watch is found by a claim
			return rev, err
		},
		event: func(_ context.Context, e etcd.Event) {
			if e.Deleted {
				return
			}
			if k, err := h.client.space.Parse(e.KV.Key); err == nil {
				due(k.Due.At)
			}
		},
	}
}

func (h *Holder) procFollower(renew func()) follower {
	return follower{
		what: "proc", span: h.client.space.Procs(),
		resync: func(ctx context.Context) (int64, error) {
			_, rev, err := h.client.reapAll(ctx)
			if err == nil {
				err = h.missed(ctx, renew)
			}
			if err == nil {
				h.sweepPurging(ctx)
			}
			return rev, err
		},
		scan: h.scan, interval: h.cfg.ScanInterval,
		event: func(ctx context.Context, e etcd.Event) {
			k, err := h.client.space.Parse(e.KV.Key)
			if err != nil || !e.Deleted {
				return
			}
			if h.is(k.Proc) {
				renew()
				return
			}
			_ = h.client.reapProc(ctx, k.Proc) // failing that, a scan does
		},
	}
}

// scan looks for what the watches may have missed: expired leases, claims of this
// process that nobody runs, evictions of processes that are gone; and for deletions
// that nobody finishes.
func (h *Holder) scan(ctx context.Context) error {
	held, _, err := h.client.reapAll(ctx)
	if err != nil {
		return err
	}
	if err := h.sweep(ctx, held); err != nil {
		return err
	}
	if err := h.client.dropOldEvictions(ctx); err != nil {
		return err
	}
	_, err = h.client.SweepPurging(ctx)
	return err
}

// missed calls renew if the holder's own etcd lease ended before the watch began.
func (h *Holder) missed(ctx context.Context, renew func()) error {
	h.mu.Lock()
	p := h.proc
	h.mu.Unlock()
	if p == nil {
		return nil
	}
	procs, err := h.client.procs(ctx)
	if err == nil && !slices.Contains(procs, p.name) {
		renew()
	}
	return err
}

func (h *Holder) is(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.proc != nil && h.proc.name == name
}

// followEvictions follows the evictions of the current process name, which changes
// with each etcd lease.
func (h *Holder) followEvictions(ctx context.Context, evicted func(*execution.LostError)) {
	for ctx.Err() == nil {
		h.mu.Lock()
		p, moved := h.proc, h.moved
		h.mu.Unlock()
		part, cancel := context.WithCancel(ctx)
		watching := make(chan struct{})
		go func() {
			defer close(watching)
			defer cancel()
			select {
			case <-moved:
			case <-part.Done():
			}
		}()
		if p != nil {
			h.client.follow(part, h.evictFollower(p.name, evicted))
		}
		<-watching
	}
}

func (h *Holder) evictFollower(proc string, evicted func(*execution.LostError)) follower {
	span := h.client.space.Evicts(proc)
	act := func(ctx context.Context, kv etcd.KV) {
		k, err := h.client.space.Parse(kv.Key)
		if err != nil {
			h.client.bad(kv.Key, err)
			return
		}
		rec, err := record.DecodeEvict(kv.Value)
		if err != nil {
			h.client.bad(kv.Key, err)
			return
		}
		lost := &execution.LostError{
			ID: execution.ID(k.ID), Operation: "evict", Carried: rec.Token, Current: execution.Token(kv.Modified),
			Reason: "taken away by an operator: " + rec.Why,
		}
		evicted(lost)
		h.client.observer.Tell(execution.Event{Kind: execution.EventEvicted, ID: lost.ID, Token: lost.Carried, Current: lost.Current, Err: lost})
		h.client.dropEviction(ctx, kv)
	}
	read := func(ctx context.Context) (int64, error) {
		res, rev, err := h.client.store.Get(ctx, etcd.Get{Key: span.Start, End: span.End})
		for _, kv := range res.KVs {
			act(ctx, kv)
		}
		return rev, err
	}
	return follower{
		what: "evict", span: span, resync: read,
		// One whose deletion has failed is acted on again.
		scan: func(ctx context.Context) error { _, err := read(ctx); return err }, interval: h.cfg.ScanInterval,
		event: func(ctx context.Context, e etcd.Event) {
			if !e.Deleted {
				act(ctx, e.KV)
			}
		},
	}
}

// dropEviction deletes an eviction that was acted on, unless a newer one took its
// place.
func (c *Client) dropEviction(ctx context.Context, kv etcd.KV) {
	_, _ = c.store.Txn(ctx, &etcd.Txn{ // failing that, a scan drops it
		If:   []etcd.Compare{etcd.ModIs(kv.Key, kv.Modified)},
		Then: []etcd.Op{etcd.Delete{Key: kv.Key}},
	})
}

// dropOldEvictions deletes the evictions of processes that are gone.
func (c *Client) dropOldEvictions(ctx context.Context) error {
	span := c.space.AllEvicts()
	get := etcd.Get{Key: span.Start, End: span.End, KeysOnly: true, Limit: livePage}
	for {
		res, _, err := c.store.Get(ctx, get)
		if err != nil || len(res.KVs) == 0 {
			return err
		}
		procs, err := c.procs(ctx) // read after the evictions: an absent one is gone for good
		if err != nil {
			return err
		}
		for _, kv := range res.KVs {
			if k, err := c.space.Parse(kv.Key); err == nil && !slices.Contains(procs, k.Proc) {
				c.dropEviction(ctx, kv)
			}
		}
		if !res.More {
			return nil
		}
		get.Key = res.KVs[len(res.KVs)-1].Key + "\x00"
	}
}
