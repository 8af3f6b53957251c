package integration_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// What the stage's callers use unless a test says otherwise: nobody waits for
// either.
const (
	longDelay = time.Hour
	longLease = time.Minute
	patience  = 30 * time.Second
)

// A stage is a namespace with a caller, for tests that force an order of
// transactions. Its methods fail the test when what they do does not work.
type stage struct {
	*harness
	*client
}

// newStage returns a stage whose history must violate no invariant.
func newStage(t *testing.T) *stage {
	t.Helper()
	return newHarness(t).stage()
}

// newUnverifiedStage returns a stage whose revisions nobody verifies.
func newUnverifiedStage(t *testing.T) *stage {
	t.Helper()
	h := &harness{t: t, store: testetcd.Start(t), space: testetcd.Space(t)}
	return h.stage()
}

func (h *harness) stage() *stage {
	h.t.Helper()
	return &stage{h, h.caller(nil)}
}

// A theatre is where tests that force an order of transactions find their stages,
// one or more in each test.
type theatre struct {
	stage      func(*testing.T) *stage
	unverified func(*testing.T) *stage // whose revisions nobody verifies

	// around runs a test that has no subtests.
	around func(t *testing.T, run func(*testing.T))

	many int // claims, where a test wants many
}

// onEmbedded has its stages on the embedded etcd.
var onEmbedded = theatre{
	stage:      newStage,
	unverified: newUnverifiedStage,
	around: func(t *testing.T, run func(*testing.T)) {
		t.Helper()
		run(t)
	},
	many: 5000,
}

// leaf runs a subtest that has no subtests.
func (th theatre) leaf(t *testing.T, name string, run func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { th.around(t, run) })
}

// caller returns a new caller whose requests go through the hook, if any.
func (h *harness) caller(hook *testetcd.Hook) *client {
	h.t.Helper()
	store := h.store
	if hook != nil {
		hook.Store, store = h.store, hook
	}
	c, err := newClient(h.t.Context(), store, h.space, leasing.DelayPolicy{Base: longDelay, Cap: 24 * time.Hour})
	if err != nil {
		h.t.Fatal(err)
	}
	return c
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) admit(id execution.ID) {
	s.t.Helper()
	_, err := s.Admit(s.t.Context(), execution.AdmitRequest{ID: id, Workflow: suiteWorkflow})
	s.must(err)
}

// claimAt claims what is due at the time: one execution, or none.
func (s *stage) claimAt(c *client, now time.Time) (execution.Delivery, bool) {
	s.t.Helper()
	ds, err := c.ClaimDue(s.t.Context(), execution.ClaimRequest{Now: now, Limit: 1, Duration: longLease})
	s.must(err)
	if len(ds) == 0 {
		return execution.Delivery{}, false
	}
	return ds[0], true
}

// never is a time by which every redelivery delay is over.
func (s *stage) never() time.Time { return time.Now().Add(48 * time.Hour) }

// claim claims the execution that must be claimable, whatever its delay. The
// caller is a new one, whose first call looks for expired leases.
func (s *stage) claim(id execution.ID) execution.Delivery {
	s.t.Helper()
	d, ok := s.claimAt(s.caller(nil), s.never())
	if !ok || d.ID != id {
		s.t.Fatalf("claimed: %t, %q; want %q to be claimable", ok, string(d.ID), string(id))
	}
	return d
}

// begin admits an execution and claims it.
func (s *stage) begin(id execution.ID) execution.Delivery {
	s.t.Helper()
	s.admit(id)
	return s.claim(id)
}

// reap lets a new caller see expired leases, and claims nothing.
func (s *stage) reap() {
	s.t.Helper()
	if d, ok := s.claimAt(s.caller(nil), time.UnixMilli(0)); ok {
		s.t.Fatalf("%q was claimed at the beginning of time", string(d.ID))
	}
}

func (s *stage) get(id execution.ID) execution.Record {
	s.t.Helper()
	r, err := s.Get(s.t.Context(), id)
	s.must(err)
	return r
}

func (s *stage) step(l execution.Lease, key string) {
	s.t.Helper()
	_, err := s.WriteStep(s.t.Context(), l, stepWrite(key))
	s.must(err)
}

func stepWrite(key string) execution.StepWrite {
	return execution.StepWrite{Key: key, Done: true, Response: []byte(`"` + key + `"`)}
}

func (s *stage) renew(l execution.Lease) {
	s.t.Helper()
	_, err := s.Renew(s.t.Context(), l, longLease)
	s.must(err)
}

func (s *stage) acknowledge(l execution.Lease, o execution.Outcome) {
	s.t.Helper()
	s.must(s.Acknowledge(s.t.Context(), l, o))
}

// complete acknowledges, so that the token must have been current to the end.
func (s *stage) complete(l execution.Lease) {
	s.t.Helper()
	s.acknowledge(l, execution.Outcome{Kind: execution.Completed})
}

// lost demands the answer lost.
func (s *stage) lost(err error) {
	s.t.Helper()
	if !errors.Is(err, execution.ErrLost) {
		s.t.Errorf("%v, want lost", err)
	}
}

// allLost demands it of every fenced write.
func (s *stage) allLost(l execution.Lease) {
	s.t.Helper()
	before := s.Dump(l.ID)
	_, err := s.WriteStep(s.t.Context(), l, stepWrite("late"))
	s.lost(err)
	_, err = s.Renew(s.t.Context(), l, longLease)
	s.lost(err)
	s.lost(s.Release(s.t.Context(), l, "late"))
	s.lost(s.Acknowledge(s.t.Context(), l, execution.Outcome{Kind: execution.Completed}))
	if after := s.Dump(l.ID); after != before {
		s.t.Errorf("refused writes changed\n%s\nto\n%s", before, after)
	}
}

// eventually polls until ok.
func (s *stage) eventually(what string, ok func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}

// dues returns the keys of the due index.
func (s *stage) dues() []keyspace.Due {
	s.t.Helper()
	span := s.space.AllDues()
	res, _, err := s.store.Get(s.t.Context(), etcd.Get{Key: span.Start, End: span.End})
	s.must(err)
	var dues []keyspace.Due
	for _, kv := range res.KVs {
		k, err := s.space.Parse(kv.Key)
		s.must(err)
		dues = append(dues, k.Due)
	}
	return dues
}

// liveOf returns the execution's live record.
func (s *stage) liveOf(id execution.ID) *record.Live {
	s.t.Helper()
	kv, ok := s.key(s.space.Live(string(id)))
	if !ok {
		s.t.Fatalf("%q has no live record", string(id))
	}
	l, err := record.DecodeLive(kv.Value, kv.Modified)
	s.must(err)
	return l
}

// writes says whether one of the transaction's operations puts the key.
func writes(txn *etcd.Txn, key string) bool {
	for _, op := range txn.Then {
		switch op := op.(type) {
		case etcd.Put:
			if op.Key == key {
				return true
			}
		case *etcd.Txn:
			if writes(op, key) {
				return true
			}
		}
	}
	return false
}

// before makes a hook that runs do when the first transaction that puts the key is
// about to be sent: between what was read for it and itself.
func before(key string, do func()) *testetcd.Hook {
	var once sync.Once
	return &testetcd.Hook{BeforeTxn: func(txn *etcd.Txn) error {
		if writes(txn, key) {
			once.Do(do)
		}
		return nil
	}}
}

// errNoAnswer is what a caller sees when an answer is lost.
var errNoAnswer = context.DeadlineExceeded

// unanswered makes a hook that loses the answer of the first transaction that puts
// the key, and then runs do, so that do comes between the two tries.
func unanswered(key string, do func()) *testetcd.Hook {
	var done atomic.Bool
	return &testetcd.Hook{AfterTxn: func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if !writes(txn, key) || !done.CompareAndSwap(false, true) {
			return res, err
		}
		do()
		return nil, errNoAnswer
	}}
}

// unsent makes a hook that loses the first transaction that puts the key before it
// reaches etcd, and then runs do.
func unsent(key string, do func(*etcd.Txn)) *testetcd.Hook {
	var done atomic.Bool
	return &testetcd.Hook{BeforeTxn: func(txn *etcd.Txn) error {
		if !writes(txn, key) || !done.CompareAndSwap(false, true) {
			return nil
		}
		do(txn)
		return errNoAnswer
	}}
}
