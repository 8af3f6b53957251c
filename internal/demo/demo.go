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

// maxLease is the engine's own limit.
const maxLease = 24 * time.Hour

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

	// AtExit is given what removes the demo's temporary files, for a program that ends
	// without waiting for Run. Default: they stay then.
	AtExit func(remove func())

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
		return fmt.Errorf("demo: --workers %d: want %d at least: one is killed, one is frozen, one takes over", c.Workers, MinWorkers)
	case c.Concurrency < 0:
		return fmt.Errorf("demo: --concurrency %d: want at least 1", c.Concurrency)
	case c.Lease != 0 && c.Lease < time.Second:
		return fmt.Errorf("demo: --lease %v: want at least 1s", c.Lease)
	case c.Lease > maxLease:
		return fmt.Errorf("demo: --lease %v: want at most %v", c.Lease, maxLease)
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
	if cfg.AtExit != nil {
		cfg.AtExit(func() { removeBusy(dir) })
	}
	tell := narrator{cfg.Progress}
	begun := false // there is something to look at
	defer func() {
		if failed := err != nil && ctx.Err() == nil || report != nil && !report.OK(); failed && begun {
			tell.say("what is left of this run, logs included, is in %s", dir)
			return
		}
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("demo: %w before its end; its processes have ended", context.Cause(ctx))
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	ledger := cfg.Ledger
	if ledger == "" {
		ledger = filepath.Join(dir, "ledger.jsonl")
	}
	l, err := shop.CreateLedger(ledger) // which keeps other demos and providers from it
	if err != nil {
		return nil, err
	}
	defer l.Close()
	data := cfg.DataDir
	if data == "" {
		data = filepath.Join(dir, "data")
	}
	server, err := embedded.Start(ctx, embedded.Config{Dir: data, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	defer server.Close()
	begun = true
	tell.say("demo: %s for %d workers, of which one is going to be killed and one frozen", plural(len(cfg.Orders.Valid), "order"), cfg.Workers)
	tell.say("etcd: in this process, %s, data in %s", server.Endpoint(), data)
	return play(ctx, cfg, server, tell, dir, ledger)
}

// removeBusy removes a directory in which others may still make files while they die.
func removeBusy(dir string) {
	const tries = 10
	for range tries {
		if os.RemoveAll(dir) == nil {
			return
		}
	}
}

// play runs the demo on the etcd.
func play(ctx context.Context, cfg Config, server *embedded.Server, tell narrator, dir, ledger string) (*Report, error) {
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
