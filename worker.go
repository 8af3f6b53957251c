package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/pkg/dispatch"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// The defaults of a [Worker].
const (
	defaultConcurrency   = 64
	defaultLeaseDuration = 30 * time.Second
	defaultRenewEvery    = 10 * time.Second
	defaultDrainTimeout  = 30 * time.Second
)

// maxWriteBound bounds the last write of a step whose delivery was cut short; it
// is less where the lease is shorter.
const maxWriteBound = 10 * time.Second

// A WorkerOption is a part of a [Worker]: a [Workflow] that it runs, or a setting.
type WorkerOption interface{ applyWorker(c *workerConfig) }

type workerConfig struct {
	definitions  []definition
	concurrency  int
	lease, renew time.Duration
	drain        time.Duration
	name         string
	named        bool
}

// A WorkerSetting is a [WorkerOption] that sets a value.
type WorkerSetting func(*workerConfig)

func (s WorkerSetting) applyWorker(c *workerConfig) { s(c) }

// Concurrency is how many deliveries the worker runs at once; default 64; at least 1.
func Concurrency(n int) WorkerSetting {
	return func(c *workerConfig) { c.concurrency = n }
}

// Lease sets how long a claim lives without being renewed, and how often it is
// renewed; default 30 s and 10 s. The duration is how long an execution waits
// when its worker has died. It is at least 1 s and rounded up to whole seconds,
// and etcd may have a longer minimum; the interval is at most half of it, so that
// one lost renewal is not a lost lease.
func Lease(duration, renewEvery time.Duration) WorkerSetting {
	return func(c *workerConfig) { c.lease, c.renew = duration, renewEvery }
}

// DrainTimeout is how long a worker that was told to stop waits for steps in
// flight before it cuts them short; default 30 s; 0: not at all.
func DrainTimeout(d time.Duration) WorkerSetting {
	return func(c *workerConfig) { c.drain = d }
}

// Name is what operators see as the holder of the worker's leases; default:
// "host/pid". It need not be unique.
func Name(holder string) WorkerSetting {
	return func(c *workerConfig) { c.name, c.named = holder, true }
}

// A Worker claims due executions of its workflows and runs them.
type Worker struct {
	client  *Client
	cfg     workerConfig
	engine  *engine
	running atomic.Bool
}

// NewWorker returns a worker that runs the given workflows, at least one, with
// the given settings. It refuses workflows with bad or equal names and settings
// that are out of range. Nothing happens before [Worker.Run].
func NewWorker(c *Client, parts ...WorkerOption) (*Worker, error) {
	cfg := workerConfig{
		concurrency: defaultConcurrency, lease: defaultLeaseDuration, renew: defaultRenewEvery,
		drain: defaultDrainTimeout,
	}
	for i, p := range parts {
		if p == nil {
			return nil, fmt.Errorf("new worker: part %d is nil", i)
		}
		p.applyWorker(&cfg)
	}
	definitions, err := cfg.index()
	if err == nil {
		err = cfg.validate()
	}
	if err == nil && c == nil {
		err = errNoClient
	}
	if err != nil {
		return nil, fmt.Errorf("new worker: %w", err)
	}
	return &Worker{client: c, cfg: cfg, engine: &engine{
		steps: c.steps, stores: c.stores, starts: c.starts, events: c.events, definitions: definitions, namespace: c.namespace,
		logger: c.logger, observer: c.observer, writeBound: min(cfg.lease, maxWriteBound),
		around: c.door.Around,
	}}, nil
}

// index checks the definitions and returns them by name.
func (c *workerConfig) index() (map[string]definition, error) {
	if len(c.definitions) == 0 {
		return nil, errors.New("no workflow is given; a worker without one can claim nothing")
	}
	byName := map[string]definition{}
	for _, d := range c.definitions {
		if err := d.check(); err != nil {
			return nil, err
		}
		if _, taken := byName[d.Name()]; taken {
			return nil, fmt.Errorf("workflow name %q is given twice", d.Name())
		}
		byName[d.Name()] = d
	}
	return byName, nil
}

func (c *workerConfig) validate() error {
	bad := func(what, value, reason string) error {
		return &execution.InvalidError{What: what, Value: value, Reason: reason}
	}
	switch {
	case c.concurrency < 1:
		return bad("concurrency", strconv.Itoa(c.concurrency), "is less than 1")
	case c.lease < time.Second || c.lease > leasing.MaxDuration:
		return bad("lease duration", c.lease.String(), "is not between 1s and "+leasing.MaxDuration.String())
	case c.renew <= 0 || c.renew > c.lease/2:
		return bad("renewal interval", c.renew.String(), "is not more than 0 and at most half the lease duration "+c.lease.String())
	case c.drain < 0:
		return bad("drain timeout", c.drain.String(), "is negative")
	}
	if c.named {
		return execution.ValidateName("holder name", c.name)
	}
	return nil
}

// Run claims and runs executions until ctx ends, then drains: deliveries go on to
// their next step boundary and are handed over, those still inside a step when
// [DrainTimeout] has passed are cut short, and nothing is counted against any. It
// returns nil when everything was ended or handed over, and an error that counts
// what was not, where etcd did not answer: that waits for its leases to expire. A
// worker runs once at a time.
func (w *Worker) Run(ctx context.Context) error {
	if !w.running.CompareAndSwap(false, true) {
		return errors.New("worker is running already")
	}
	defer w.running.Store(false)
	if w.client.closed.Load() {
		return errors.New("worker: its client is closed")
	}
	holder, err := w.client.executions.NewHolder(leasing.HolderConfig{
		Name: w.cfg.name, Duration: w.cfg.lease, Queues: w.cfg.queues(), Workflows: w.cfg.workflows(),
	})
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	drain := w.cfg.drain
	if drain == 0 {
		drain = -1 // where 0 means the default
	}
	d, err := dispatch.New(dispatch.Config{
		Holder: holder, Handler: w.handle, Concurrency: w.cfg.concurrency,
		RenewEvery: w.cfg.renew, DrainTimeout: drain, Jitter: w.client.door.Jitter,
		Logger: w.client.logger, Observer: w.client.observer,
	})
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	// Beside it, since executions wait for stores whose processes may have died. It
	// ends with ctx, while the dispatcher drains.
	var g errgroup.Group
	g.Go(func() error { return w.client.protocol.Run(ctx) })
	g.Go(func() error { return d.Run(ctx) })
	return g.Wait()
}

func (w *Worker) handle(ctx context.Context, d execution.Delivery, drain <-chan struct{}) dispatch.Reply {
	v := w.engine.deliver(ctx, d, drain)
	return dispatch.Reply{Outcome: v.outcome, Retry: v.retry, Lost: v.lost}
}

// queues are where the definitions' executions wait, each once.
func (c *workerConfig) queues() []string {
	var names []string
	for _, d := range c.definitions {
		names = append(names, d.queueName())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (c *workerConfig) workflows() []string {
	var names []string
	for _, d := range c.definitions {
		names = append(names, d.Name())
	}
	return names
}
