package holdfasttest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

const (
	prefix    = "/holdfasttest"
	namespace = "test"
)

// patience is how long [Env.Context] lives, in virtual time.
const patience = 90 * 24 * time.Hour

// An Env is an etcd in memory with a client and workers, for one test. Its methods
// may be called from many goroutines at once but for [Env.Advance].
type Env struct {
	t      testing.TB
	server *memetcd.Server
	space  keyspace.Space
	client *holdfast.Client
	ctx    context.Context //nolint:containedctx // it ends with the test, as the Env does
	pace   *pace
	counts counts
	orders orders

	mu      sync.Mutex
	made    int
	workers []*Worker // that were started
}

// Run runs f in a bubble of testing/synctest, with an Env of its own. What holds for
// functions in a bubble holds for f: it does not call t.Run or t.Parallel.
func Run(t *testing.T, f func(t *testing.T, env *Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, New(t)) })
}

// New returns the Env of a test that is in a bubble of testing/synctest already;
// [Run] opens one. When the test ends, so do its workers, and what is stored is
// verified.
func New(t testing.TB) *Env {
	t.Helper()
	if !bubbled() {
		t.Fatal("holdfasttest: New is called outside of a bubble of testing/synctest, where time does not skip: use Run, or call New inside synctest.Test")
	}
	space, err := keyspace.New(prefix, namespace)
	if err != nil {
		t.Fatal(err)
	}
	server, err := memetcd.New(memetcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errPatience)
	e := &Env{t: t, server: server, space: space, ctx: ctx, pace: newPace(server.Client("pace", nil), space)}
	running, stop := context.WithCancel(context.Background())
	go e.pace.follow(running)
	t.Cleanup(func() {
		cancel()
		stop()
		e.end()
	})
	e.client = e.open("client", server.Client("client", nil), e.counts.call, zap.DebugLevel)
	return e
}

// errPatience says why a test that waits for something waits no more.
var errPatience = fmt.Errorf("%v have passed on the test's clock: if that is not too long, give a context of your own", patience)

// bubbled says whether the goroutine is in a bubble.
func bubbled() (is bool) {
	defer func() { is = recover() == nil }()
	synctest.Wait() // panics outside of one
	return
}

// open opens a client of the test's etcd.
func (e *Env) open(name string, store etcd.Store, around door.Around, level zapcore.LevelEnabler) *holdfast.Client {
	e.t.Helper()
	c, err := holdfast.Open(e.t.Context(), holdfast.Prefix(prefix), holdfast.Namespace(namespace),
		holdfast.Logger(zaptest.NewLogger(e.t, zaptest.Level(level)).Named(name)), holdfast.Observe(e.counts.observe),
		holdfast.Internal(door.Config{Store: store, Name: name, Jitter: half, Around: around}))
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}

// half varies a pause without chance.
func half(bound time.Duration) time.Duration { return bound / 2 }

// Client returns the test's own client, which nothing befalls. It stays open to the
// end of the test.
func (e *Env) Client() *holdfast.Client { return e.client }

// Context ends with the test, or once 90 days have passed on the test's clock, so
// that who waits in vain is told.
func (e *Env) Context() context.Context { return e.ctx }

// Advance lets d pass on the test's clock, and returns when all that it brought has
// happened and everybody waits again. What goroutines of the bubble did before is
// then seen without a lock. Only one goroutine at a time may call it, or
// [synctest.Wait].
func (e *Env) Advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// Worker starts a worker that runs the given workflows with the given settings, as
// [holdfast.NewWorker] would make it, on a connection of its own. It stops when the
// test ends. Workers are named "worker-1", "worker-2", and so on; of those that come
// for the same execution at the same time the one that was started first gets it.
func (e *Env) Worker(parts ...holdfast.WorkerOption) *Worker {
	e.t.Helper()
	e.mu.Lock()
	w := newWorker(e, e.made)
	e.made++
	e.mu.Unlock()
	alive := zap.LevelEnablerFunc(func(zapcore.Level) bool { return !w.gate.isCrashed() })
	c := e.open(w.name, e.server.Client(w.name, w.gate.pass), w.around, alive)
	runner, err := holdfast.NewWorker(c, append([]holdfast.WorkerOption{holdfast.Name(w.name)}, parts...)...)
	if err != nil {
		e.t.Fatal(err)
	}
	e.mu.Lock()
	e.workers = append(e.workers, w)
	e.mu.Unlock()
	w.start(runner)
	return w
}

// Calls returns how often the function of the step was called, by all workers and
// for all executions: an attempt counts, a replay does not.
func (e *Env) Calls(step string) int { return e.counts.of(step) }

// Refused returns the fenced writes that etcd has refused so far, and which their
// workers know of.
func (e *Env) Refused() []*execution.LostError { return e.counts.refusals() }

// Takeovers returns how often a worker has claimed an execution whose lease had
// expired.
func (e *Env) Takeovers() int { return e.counts.takeoverCount() }
