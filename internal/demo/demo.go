// Package demo shows Holdfast at work: it starts etcd, a payment provider and some
// workers, has orders charged, kills one worker and freezes another while they
// charge a card, and then verifies that nothing was lost, done twice or accepted
// from a worker whose time had passed.
//
// The workers and the provider are processes: this program again, started with
// commands that anybody may use. What the demo says in the end does not rest on
// what the engine says of itself: outcomes are read back from etcd, charges from
// the provider's ledger, and takeovers and stale writes are counted by a watch of
// every revision. Each step of the play waits for a fact, none for a time.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/shop"
	"github.com/holdfast-io/holdfast/pkg/embedded"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// keyPrefix is the default one of holdfast.Open.
const keyPrefix = "/holdfast"

// MinWorkers is how many workers a demo needs: one is killed, one is frozen, one
// takes over.
const MinWorkers = 3

// The defaults of a demo.
const (
	DefaultConcurrency = 4
	DefaultLease       = 3 * time.Second
)

// A Config configures a demo.
type Config struct {
	Orders  shop.Orders // at least one valid
	Program string      // the executable of which the children are made; required

	// Ledger is the file that the provider's ledger is kept in; it must be absent or
	// empty. Default: a file that is removed afterwards.
	Ledger string
	// DataDir is etcd's data directory. Each run has a namespace of its own in it.
	// Default: a directory that is removed afterwards.
	DataDir string

	Workers     int           // default MinWorkers, which is also the least
	Concurrency int           // orders that a worker runs at once; default 4
	Lease       time.Duration // of the workers; default 3 s, at least 1 s

	Progress io.Writer // what happens, as it happens; default: nowhere
	Verbose  bool      // the children's logs go to standard error, not to files
}

// withDefaults returns a checked copy.
func (c Config) withDefaults() (Config, error) {
	if c.Workers == 0 {
		c.Workers = MinWorkers
	}
	if c.Concurrency == 0 {
		c.Concurrency = DefaultConcurrency
	}
	if c.Lease == 0 {
		c.Lease = DefaultLease
	}
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	return c, c.Validate()
}

// Validate refuses what no demo can run with.
func (c Config) Validate() error {
	switch {
	case c.Program == "":
		return errors.New("demo: no program is given")
	case len(c.Orders.Valid) == 0:
		return errors.New("demo: there is no valid order")
	case c.Workers != 0 && c.Workers < MinWorkers:
		return fmt.Errorf("demo: %d workers: want %d at least: one is killed, one is frozen, one takes over", c.Workers, MinWorkers)
	case c.Concurrency < 0:
		return fmt.Errorf("demo: concurrency %d: want at least 1", c.Concurrency)
	case c.Lease != 0 && c.Lease < time.Second:
		return fmt.Errorf("demo: lease %v: want at least 1s", c.Lease)
	}
	return nil
}

// Run runs the demo. Its report says whether what was promised was seen to hold;
// an error says that the demo did not get that far. No child outlives the call.
func Run(ctx context.Context, cfg Config) (report *Report, err error) {
	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-demo-")
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	tell := narrator{cfg.Progress}
	tell.say("demo: %s for %d workers, of which one is going to be killed and one frozen", plural(len(cfg.Orders.Valid), "order"), cfg.Workers)
	defer func() {
		if failed := err != nil && ctx.Err() == nil || report != nil && !report.OK(); failed {
			tell.say("what is left of this run, logs included, is in %s", dir)
			return
		}
		if err != nil {
			err = fmt.Errorf("demo: %w before its end; its processes have ended", context.Cause(ctx))
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	ledger := cfg.Ledger
	if ledger == "" {
		ledger = filepath.Join(dir, "ledger.jsonl")
	}
	l, err := shop.CreateLedger(ledger) // early, so that a wrong file stops nothing halfway
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	return play(ctx, cfg, tell, dir, ledger)
}

// play starts etcd and runs the demo on it.
func play(ctx context.Context, cfg Config, tell narrator, dir, ledger string) (*Report, error) {
	data := cfg.DataDir
	if data == "" {
		data = filepath.Join(dir, "data")
	}
	server, err := embedded.Start(ctx, embedded.Config{Dir: data, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer server.Close()
	tell.say("etcd: in this process, %s, data in %s", server.Endpoint(), data)

	namespace := "demo-" + strings.ToLower(rand.Text()[:10])
	space, err := keyspace.New(keyPrefix, namespace)
	if err != nil {
		return nil, err
	}
	store := etcdv3.New(server.Client(), server.Client())
	h := newHistory(store, space)
	first, err := h.begin(ctx)
	if err != nil {
		return nil, err
	}
	client, err := holdfast.Open(ctx, holdfast.Etcd(server.Client()), holdfast.Namespace(namespace), holdfast.Prefix(keyPrefix))
	if err != nil {
		return nil, err
	}
	defer client.Close()

	in := newInbox()
	d := &director{
		cfg: cfg, inbox: in, crew: &crew{cfg: cfg, dir: dir, inbox: in}, script: newScript(), tell: tell, history: h,
		endpoint: server.Endpoint(), namespace: namespace, ledger: ledger, status: map[string]execution.Status{},
	}
	defer d.crew.stop()
	if err := d.run(ctx, client, first); err != nil {
		return nil, err
	}
	r, err := d.report(ctx, client)
	if err != nil {
		return nil, err
	}
	snapshot, err := audit.Check(ctx, store, space)
	if err != nil {
		return nil, err
	}
	for _, v := range snapshot.Violations {
		r.problem("etcd holds what it must not: %v", v)
	}
	return r, nil
}
