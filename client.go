package holdfast

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/event"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/heap"
	"github.com/holdfast-io/holdfast/pkg/leasing"
	"github.com/holdfast-io/holdfast/pkg/start"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// openTimeout bounds Open if its context has no deadline.
const openTimeout = 10 * time.Second

// A Client acts on the executions of one namespace in etcd. It may be used by many
// goroutines at once.
type Client struct {
	namespace  string
	logger     *zap.Logger
	observer   execution.Observer
	executions *leasing.Client
	steps      *heap.Client
	protocol   *stores.Client
	starts     *start.Client
	events     *event.Client
	stores     *store.Client
	door       door.Config

	close  func() error // once
	closed atomic.Bool
}

// Open connects to etcd, which it must reach before ctx ends (10 s if ctx has no
// deadline), and returns a client of the namespace. Say where etcd is by
// [Endpoints] or [Etcd]. The client must be closed.
func Open(ctx context.Context, opts ...Option) (*Client, error) {
	cfg := clientConfig{namespace: "default", prefix: "/holdfast", logger: zap.NewNop()}
	for _, o := range opts {
		if o == nil {
			return nil, errors.New("open: an option is nil")
		}
		o(&cfg)
	}
	space, err := keyspace.New(cfg.prefix, cfg.namespace)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	conn, closeConn, err := cfg.dial() //nolint:contextcheck // it connects in the background
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	c, err := newClient(ctx, cfg, conn, space)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open: %w", err), closeConn())
	}
	c.close = sync.OnceValue(closeConn)
	return c, nil
}

// dial returns the etcd that the options name.
func (cfg *clientConfig) dial() (etcd.Store, func() error, error) {
	switch {
	case cfg.door.Store != nil:
		return cfg.door.Store, func() error { return nil }, nil
	case cfg.client == nil && len(cfg.endpoints) == 0:
		return nil, nil, errors.New("no etcd is named: pass Endpoints or Etcd")
	case cfg.client != nil && (len(cfg.endpoints) > 0 || cfg.tls != nil || cfg.user != ""):
		return nil, nil, errors.New("Etcd excludes Endpoints, TLS and Login: the given client has its own")
	case cfg.client != nil:
		return etcdv3.New(cfg.client, cfg.client), func() error { return nil }, nil
	}
	return etcdv3.Dial(etcdv3.DialConfig{
		Endpoints: cfg.endpoints, TLS: cfg.tls,
		Username: cfg.user, Password: cfg.password, Logger: cfg.logger.Named("etcd"),
	})
}

// newClient makes the client over the etcd, which it must reach.
func newClient(ctx context.Context, cfg clientConfig, conn etcd.Store, space keyspace.Space) (*Client, error) {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openTimeout)
		defer cancel()
	}
	if cfg.door.Jitter == nil {
		cfg.door.Jitter = func(bound time.Duration) time.Duration { return rand.N(max(bound, 1)) }
	}
	c := &Client{namespace: cfg.namespace, logger: cfg.logger, observer: cfg.observer, door: cfg.door}
	var err error
	c.executions, err = leasing.New(ctx, leasing.Config{
		Store: conn, Space: space, Logger: cfg.logger, Observer: cfg.observer, Delay: cfg.delay,
		Name: cfg.door.Name, Jitter: cfg.door.Jitter, Ended: c.ended,
	})
	if err != nil {
		return nil, cfg.unreachable(ctx, err)
	}
	if c.steps, err = heap.New(heap.Config{Store: conn, Space: space, Observer: cfg.observer}); err != nil {
		return nil, err
	}
	c.protocol, err = stores.New(stores.Config{
		Store: conn, Space: space, Logger: cfg.logger, Observer: cfg.observer, Jitter: cfg.door.Jitter,
		Wake: func(ctx context.Context, step execution.StepID) error {
			return c.executions.RequestWake(ctx, step.Execution, time.Now())
		},
	})
	if err != nil {
		return nil, err
	}
	c.stores = stores.NewAccess(c.protocol)
	if c.events, err = event.New(event.Config{Store: conn, Space: space, Executions: c.executions}); err != nil {
		return nil, err
	}
	c.starts, err = start.New(start.Config{Store: conn, Space: space, Executions: c.executions})
	return c, err
}

// ended wakes those who wait for the end of an execution.
func (c *Client) ended(ctx context.Context, id execution.ID) {
	if err := c.protocol.Drain(ctx, start.EndOf(id)); err != nil {
		c.logger.Warn("who waits for the end of an execution could not be woken; a worker does it",
			zap.String("execution", string(id)), zap.Error(err))
	}
}

// unreachable adds to the error of the first request where etcd was looked for.
func (cfg *clientConfig) unreachable(ctx context.Context, err error) error {
	at := cfg.endpoints
	if cfg.client != nil {
		at = cfg.client.Endpoints()
	}
	where := strings.Join(at, ", ")
	if where == "" {
		where = "the given client"
	}
	if ctx.Err() == nil {
		return fmt.Errorf("etcd at %s: %w", where, err)
	}
	return fmt.Errorf("etcd did not answer at %s: check the endpoints, TLS and that etcd runs: %w", where, err)
}

// Close closes the connections that Open made; a client that was given by [Etcd]
// stays open. Closing twice is the same as once. Stop workers before.
func (c *Client) Close() error {
	c.closed.Store(true)
	return c.close()
}

// Executions returns the client of the execution protocol, for what this package
// does not offer.
func (c *Client) Executions() *leasing.Client { return c.executions }

// Steps returns the client of the step records.
func (c *Client) Steps() *heap.Client { return c.steps }

// Stores returns the client of the stores: state that executions share. Workflows have
// it already; other code passes it to the handles of package store.
func (c *Client) Stores() *store.Client { return c.stores }

// Get returns what is recorded of the execution, or an error that wraps
// [execution.ErrNotFound].
func (c *Client) Get(ctx context.Context, id string) (execution.Record, error) {
	return c.executions.Get(ctx, execution.ID(id))
}

// List returns a page of the executions that the request selects.
func (c *Client) List(ctx context.Context, req execution.ListRequest) (execution.Page, error) {
	return c.executions.List(ctx, req)
}

// Wake asks for a delivery of the execution at the given time, or at once if it is
// the zero time. A wake that is not needed does no harm; one of an execution that
// has ended has no effect.
func (c *Client) Wake(ctx context.Context, id string, at time.Time) error {
	if at.IsZero() {
		at = time.Now()
	}
	return c.executions.RequestWake(ctx, execution.ID(id), at)
}

// Cancel makes the execution fail with the code "cancelled"; its holder stops at
// once. why is kept for readers. An execution that has ended gives an error that
// wraps [execution.ErrTerminal].
func (c *Client) Cancel(ctx context.Context, id, why string) error {
	return c.executions.Cancel(ctx, execution.ID(id), why)
}
