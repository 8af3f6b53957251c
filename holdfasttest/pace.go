package holdfasttest

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
)

// An idle worker renews its etcd lease every few seconds, so that three days of
// waiting would be a hundred thousand calls. So idle workers rest: they drain once
// nothing was claimed, or due, for some time, and run again before something is.
const (
	idleAfter = 10*time.Second + 11*time.Microsecond // at a time at which nothing of a test's happens
	runBefore = time.Second
)

// A pace says when workers run.
type pace struct {
	store etcd.Store
	space keyspace.Space
	done  chan struct{} // closed when follow has returned

	mu     sync.Mutex
	period context.Context //nolint:containedctx // ends when the workers come to rest; nil: they rest
	rest   context.CancelFunc
	begun  chan struct{} // closed when they run again
}

func newPace(store etcd.Store, space keyspace.Space) *pace {
	p := &pace{store: store, space: space, done: make(chan struct{}), begun: make(chan struct{})}
	p.run()
	return p
}

// follow keeps the pace until ctx ends.
func (p *pace) follow(ctx context.Context) {
	defer close(p.done)
	span := p.space.All()
	changes := p.store.Watch(ctx, span.Start, span.End, 0)
	next := time.NewTimer(idleAfter)
	defer next.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case b := <-changes:
			if p.matters(b) {
				p.run()
				next.Reset(idleAfter)
			}
		case <-next.C:
			p.turn(ctx, next)
		}
	}
}

// turn lets the workers rest if there is nothing to do, and run otherwise.
func (p *pace) turn(ctx context.Context, next *time.Timer) {
	due, found := p.due(ctx)
	switch wait := time.Until(due.Add(-runBefore)); {
	case !found:
		p.halt() // until something changes
	case wait > idleAfter:
		p.halt()
		next.Reset(wait)
	default:
		p.run()
		next.Reset(idleAfter)
	}
}

// due returns when there is something to do next, if ever. What is claimed is due
// all the time: it may expire.
func (p *pace) due(ctx context.Context) (first time.Time, found bool) {
	lives, dues := p.space.Lives(), p.space.AllDues()
	res, err := p.store.Txn(ctx, &etcd.Txn{Then: []etcd.Op{
		etcd.Get{Key: lives.Start, End: lives.End, KeysOnly: true, Limit: 1},
		etcd.Get{Key: dues.Start, End: dues.End, KeysOnly: true},
	}})
	if err != nil || len(res.Results[0].KVs) > 0 {
		return time.Now(), true
	}
	for _, kv := range res.Results[1].KVs {
		if k, err := p.space.Parse(kv.Key); err == nil && (!found || k.Due.At.Before(first)) {
			first, found = k.Due.At, true
		}
	}
	return first, found
}

// matters says whether a change is more than that of a worker which begins or rests.
func (p *pace) matters(b etcd.Batch) bool {
	for _, e := range b.Events {
		if k, err := p.space.Parse(e.KV.Key); err != nil || k.Kind != keyspace.KindProc && k.Kind != keyspace.KindEpoch {
			return true
		}
	}
	return false
}

func (p *pace) run() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.period == nil {
		p.period, p.rest = context.WithCancel(context.Background())
		close(p.begun)
	}
}

func (p *pace) halt() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.period != nil {
		p.rest()
		p.period, p.begun = nil, make(chan struct{})
	}
}

// current returns the period in which the workers run; nil: they rest.
func (p *pace) current() context.Context {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.period
}

// await waits until the workers run, or returns false when ctx has ended.
func (p *pace) await(ctx context.Context) bool {
	for ctx.Err() == nil {
		p.mu.Lock()
		runs, begun := p.period != nil, p.begun
		p.mu.Unlock()
		if runs {
			return true
		}
		await(ctx, begun)
	}
	return false
}
