package start_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
	"github.com/holdfast-io/holdfast/pkg/start"
)

func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }

// A world is one namespace with a parent that is held, and a client that starts
// executions through a hook.
type world struct {
	*start.Client
	t          *testing.T
	hook       *testetcd.Hook
	space      keyspace.Space
	executions *leasing.Client // not through the hook
	ids        []execution.ID  // that are drawn, in the place of random ones
	lease      execution.Lease // the parent's
	damaged    bool            // it is not to be audited
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, hook: &testetcd.Hook{Store: testetcd.Start(t)}, space: testetcd.Space(t)}
	w.executions = w.leasing(w.hook.Store)
	w.Client = w.newClient()
	w.admit("parent")
	w.lease = w.claim("parent").Lease
	t.Cleanup(w.audit)
	return w
}

func (w *world) leasing(store etcd.Store) *leasing.Client {
	w.t.Helper()
	c, err := leasing.New(w.t.Context(), leasing.Config{Store: store, Space: w.space, Delay: leasing.DelayPolicy{Base: time.Millisecond, Cap: time.Second}})
	w.must(err)
	return c
}

func (w *world) newClient() *start.Client {
	w.t.Helper()
	c, err := start.New(start.Config{Store: w.hook, Space: w.space, Executions: w.leasing(w.hook), NewID: w.draw})
	w.must(err)
	return c
}

func (w *world) draw() execution.ID {
	if len(w.ids) == 0 {
		return execution.NewID()
	}
	id := w.ids[0]
	w.ids = w.ids[1:]
	return id
}

func (w *world) audit() {
	w.t.Helper()
	if w.damaged {
		return
	}
	report, err := audit.Check(context.Background(), w.hook.Store, w.space)
	if err != nil {
		w.t.Error(err)
	}
	for _, v := range report.Violations {
		w.t.Errorf("audit: %v", v)
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) admit(id execution.ID) {
	w.t.Helper()
	_, err := w.executions.Admit(w.t.Context(), execution.AdmitRequest{ID: id, Workflow: string(id)})
	w.must(err)
}

// claim claims what is due of the queue that is named for the id.
func (w *world) claim(queue string) execution.Delivery {
	w.t.Helper()
	ds, err := w.executions.ClaimDue(w.t.Context(), execution.ClaimRequest{
		Now: time.Now().Add(time.Hour), Limit: 1, Duration: time.Minute, Queues: []string{queue},
	})
	w.must(err)
	if len(ds) != 1 {
		w.t.Fatalf("%d claimed of queue %q, want 1", len(ds), queue)
	}
	return ds[0]
}

func (w *world) complete(l execution.Lease, result string) {
	w.t.Helper()
	w.must(w.executions.Acknowledge(w.t.Context(), l, execution.Outcome{Kind: execution.Completed, Result: json.RawMessage(result)}))
}

// turn ends the run of the parent, and claims its next one.
func (w *world) turn() {
	w.t.Helper()
	w.must(w.executions.Acknowledge(w.t.Context(), w.lease, execution.Outcome{Kind: execution.Continued}))
	w.lease = w.claim("parent").Lease
}

func (w *world) remove(id execution.ID) {
	w.t.Helper()
	w.must(w.executions.Cancel(w.t.Context(), id, "test"))
	w.must(w.executions.Delete(w.t.Context(), id))
}

// step names a step of the parent.
func (w *world) step(name string) execution.StepID {
	return execution.StepID{Execution: w.lease.ID, Incarnation: w.lease.Incarnation, Run: w.lease.Run, Step: name}
}

func (w *world) request(step string) start.Request {
	return start.Request{Caller: w.step(step), Epoch: w.lease.Epoch, Workflow: "child", Params: json.RawMessage(`{"b":1,"a":2}`), ParamsPresent: true}
}

func (w *world) start(req start.Request) start.Answer {
	w.t.Helper()
	a, err := w.Start(w.t.Context(), req)
	w.must(err)
	return a
}

// children lists what has been started.
func (w *world) children() (ids []execution.ID) {
	w.t.Helper()
	page, err := w.executions.List(w.t.Context(), execution.ListRequest{Workflow: "child"})
	w.must(err)
	for _, r := range page.Records {
		ids = append(ids, r.ID)
	}
	return ids
}

func (w *world) keys(span keyspace.Span) (keys []string) {
	w.t.Helper()
	res, _, err := w.hook.Store.Get(w.t.Context(), etcd.Get{Key: span.Start, End: span.End, KeysOnly: true})
	w.must(err)
	for _, kv := range res.KVs {
		keys = append(keys, kv.Key)
	}
	return keys
}

// damage writes a value past the engine.
func (w *world) damage(key, value string) {
	w.t.Helper()
	w.damaged = true
	w.put(key, value)
}

func (w *world) put(key, value string) {
	w.t.Helper()
	_, err := w.hook.Store.Txn(w.t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key, Value: []byte(value)}}})
	w.must(err)
}

// restore does what is to be done after a restore from a backup.
func (w *world) restore() {
	w.t.Helper()
	w.put(w.space.Epoch(), "another")
}

// unanswered loses the answer of the first transaction that puts the key, and then runs
// do.
func (w *world) unanswered(key string, do func()) {
	lost := false
	w.hook.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if lost || !puts(txn, key) {
			return res, err
		}
		lost = true
		do()
		return nil, context.DeadlineExceeded
	}
}

// before runs do before the first transaction that puts the key.
func (w *world) before(key string, do func()) {
	done := false
	w.hook.BeforeTxn = func(txn *etcd.Txn) error {
		if !done && puts(txn, key) {
			done = true
			do()
		}
		return nil
	}
}

func puts(txn *etcd.Txn, key string) bool {
	for _, op := range txn.Then {
		if put, ok := op.(etcd.Put); ok && put.Key == key {
			return true
		}
	}
	return false
}
