package integration_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// An id is deleted and admitted again. The second life replays no step of the
// first, loses none to the first one's retention, and is closed to its holders.
// Deleting is done by hand, in the order of a retention that is slow: the state
// first gone, the steps later.
func traceIDAdmittedAgain(t *testing.T, th theatre) {
	for _, ended := range []bool{true, false} {
		s := th.unverified(t) // the steps that are left are garbage for a while
		old := s.begin("order")
		s.step(old.Lease, "charge")
		if ended {
			s.complete(old.Lease)
		}
		s.delete(s.space.State("order"), s.space.Spec("order"), s.space.Live("order"))
		s.deleteSpan(s.space.Dones())
		s.admit("order")
		s.allLost(old.Lease)
		fresh := s.claim("order")
		if fresh.Incarnation == old.Incarnation || fresh.Token <= old.Token || !fresh.First {
			t.Errorf("delivery %+v after %+v; want another incarnation, its first", fresh, old)
		}
		s.allLost(old.Lease)
		if steps, err := s.Read(t.Context(), fresh.Lease); err != nil || len(steps) != 0 {
			t.Errorf("%v, %v; want no step of the first life", steps, err)
		}
		s.step(fresh.Lease, "charge")
		s.deleteSpan(s.space.Run("order", old.Incarnation, old.Run))
		if steps, err := s.Read(t.Context(), fresh.Lease); err != nil || len(steps) != 1 || steps[0].Token != fresh.Token {
			t.Errorf("%v, %v; want the second life's own step", steps, err)
		}
		s.allLost(old.Lease)
		s.complete(fresh.Lease)
		audited(t, s.store, s.space)
	}
}

func (s *stage) delete(keys ...string) {
	s.t.Helper()
	txn := &etcd.Txn{}
	for _, key := range keys {
		txn.Then = append(txn.Then, etcd.Delete{Key: key})
	}
	_, err := s.store.Txn(s.t.Context(), txn)
	s.must(err)
}

func (s *stage) deleteSpan(span keyspace.Span) {
	s.t.Helper()
	_, err := s.store.Txn(s.t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Delete{Key: span.Start, End: span.End}}})
	s.must(err)
}

// An acknowledgement is applied, its answer is lost, and it is sent again. The
// second try is refused by its compare, which proves nothing.
func traceAcknowledgeTriedTwice(t *testing.T, th theatre) {
	for _, c := range []struct {
		name    string
		outcome execution.Outcome
		between func(s *stage)
	}{
		{"completed", execution.Outcome{Kind: execution.Completed}, func(*stage) {}},
		{"suspended", execution.Outcome{Kind: execution.Suspended}, func(*stage) {}},
		{"suspended, then woken", execution.Outcome{Kind: execution.Suspended}, func(s *stage) {
			s.must(s.RequestWake(s.t.Context(), "order", time.Now()))
		}},
		{"suspended, then claimed by another", execution.Outcome{Kind: execution.Suspended, Handover: true}, func(s *stage) {
			s.claim("order")
		}},
		{"suspended, then completed by another", execution.Outcome{Kind: execution.Suspended, Handover: true}, func(s *stage) {
			s.complete(s.claim("order").Lease)
		}},
	} {
		th.leaf(t, c.name, func(t *testing.T) {
			s := th.stage(t)
			d := s.begin("order")
			holder := s.caller(unanswered(s.space.State("order"), func() { c.between(s) }))
			if err := holder.Acknowledge(t.Context(), d.Lease, c.outcome); err != nil {
				t.Errorf("%v, want success: the first try was applied", err)
			}
			if r := s.get("order"); r.Deliveries[0].How != execution.How(c.outcome.Kind) {
				t.Errorf("the delivery was %s, want %s", r.Deliveries[0].How, c.outcome.Kind)
			}
			s.allLost(d.Lease) // but a second call is
		})
	}
	th.leaf(t, "then more deliveries than the history holds", func(t *testing.T) {
		s := th.stage(t)
		d := s.begin("order")
		holder := s.caller(unanswered(s.space.State("order"), func() {
			for range 12 {
				s.acknowledge(s.claim("order").Lease, execution.Outcome{Kind: execution.Suspended, Handover: true})
			}
		}))
		err := holder.Acknowledge(t.Context(), d.Lease, execution.Outcome{Kind: execution.Suspended, Handover: true})
		if err == nil || errors.Is(err, execution.ErrLost) || !errors.Is(err, fencing.ErrUnknown) {
			t.Errorf("%v, want an unknown outcome: nothing proves either", err)
		}
	})
	th.leaf(t, "never applied, and claimed by another", func(t *testing.T) {
		s := th.stage(t)
		d := s.begin("order")
		holder := s.caller(unsent(s.space.State("order"), func(*etcd.Txn) {
			s.EndLease(d.Lease)
			s.reap()
			s.claim("order")
		}))
		s.lost(holder.Acknowledge(t.Context(), d.Lease, execution.Outcome{Kind: execution.Completed}))
		if r := s.get("order"); r.Outcome != nil || r.UnacknowledgedDeliveries != 1 {
			t.Errorf("outcome %v, %d unacknowledged; want none, and 1", r.Outcome, r.UnacknowledgedDeliveries)
		}
	})
}

// A delivery ends whose new due entry has the key of the one that it deletes. Etcd
// refuses a transaction that does both, each time it is tried.
func traceOneKeyPutAndDeleted(t *testing.T, th theatre) {
	s := th.stage(t)
	key := s.space.Wake("nobody")
	_, err := s.store.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key}, etcd.Delete{Key: key}}})
	if !errors.Is(err, etcd.ErrDuplicateKey) {
		t.Fatalf("%v, want etcd to refuse the duplicate key", err)
	}
	d := s.begin("order")
	for range 2 {
		s.EndLease(d.Lease)
		s.reap()
		entry := s.dues()[0]
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		s.must(s.Acknowledge(ctx, d.Lease, execution.Outcome{Kind: execution.Suspended, Wake: entry.At}))
		if dues := s.dues(); len(dues) != 1 || dues[0] != entry {
			t.Errorf("due index %v, want the entry %v once", dues, entry)
		}
		if r := s.get("order"); r.Status != execution.StatusSuspended || !r.Due.Equal(entry.At) {
			t.Errorf("%s, due %v; want suspended until %v", r.Status, r.Due, entry.At)
		}
		d = s.claim("order")
	}
	s.complete(d.Lease)
}

// Many dispatchers see the same expired claims. Each claim gets one due entry, not
// one from each.
func traceManyReapers(t *testing.T, th theatre) {
	const dispatchers = 50
	claims := th.many
	s := th.stage(t)
	s.admitMany(claims)
	victim := s.holder(nil)
	for held := 0; held < claims; {
		ds, _, err := victim.Claim(t.Context(), 512)
		s.must(err)
		if held += len(ds); len(ds) == 0 {
			t.Fatalf("%d claims, and nothing more is due; want %d", held, claims)
		}
	}
	victim.Close(t.Context())
	g, ctx := errgroup.WithContext(t.Context())
	for range dispatchers {
		c := s.caller(nil)
		g.Go(func() error {
			ds, err := c.ClaimDue(ctx, execution.ClaimRequest{Limit: 1, Duration: longLease})
			if len(ds) > 0 {
				t.Errorf("%q was claimed without a delay", string(ds[0].ID))
			}
			return err
		})
	}
	s.must(g.Wait())
	span := s.space.AllDues()
	res, _, err := s.store.Get(t.Context(), etcd.Get{Key: span.Start, End: span.End, KeysOnly: true})
	s.must(err)
	for _, kv := range res.KVs {
		if kv.Created != kv.Modified {
			t.Errorf("the entry %q was written at revision %d and again at %d", kv.Key, kv.Created, kv.Modified)
		}
	}
	if len(res.KVs) != claims {
		t.Errorf("%d due entries for %d expired claims", len(res.KVs), claims)
	}
}

func (s *stage) admitMany(n int) {
	s.t.Helper()
	g, ctx := errgroup.WithContext(s.t.Context())
	g.SetLimit(64)
	for i := range n {
		g.Go(func() error {
			_, err := s.Admit(ctx, execution.AdmitRequest{ID: execution.ID(fmt.Sprintf("order %d", i)), Workflow: suiteWorkflow})
			return err
		})
	}
	s.must(g.Wait())
}
