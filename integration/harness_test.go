package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/conformance"
	"github.com/holdfast-io/holdfast/integration/mutant"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/heap"
	"github.com/holdfast-io/holdfast/pkg/leasing"
	"github.com/holdfast-io/holdfast/pkg/start"
)

const (
	keyPrefix = "/integration"

	// The redelivery delay's base: short, so that a real dispatcher comes to its
	// redeliveries.
	delayBase = 50 * time.Millisecond

	// leaseDuration of dispatchers whose case names none.
	leaseDuration = 10 * time.Second

	// mutantVariable is the environment variable that names the fault of every
	// client, if any: see TestMutants. What a test itself reads and writes has none.
	mutantVariable = "HOLDFAST_TEST_MUTANT"
)

// A client is a caller of the engine.
type client struct {
	*leases
	*steps
	starts *start.Client
	shared *stores.Client
}

type (
	leases = leasing.Client
	steps  = heap.Client
)

func newClient(ctx context.Context, store etcd.Store, space keyspace.Space, delay leasing.DelayPolicy) (*client, error) {
	if fault := os.Getenv(mutantVariable); fault != "" {
		store = mutant.Wrap(fault, store, space)
	}
	c := &client{}
	var err error
	c.leases, err = leasing.New(ctx, leasing.Config{Store: store, Space: space, Delay: delay, Ended: c.ended})
	if err != nil {
		return nil, err
	}
	if c.steps, err = heap.New(heap.Config{Store: store, Space: space}); err != nil {
		return nil, err
	}
	if c.starts, err = start.New(start.Config{Store: store, Space: space, Executions: c.leases}); err != nil {
		return nil, err
	}
	c.shared, err = stores.New(stores.Config{Store: store, Space: space, Wake: func(ctx context.Context, step execution.StepID) error {
		return c.RequestWake(ctx, step.Execution, time.Now())
	}})
	return c, err
}

// ended wakes those who wait for an end. What fails stays owed.
func (c *client) ended(ctx context.Context, id execution.ID) {
	_ = c.shared.Drain(ctx, start.EndOf(id))
}

// StartWorkflow starts an execution on behalf of a step.
func (c *client) StartWorkflow(ctx context.Context, l execution.Lease, step string, req execution.AdmitRequest) (execution.ID, error) {
	a, err := c.starts.Start(ctx, start.Request{
		Caller: stepOf(l, step), Epoch: l.Epoch, ID: req.ID, Workflow: req.Workflow, Queue: req.Queue, Due: req.Due,
		Params: req.Params, ParamsPresent: req.Params != nil,
	})
	return a.ID, err
}

// UpdateStore changes a store, which it creates with the state null, on behalf of a
// step. The result is the state that it makes.
func (c *client) UpdateStore(ctx context.Context, l execution.Lease, id execution.StoreID, step string, fn func(json.RawMessage) json.RawMessage) (json.RawMessage, error) {
	if _, err := c.shared.Create(ctx, id, func() ([]byte, error) { return []byte("null"), nil }); err != nil {
		return nil, err
	}
	by := stepOf(l, step)
	res, err := c.shared.Update(ctx, id, &by, "update", func(now stores.Snapshot) (*stores.Mutation, error) {
		next := fn(now.State)
		return &stores.Mutation{State: next, Changed: stores.Paths{{}}, Result: next}, nil
	})
	return res.Raw, err
}

// ReadStore reads the state of a store.
func (c *client) ReadStore(ctx context.Context, id execution.StoreID) (json.RawMessage, error) {
	now, err := c.shared.Get(ctx, id)
	return now.State, err
}

// A harness is an embedded etcd with a namespace of its own.
type harness struct {
	t         *testing.T
	store     etcd.Store
	namespace string
	space     keyspace.Space
	main      *client
}

// namespaces tells apart the runs of one test.
var namespaces atomic.Int64

func newHarness(t *testing.T) *harness {
	t.Helper()
	namespace := fmt.Sprintf("%.80s-%d", t.Name(), namespaces.Add(1))
	space, err := keyspace.New(keyPrefix, namespace)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, store: testetcd.Start(t), namespace: namespace, space: space}
	verify(t, h.store, space)
	h.main = h.newClient(h.store)
	return h
}

func (h *harness) newClient(store etcd.Store) *client {
	h.t.Helper()
	c, err := newClient(h.t.Context(), store, h.space, leasing.DelayPolicy{Base: delayBase})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

// Client is the case's own caller.
func (h *harness) Client() conformance.Client { return h.main }

// Peer is a new caller.
func (h *harness) Peer() conformance.Client { return h.newClient(h.store) }

// ShortestLease is what etcd makes of a lease of one second.
func (h *harness) ShortestLease() time.Duration { return 2 * time.Second }

// Supports says yes: everything can be done with an etcd that serves gRPC.
func (h *harness) Supports(conformance.Feature) bool { return true }

// EndLease ends the etcd lease that the execution's holder has, and with it all
// that it holds.
func (h *harness) EndLease(l execution.Lease) {
	h.t.Helper()
	live, ok := h.key(h.space.Live(string(l.ID)))
	if !ok {
		h.t.Fatalf("end the lease of %q: nobody holds it", string(l.ID))
	}
	rec, err := record.DecodeLive(live.Value, live.Modified)
	if err != nil {
		h.t.Fatal(err)
	}
	if rec.Token != int64(l.Token) {
		h.t.Fatalf("end the lease of %q with token %d: its holder has token %d", string(l.ID), l.Token, rec.Token)
	}
	proc, ok := h.key(h.space.Proc(rec.Proc))
	if !ok {
		h.t.Fatalf("end the lease of %q: it has ended already", string(l.ID))
	}
	if err := h.store.Revoke(h.t.Context(), proc.Lease); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) key(key string) (etcd.KV, bool) {
	h.t.Helper()
	res, _, err := h.store.Get(h.t.Context(), etcd.Get{Key: key})
	if err != nil {
		h.t.Fatal(err)
	}
	return res.One()
}

// Dump renders the state and the steps with their revisions.
func (h *harness) Dump(id execution.ID) string {
	h.t.Helper()
	steps := h.space.StepsOf(string(id))
	res, err := h.store.Txn(h.t.Context(), &etcd.Txn{Then: []etcd.Op{
		etcd.Get{Key: h.space.State(string(id))},
		etcd.Get{Key: steps.Start, End: steps.End},
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	var b strings.Builder
	for _, r := range res.Results {
		for _, kv := range r.KVs {
			fmt.Fprintf(&b, "%s at %d: %s\n", kv.Key, kv.Modified, kv.Value)
		}
	}
	return b.String()
}
