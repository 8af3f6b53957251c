package simulate

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/pkg/dispatch"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/heap"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// A node is a machine that runs one process after the other, each under a name of
// its own.
type node struct {
	world *world
	name  string
	lives int // processes so far

	client string             // the running process's name; empty: none runs
	stop   context.CancelFunc // asks it to drain
	done   chan struct{}      // closed when it has ended

	mu   sync.Mutex
	skew time.Duration // of its wall clock
}

func (n *node) now() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Add(n.skew)
}

func (n *node) step(skew time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.skew = skew
}

// own varies an interval a little, from process to process: see span.
func (w *world) own(client string, interval time.Duration) time.Duration {
	return interval + time.Duration(w.draw(5000, client))*time.Microsecond
}

// jitter keeps pauses away from one another without drawing anything.
func jitter(bound time.Duration) time.Duration { return bound / 2 }

// engine connects to etcd under a client name.
func (w *world) engine(ctx context.Context, client string, now func() time.Time) (*leasing.Client, *heap.Client, error) {
	store := w.store(client)
	executions, err := leasing.New(ctx, leasing.Config{
		Store: store, Space: w.space, Observer: w.observe, Name: client, Jitter: jitter, Now: now,
		Delay: leasing.DelayPolicy{Base: delayBase, Cap: delayCap},
	})
	if err != nil {
		return nil, nil, err
	}
	steps, err := heap.New(heap.Config{Store: store, Space: w.space, Observer: w.observe})
	return executions, steps, err
}

// start begins a new process, if none runs.
func (n *node) start() {
	if n.client != "" {
		return
	}
	n.lives++
	n.client = n.name + "." + string(rune('a'+n.lives%26)) + string(rune('a'+n.lives/26))
	ctx, stop := context.WithCancel(n.world.ctx)
	n.stop, n.done = stop, make(chan struct{})
	client, done := n.client, n.done
	n.world.actors.Go(func() {
		defer close(done)
		n.world.complain("run "+client, n.run(ctx, client))
	})
}

// run is the process: a dispatcher that works like a real one.
func (n *node) run(ctx context.Context, client string) error {
	w := n.world
	executions, steps, err := w.engine(ctx, client, n.now)
	if err != nil {
		return expected(err)
	}
	holder, err := executions.NewHolder(leasing.HolderConfig{
		Name: client, Duration: leaseDuration, Queues: []string{workflow}, Workflows: []string{workflow}, ScanInterval: w.own(client, scanInterval),
	})
	if err != nil {
		return err
	}
	d, err := dispatch.New(dispatch.Config{
		Holder: holder, Concurrency: 3, RenewEvery: w.own(client, renewEvery), DrainTimeout: drainTimeout,
		Jitter: jitter, Now: n.now, Observer: w.observe,
		Handler: func(ctx context.Context, d execution.Delivery, drain <-chan struct{}) dispatch.Reply {
			w.actors.Add(1) // it may outlive a drain
			defer w.actors.Done()
			p := &play{world: w, executions: executions, steps: steps, delivery: d}
			return p.deliver(ctx, drain)
		},
	})
	if err != nil {
		return err
	}
	return expected(d.Run(ctx))
}

// kill ends the process as a crash does: nothing of what it calls from now on
// reaches etcd.
func (n *node) kill() {
	n.world.gate.kill(n.client)
	n.stop()
	n.client = ""
}

// drain asks the process to stop; it may take its time.
func (n *node) drain() {
	n.stop()
	n.client = ""
}
