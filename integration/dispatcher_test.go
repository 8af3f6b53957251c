package integration_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/integration/conformance"
	"github.com/holdfast-io/holdfast/pkg/dispatch"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// suiteWorkflow is the suite's only workflow.
const suiteWorkflow = "conformance"

// StartDispatcher runs a dispatcher until it is stopped or the test ends.
func (h *harness) StartDispatcher(cfg conformance.DispatcherConfig) conformance.Dispatcher {
	h.t.Helper()
	d, err := startDispatcher(h.newClient(h.store), cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(d.Stop)
	return d
}

// A runner is a dispatcher that runs, and that can crash.
type runner struct {
	holder *mortal
	cancel context.CancelFunc
	done   chan struct{}
}

func startDispatcher(c *client, cfg conformance.DispatcherConfig) (*runner, error) {
	if cfg.LeaseDuration == 0 {
		cfg.LeaseDuration = leaseDuration
	}
	if len(cfg.Workflows) == 0 {
		cfg.Workflows = []string{suiteWorkflow}
	}
	holder, err := c.NewHolder(leasing.HolderConfig{
		Name: cfg.Name, Duration: cfg.LeaseDuration, Queues: cfg.Workflows, Workflows: cfg.Workflows,
	})
	if err != nil {
		return nil, err
	}
	m := newMortal(holder)
	d, err := dispatch.New(dispatch.Config{Holder: m, Concurrency: cfg.Concurrency, Handler: m.handler(cfg.Handler)})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &runner{holder: m, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		_ = d.Run(ctx) // returns after the drain
	}()
	return r, nil
}

// Stop drains.
func (r *runner) Stop() {
	r.cancel()
	<-r.done
}

// Kill crashes, and waits until nothing runs any more.
func (r *runner) Kill() {
	r.holder.kill()
	r.Stop()
}

// A mortal holder can crash: from then on nothing that its dispatcher asks for
// reaches etcd.
type mortal struct {
	dispatch.Holder

	// mu is held for reading while a call may reach etcd.
	mu    sync.RWMutex
	alive context.Context
	die   context.CancelFunc
}

var errDead = errors.New("this holder has crashed")

func newMortal(h dispatch.Holder) *mortal {
	m := &mortal{Holder: h}
	m.alive, m.die = context.WithCancel(context.Background())
	return m
}

// kill returns when the calls that were under way have come back.
func (m *mortal) kill() {
	m.die()
	m.mu.Lock()
	defer m.mu.Unlock()
}

// while calls do unless the holder has crashed, with a context that ends when it does.
func (m *mortal) while(ctx context.Context, do func(context.Context) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.alive.Err() != nil {
		return errDead
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.alive, cancel)()
	return do(ctx)
}

// handler passes on a context that ends with the holder.
func (m *mortal) handler(h conformance.Handler) dispatch.Handler {
	return func(ctx context.Context, d execution.Delivery, drain <-chan struct{}) dispatch.Reply {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(m.alive, func() { cancel(errDead) })()
		return dispatch.Reply(h(ctx, d, drain))
	}
}

func (m *mortal) Claim(ctx context.Context, limit int) (ds []execution.Delivery, next time.Time, err error) {
	err = m.while(ctx, func(ctx context.Context) error {
		ds, next, err = m.Holder.Claim(ctx, limit)
		return err
	})
	return ds, next, err
}

func (m *mortal) KeepAlive(ctx context.Context) (until time.Time, lost []*execution.LostError, err error) {
	err = m.while(ctx, func(ctx context.Context) error {
		until, lost, err = m.Holder.KeepAlive(ctx)
		return err
	})
	return until, lost, err
}

// Acknowledge, of a crashed holder, is nothing that anybody hears of.
func (m *mortal) Acknowledge(ctx context.Context, l execution.Lease, o execution.Outcome) error {
	return silent(m.while(ctx, func(ctx context.Context) error { return m.Holder.Acknowledge(ctx, l, o) }))
}

func (m *mortal) Release(ctx context.Context, l execution.Lease, why string) error {
	return silent(m.while(ctx, func(ctx context.Context) error { return m.Holder.Release(ctx, l, why) }))
}

func silent(err error) error {
	if errors.Is(err, errDead) {
		return nil
	}
	return err
}

func (m *mortal) Watch(ctx context.Context, due func(time.Time), evicted func(*execution.LostError), renew func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.alive, cancel)()
	m.Holder.Watch(ctx, due, evicted, renew)
}

// Close ends the etcd lease, which a crash does not.
func (m *mortal) Close(ctx context.Context) {
	_ = m.while(ctx, func(ctx context.Context) error { m.Holder.Close(ctx); return nil })
}
