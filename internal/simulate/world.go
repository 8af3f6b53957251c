package simulate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A world is one run: an etcd, the nodes on it and what is known of them.
type world struct {
	seed   uint64
	ctx    context.Context //nolint:containedctx // ends with the run
	server *memetcd.Server
	space  keyspace.Space
	gate   *gate
	mutate func(etcd.Store, keyspace.Space) etcd.Store
	nodes  []*node
	actors sync.WaitGroup // everything that runs: processes, direct holders, operators

	replay *audit.Replay
	feed   <-chan etcd.Batch
	open   map[string]bool // executions that have not ended

	mu         sync.Mutex
	rare       Counts
	violations []string
	kept       map[string]acceptedStep
}

// An acceptedStep was answered to its writer: it must be there for ever.
type acceptedStep struct {
	key      keyspace.Step
	response string
}

func newWorld(ctx context.Context, o Options) (*world, error) {
	space, err := keyspace.New("/sim", "default")
	if err != nil {
		return nil, err
	}
	server, err := memetcd.New(memetcd.Config{})
	if err != nil {
		return nil, err
	}
	w := &world{
		seed: o.Seed, ctx: ctx, server: server, space: space, mutate: o.Mutate,
		replay: audit.NewReplay(space), open: map[string]bool{}, rare: Counts{}, kept: map[string]acceptedStep{},
		gate: &gate{
			names: &names{space: space, procs: map[string]string{}, count: map[string]int{}},
			dead:  map[string]bool{},
		},
	}
	all := space.All()
	w.feed = server.Client("", nil).Watch(ctx, all.Start, all.End, 1)
	for i := range dispatchers {
		w.nodes = append(w.nodes, &node{world: w, name: fmt.Sprint("n", i)})
	}
	return w, nil
}

// store is etcd as a client sees it.
func (w *world) store(client string) etcd.Store {
	store := w.server.Client(client, w.gate.pass)
	if w.mutate != nil {
		store = w.mutate(store, w.space)
	}
	return store
}

// wall is the wall clock of whoever has no node.
func (w *world) wall() time.Time { return time.Now() }

// alias names a lease by what the schedule decides alone.
func (w *world) alias(l execution.Lease) string { return fmt.Sprint(l.Token) }

// count notes a rare event.
func (w *world) count(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rare[name]++
}

// violate notes that something does not hold.
func (w *world) violate(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.violations = append(w.violations, fmt.Sprintf(format, args...))
}

// complain is violate for an error that nobody expected.
func (w *world) complain(what string, err error) {
	if err != nil {
		w.violate("%s: %v", what, err)
	}
}

func (w *world) violated() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.violations
}

// accepted notes a step that its writer was told is recorded.
func (w *world) accepted(l execution.Lease, st execution.Step) {
	key := keyspace.Step{ID: string(l.ID), Incarnation: l.Incarnation, Run: l.Run, Key: st.Key, Attempt: st.Attempt}
	w.mu.Lock()
	defer w.mu.Unlock()
	name := w.space.Step(key)
	if old, known := w.kept[name]; known && old.response != string(st.Response) {
		w.violations = append(w.violations, fmt.Sprintf("step %q of %q was answered as %s, and before as %s", st.Key, string(l.ID), st.Response, old.response))
	}
	w.kept[name] = acceptedStep{key, string(st.Response)}
}

// observe counts what the engine tells.
func (w *world) observe(e execution.Event) {
	switch e.Kind {
	case execution.EventRefused:
		w.count("stale " + e.Operation + " refused")
	case execution.EventRehomed:
		w.count("renewal after an expiry")
	case execution.EventTakeover, execution.EventSwept, execution.EventEvicted, execution.EventUnconfirmed, execution.EventWatchRestart, execution.EventReaped:
		w.count(string(e.Kind))
	case execution.EventBadRecord:
		w.violate("a record can't be read: key %q: %v", e.Operation, e.Err)
	case execution.EventRenewal:
		if e.Err != nil {
			w.count("renewal failed")
		}
	case execution.EventClaimed, execution.EventAcknowledged, execution.EventReleased, execution.EventSwallowed, execution.EventStep:
	}
}

// take verifies what has been written since the last time.
func (w *world) take() {
	for {
		select {
		case b := <-w.feed:
			w.takeBatch(b)
		default:
			return
		}
	}
}

func (w *world) takeBatch(b etcd.Batch) {
	if b.Err != nil {
		w.violate("the history can't be followed: %v", b.Err)
		return
	}
	before := len(w.replay.Violations())
	w.replay.Apply(b)
	for _, v := range w.replay.Violations()[before:] {
		w.violate("%v", v)
	}
	for _, e := range b.Events {
		k, err := w.space.Parse(e.KV.Key)
		if err != nil || k.Kind != keyspace.KindState || e.Deleted {
			continue
		}
		if s, err := record.DecodeState(e.KV.Value); err == nil {
			if w.open[k.ID] = true; s.Terminal() {
				delete(w.open, k.ID)
			}
		}
	}
}

// settled verifies what must hold once everything has ended and every process is
// gone: no garbage, and every step that was answered.
func (w *world) settled(ctx context.Context) {
	report, err := audit.Check(ctx, w.server.Client("", nil), w.space)
	if err != nil {
		w.violate("audit: %v", err)
		return
	}
	for _, v := range report.Violations {
		w.violate("%v", v)
	}
	there := map[string]string{}
	for _, kv := range w.server.Dump() {
		k, err := w.space.Parse(kv.Key)
		if err != nil {
			w.violate("key %q: %v", kv.Key, err)
			continue
		}
		switch k.Kind {
		case keyspace.KindLive, keyspace.KindDue, keyspace.KindWake, keyspace.KindEvict:
			w.violate("garbage: key %q", kv.Key)
		case keyspace.KindStep:
			if st, err := record.DecodeStep(kv.Value); err == nil {
				there[kv.Key] = string(st.Response)
			}
		case keyspace.KindEpoch, keyspace.KindProc, keyspace.KindSpec, keyspace.KindState, keyspace.KindDone:
		}
	}
	for key, st := range w.kept {
		if there[key] != st.response {
			w.violate("step %q of %q was answered as %s, and is %s now", st.key.Key, st.key.ID, st.response, there[key])
		}
	}
}
