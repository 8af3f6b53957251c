package storeapi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// MaxNamespaces bounds how many namespaces' clients are kept. It is no bound of how
// many there are: one that was put aside is opened anew.
const MaxNamespaces = 64

// NamespacesConfig says where the namespaces are.
type NamespacesConfig struct {
	Store    etcd.Store         // required
	Prefix   string             // of every key, as for keyspace.New; required
	Logger   *zap.Logger        // default: silent
	Observer execution.Observer // default: none
}

// Namespaces open the stores of any namespace. They may be used by many goroutines at
// once.
type Namespaces struct {
	cfg NamespacesConfig

	mu     sync.Mutex
	opened map[string]*opened
	count  int64 // of uses
}

// An opened namespace was used last at the count.
type opened struct {
	client *stores.Client
	used   int64
}

// NewNamespaces returns the namespaces under the prefix.
func NewNamespaces(cfg NamespacesConfig) (*Namespaces, error) {
	if cfg.Store == nil {
		return nil, errors.New("store API: Store is required")
	}
	if _, err := keyspace.New(cfg.Prefix, "default"); err != nil {
		return nil, fmt.Errorf("store API: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	cfg.Store = marking{cfg.Store}
	return &Namespaces{cfg: cfg, opened: map[string]*opened{}}, nil
}

// Open returns the stores of the namespace. Nothing is written, and nothing is read. A
// name that can't be a namespace's gives an error with the code Invalid.
func (n *Namespaces) Open(name string) (*stores.Client, error) {
	space, err := keyspace.New(n.cfg.Prefix, name)
	if err != nil {
		return nil, invalid("%w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.count++
	if o, found := n.opened[name]; found {
		o.used = n.count
		return o.client, nil
	}
	w := &waker{cfg: leasing.Config{Store: n.cfg.Store, Space: space, Logger: n.cfg.Logger, Observer: n.cfg.Observer}}
	client, err := stores.New(stores.Config{
		Store: n.cfg.Store, Space: space, Logger: n.cfg.Logger, Observer: n.cfg.Observer, Wake: w.wake,
	})
	if err != nil {
		return nil, err
	}
	n.makeRoomLocked()
	n.opened[name] = &opened{client, n.count}
	return client, nil
}

// makeRoomLocked puts aside the client that was used the longest time ago.
func (n *Namespaces) makeRoomLocked() {
	if len(n.opened) < MaxNamespaces {
		return
	}
	oldest := ""
	for name, o := range n.opened {
		if oldest == "" || o.used < n.opened[oldest].used {
			oldest = name
		}
	}
	delete(n.opened, oldest)
}

// A waker wakes the executions of the engine that wait for a store of one namespace.
// Its client is made when the first is woken, since that writes where no worker has
// been: whoever is woken is there already.
type waker struct {
	cfg leasing.Config

	mu     sync.Mutex
	client *leasing.Client
}

func (w *waker) wake(ctx context.Context, step execution.StepID) error {
	c, err := w.leases(ctx)
	if err != nil {
		return err
	}
	return c.RequestWake(ctx, step.Execution, time.Now())
}

func (w *waker) leases(ctx context.Context) (*leasing.Client, error) {
	w.mu.Lock()
	c := w.client
	w.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := leasing.New(ctx, w.cfg) // twice, if two wake at once, which does no harm
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.client = c
	return c, nil
}

// A marking store marks the errors of requests that etcd has not answered.
type marking struct{ etcd.Store }

// Txn runs a transaction.
func (s marking) Txn(ctx context.Context, txn *etcd.Txn) (*etcd.TxnResult, error) {
	res, err := s.Store.Txn(ctx, txn)
	return res, mark(err)
}

// Get reads.
func (s marking) Get(ctx context.Context, get etcd.Get) (etcd.Result, int64, error) {
	res, revision, err := s.Store.Get(ctx, get)
	return res, revision, mark(err)
}

func mark(err error) error {
	if err == nil || etcd.IsDefinite(err) || errors.Is(err, etcd.ErrNoSpace) {
		return err
	}
	return fmt.Errorf("%w: %w", errNoAnswer, err)
}
