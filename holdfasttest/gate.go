package holdfasttest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
)

// After a thaw what the worker wanted to write goes first, at a time at which no
// timer of anybody's fires; what it asks comes later, renewals too. So it is etcd
// that refuses a late write, not the worker that has learned of its loss.
const (
	writesAfter = 7 * time.Microsecond
	restAfter   = time.Millisecond
)

var (
	// errCrashed is definite, so that the goroutines of a crashed worker end soon.
	errCrashed = fmt.Errorf("%w: the worker has crashed", etcd.ErrPermission)
	errGone    = errors.New("the caller has given up")
)

// A gate is a worker's way to etcd.
type gate struct {
	space   keyspace.Space
	latency time.Duration     // of each call
	wrote   func(step string) // told of each step record that was made, before its worker is

	crashed context.Context //nolint:containedctx // ends with the worker's life
	crash   context.CancelFunc

	mu     sync.Mutex
	freeze *freeze // the last one; nil: none
}

// A freeze ends by its channels being closed, first that of the writes.
type freeze struct {
	writes, rest chan struct{}
	thawing      bool
}

func newGate(space keyspace.Space, latency time.Duration, wrote func(string)) *gate {
	g := &gate{space: space, latency: latency, wrote: wrote}
	g.crashed, g.crash = context.WithCancel(context.Background())
	return g
}

// pass is the worker's memetcd.Gate.
func (g *gate) pass(ctx context.Context, call memetcd.Call) error {
	if call.Phase == memetcd.Before {
		g.travel(ctx)
	} else if !g.isCrashed() {
		g.notice(call)
	}
	return g.stand(ctx, call.Operation == memetcd.Txn, call.Gone)
}

// travel takes the call's latency.
func (g *gate) travel(ctx context.Context) {
	if g.latency == 0 {
		return
	}
	t := time.NewTimer(g.latency)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-g.crashed.Done():
	}
}

// notice tells of the step that the call has recorded, if any.
func (g *gate) notice(call memetcd.Call) {
	if call.Operation != memetcd.Txn || call.Err != nil || !call.Result.Succeeded {
		return
	}
	for _, op := range call.Txn.Then {
		if put, ok := op.(etcd.Put); ok {
			if k, err := g.space.Parse(put.Key); err == nil && k.Kind == keyspace.KindStep {
				g.wrote(k.Step.Key)
			}
		}
	}
}

// stand returns once the worker is not frozen, or has crashed. What its caller gives
// up meanwhile is never sent.
func (g *gate) stand(ctx context.Context, write bool, gone <-chan struct{}) error {
	for {
		if g.isCrashed() {
			return errCrashed
		}
		thawed := g.frozen(write)
		if thawed == nil {
			return nil
		}
		select {
		case <-thawed:
		case <-g.crashed.Done():
		case <-ctx.Done():
			return ctx.Err()
		case <-gone:
			return errGone
		}
	}
}

// pause is stand for what is no call: the worker's goroutines between two calls.
func (g *gate) pause() error { return g.stand(context.Background(), true, nil) }

// frozen returns what closes when calls go again; nil: they do.
func (g *gate) frozen(write bool) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.freeze == nil {
		return nil
	}
	thawed := g.freeze.rest
	if write {
		thawed = g.freeze.writes
	}
	select {
	case <-thawed:
		return nil
	default:
		return thawed
	}
}

func (g *gate) isCrashed() bool { return g.crashed.Err() != nil }

// isFrozen says whether the last freeze has not been ended by a thaw.
func (g *gate) isFrozen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.freeze != nil && !g.freeze.thawing
}

func (g *gate) hold() {
	if g.isFrozen() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.freeze = &freeze{writes: make(chan struct{}), rest: make(chan struct{})}
}

func (g *gate) thaw() {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.freeze
	if f == nil || f.thawing {
		return
	}
	f.thawing = true
	time.AfterFunc(writesAfter, func() { close(f.writes) })
	time.AfterFunc(restAfter, func() { close(f.rest) })
}
