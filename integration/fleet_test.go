package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/process"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

// workerCommand as the first argument makes the test binary a worker process; the
// others are the endpoint, the namespace, the name and the trade.
const workerCommand = "worker-process"

// A say is how a worker says a line to the test.
type say func(format string, args ...any)

// trades are what worker processes can be started for. Each makes what a worker runs.
var trades = map[string]func(say) []holdfast.WorkerOption{
	"charge":  chargeTrade,
	"counter": counterTrade,
	"family":  familyTrade,
	"pass":    passTrade,
	"race":    raceTrade,
	"sort":    sortTrade,
}

// The lease of worker processes: they are killed often.
const (
	fleetLease = 2 * time.Second
	fleetRenew = 500 * time.Millisecond
)

// runWorker runs a worker until SIGTERM, or until its parent has gone.
func runWorker(args []string) error {
	if len(args) != 4 || trades[args[3]] == nil {
		return fmt.Errorf("%s: arguments %q, want endpoint, namespace, name and trade", workerCommand, args)
	}
	process.ExitWithParent(nil)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := holdfast.Open(ctx, holdfast.Endpoints(args[0]), holdfast.Prefix(keyPrefix), holdfast.Namespace(args[1]),
		holdfast.RedeliveryDelay(delayBase, time.Second))
	if err != nil {
		return err
	}
	defer c.Close()
	tell := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	parts := append(trades[args[3]](tell), holdfast.Name(args[2]), holdfast.Lease(fleetLease, fleetRenew))
	w, err := holdfast.NewWorker(c, parts...)
	if err != nil {
		return err
	}
	tell("ready")
	return w.Run(ctx)
}

// A fleet is worker processes of one trade, on a namespace that is verified, and a
// client of it.
type fleet struct {
	t      *testing.T
	h      *harness
	trade  string
	client *holdfast.Client
	hear   func(line string)
	named  int
	crew   []*process.Child
}

// newFleet starts n worker processes. hear is called with the lines that they say,
// from many goroutines; nil: nobody listens.
func newFleet(t *testing.T, trade string, n int, hear func(string)) *fleet {
	t.Helper()
	h := newHarness(t)
	f := &fleet{t: t, h: h, trade: trade, client: openClient(t, h), hear: hear}
	for range n {
		f.crew = append(f.crew, f.start())
	}
	return f
}

// openClient returns a client of the harness' namespace, on the in-process client.
func openClient(t *testing.T, h *harness) *holdfast.Client {
	t.Helper()
	c, err := holdfast.Open(t.Context(), holdfast.Etcd(testetcd.Client(t)), holdfast.Prefix(keyPrefix), holdfast.Namespace(h.namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// start starts a worker process and waits until it claims.
func (f *fleet) start() *process.Child {
	f.t.Helper()
	path, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	f.named++
	ready := make(chan struct{}, 1)
	child, err := process.Start(process.Config{
		Name: fmt.Sprintf("%s-%d", f.trade, f.named), Path: path,
		Args:   []string{workerCommand, testetcd.Endpoint(f.t), f.h.namespace, fmt.Sprintf("%s-%d", f.trade, f.named), f.trade},
		Stderr: os.Stderr,
		Line: func(line []byte) {
			if string(line) == "ready" {
				ready <- struct{}{}
			} else if f.hear != nil {
				f.hear(string(line))
			}
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { f.kill(child) })
	select {
	case <-ready:
	case <-child.Done():
		f.t.Fatalf("%s ended before it was ready: %v", child.Name(), child.Err())
	}
	return child
}

func (f *fleet) kill(child *process.Child) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := child.Kill(ctx); err != nil {
		f.t.Errorf("kill %s: %v", child.Name(), err)
	}
}

// killWhile kills a worker now and then and starts another in its place, while during
// goes on, and says how many it has killed. at least one is.
func (f *fleet) killWhile(every time.Duration, during func()) int {
	f.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		during()
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for kills := 0; ; {
		select {
		case <-done:
			return kills
		case <-tick.C:
			i := rand.IntN(len(f.crew))
			f.kill(f.crew[i])
			f.crew[i] = f.start()
			kills++
		}
	}
}

// A high is the greatest of the numbers that it was given.
type high struct{ n atomic.Int64 }

func (h *high) see(n int64) {
	for {
		old := h.n.Load()
		if n <= old || h.n.CompareAndSwap(old, n) {
			return
		}
	}
}

// keysOf counts what the span holds.
func (f *fleet) keysOf(start, end string) int64 {
	f.t.Helper()
	res, err := testetcd.Client(f.t).Get(f.t.Context(), start, clientv3.WithRange(end), clientv3.WithCountOnly())
	if err != nil {
		f.t.Fatal(err)
	}
	return res.Count
}
