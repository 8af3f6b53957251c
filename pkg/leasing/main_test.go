package leasing_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }

const minute = time.Minute

// A world is one namespace with a client on it.
type world struct {
	*leasing.Client
	t     *testing.T
	hook  *testetcd.Hook
	space keyspace.Space
}

// newWorld returns a client whose redelivery delay is base, and audits the
// namespace when the test ends.
func newWorld(t *testing.T, base time.Duration) *world {
	t.Helper()
	w := &world{t: t, hook: &testetcd.Hook{Store: testetcd.Start(t)}, space: testetcd.Space(t)}
	w.Client = w.peer(base)
	t.Cleanup(w.audit)
	return w
}

// audit demands that what is stored violates no invariant.
func (w *world) audit() {
	w.t.Helper()
	report, err := audit.Check(context.Background(), w.hook.Store, w.space)
	if err != nil {
		w.t.Error(err)
	}
	for _, v := range report.Violations {
		w.t.Errorf("audit: %v", v)
	}
}

// peer returns another client of the namespace.
func (w *world) peer(base time.Duration) *leasing.Client {
	w.t.Helper()
	c, err := leasing.New(w.t.Context(), leasing.Config{Store: w.hook, Space: w.space, Delay: leasing.DelayPolicy{Base: base, Cap: 8 * base}})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) admit(id execution.ID) {
	w.t.Helper()
	if _, err := w.Admit(w.t.Context(), execution.AdmitRequest{ID: id, Workflow: "w", Params: json.RawMessage(`{"a":1}`)}); err != nil {
		w.t.Fatal(err)
	}
}

// claim claims the execution with the id, waiting until it is due.
func (w *world) claim(id execution.ID) execution.Delivery {
	w.t.Helper()
	return claimOn(w.t, w.Client, id)
}

func claimOn(t *testing.T, c *leasing.Client, id execution.ID) (d execution.Delivery) {
	t.Helper()
	eventually(t, func() bool {
		ds, err := c.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 100, Duration: minute})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(ds, func(d execution.Delivery) bool { return d.ID == id })
		if i >= 0 {
			d = ds[i]
		}
		return i >= 0
	})
	return d
}

func (w *world) get(id execution.ID) execution.Record {
	w.t.Helper()
	rec, err := w.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// expire ends the etcd lease of whoever holds the execution.
func (w *world) expire(id execution.ID) {
	w.t.Helper()
	cli := testetcd.Client(w.t)
	live, err := cli.Get(w.t.Context(), w.space.Live(string(id)))
	if err != nil || len(live.Kvs) == 0 {
		w.t.Fatalf("live record of %q: %v, %v", string(id), live, err)
	}
	var rec struct {
		Proc string `json:"proc"`
	}
	if err := json.Unmarshal(live.Kvs[0].Value, &rec); err != nil {
		w.t.Fatal(err)
	}
	proc, err := cli.Get(w.t.Context(), w.space.Proc(rec.Proc))
	if err != nil || len(proc.Kvs) == 0 {
		w.t.Fatalf("proc %q: %v, %v", rec.Proc, proc, err)
	}
	if err := w.hook.Revoke(w.t.Context(), etcd.LeaseID(proc.Kvs[0].Lease)); err != nil {
		w.t.Fatal(err)
	}
}

// eventually polls until ok, with a deadline that only a broken engine misses.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatal("it did not happen within 30 s")
		case <-tick.C:
		}
	}
}
