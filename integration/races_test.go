package integration_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// TestRaces forces further orders of events, each the one for which something that
// a transaction demands, deletes or looks for is there.
func TestRaces(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"claim-beside-a-renewal", raceClaimBesideRenewal},
		{"reap-beside-an-ending", raceReapBesideEnding},
		{"reap-beside-a-renewal", raceReapBesideRenewal},
		{"reap-beside-a-renewal-of-all", raceReapBesideRenewalOfAll},
		{"wake-beside-a-takeover", raceWakeBesideTakeover},
		{"wake-beside-an-earlier-one", raceWakeBesideEarlier},
		{"completion-beside-a-cancel", raceCompletionBesideCancel},
		{"scan-beside-a-late-claim", raceScanBesideLateClaim},
		{"restore-beside-a-delivery", raceRestoreBesideDelivery},
		{"restore-beside-a-claim", raceRestoreBesideClaim},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t)
		})
	}
}

// running demands that the execution runs under the token, as if nothing had
// happened, and that nobody can claim it; then its holder completes it.
func (s *stage) running(l execution.Lease) {
	s.t.Helper()
	if r := s.get(l.ID); r.Status != execution.StatusRunning || r.Token != l.Token || r.UnacknowledgedDeliveries != 0 {
		s.t.Errorf("%s with token %d and %d unacknowledged; want running with %d and none", r.Status, r.Token, r.UnacknowledgedDeliveries, l.Token)
	}
	s.entries(0)
	s.complete(l)
}

func (s *stage) entries(want int) {
	s.t.Helper()
	if dues := s.dues(); len(dues) != want {
		s.t.Errorf("due index %v, want %d entries", dues, want)
	}
}

// A caller finds the entry of an expired delivery; the holder renews its lease;
// then the caller claims.
func raceClaimBesideRenewal(t *testing.T) {
	s := newStage(t)
	d := s.begin("order")
	s.EndLease(d.Lease)
	s.reap()
	slow := s.caller(before(s.space.State("order"), func() { s.renew(d.Lease) }))
	if next, ok := s.claimAt(slow, s.never()); ok {
		t.Errorf("claimed with token %d while the lease of token %d was live", next.Token, d.Token)
	}
	s.running(d.Lease)
}

// A lease has expired, and nobody has seen it; a delivery is about to be ended when
// a reaper makes it due. Its entry must not be left.
func raceReapBesideEnding(t *testing.T) {
	for _, c := range []struct {
		name    string
		end     func(c *client, l execution.Lease) error
		entries int
	}{
		{"acknowledge", func(c *client, l execution.Lease) error {
			return c.Acknowledge(context.Background(), l, execution.Outcome{Kind: execution.Suspended})
		}, 0},
		{"release", func(c *client, l execution.Lease) error { return c.Release(context.Background(), l, "test") }, 1},
		{"fence", func(c *client, l execution.Lease) error { return c.Fence(context.Background(), l.ID, "test") }, 1},
		{"cancel", func(c *client, l execution.Lease) error { return c.Cancel(context.Background(), l.ID, "test") }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t)
			d := s.begin("order")
			s.EndLease(d.Lease)
			reap := func() {
				now := time.Now().UnixMilli()
				s.eventually("the next millisecond, so that the entries differ", func() bool { return time.Now().UnixMilli() > now })
				s.reap()
			}
			s.must(c.end(s.caller(before(s.space.State("order"), reap)), d.Lease))
			s.entries(c.entries)
			s.allLost(d.Lease)
		})
	}
}

// The holder renews a lease that has expired; it has read that nobody saw it when a
// reaper comes by.
func raceReapBesideRenewal(t *testing.T) {
	s := newStage(t)
	d := s.begin("order")
	s.EndLease(d.Lease)
	_, err := s.caller(before(s.space.Live("order"), s.reap)).Renew(t.Context(), d.Lease, longLease)
	s.must(err)
	s.running(d.Lease)
}

// The same of a process that moves all its leases onto a new etcd lease.
func raceReapBesideRenewalOfAll(t *testing.T) {
	s := newStage(t)
	s.admit("order")
	var ended atomic.Bool
	var once sync.Once
	holder := s.holder(&testetcd.Hook{BeforeTxn: func(txn *etcd.Txn) error {
		if ended.Load() && writes(txn, s.space.Live("order")) {
			once.Do(s.reap)
		}
		return nil
	}})
	ds, _, err := holder.Claim(t.Context(), 1)
	s.must(err)
	s.EndLease(ds[0].Lease)
	ended.Store(true)
	_, lost, err := holder.KeepAlive(t.Context())
	s.must(err)
	if len(lost) > 0 {
		t.Errorf("lost %v, want none", lost)
	}
	s.running(ds[0].Lease)
}

// A wake is requested of a delivery whose lease then expires. The takeover is the
// delivery that was asked for: no other follows.
func raceWakeBesideTakeover(t *testing.T) {
	s := newStage(t)
	d := s.begin("order")
	s.must(s.RequestWake(t.Context(), "order", time.Now()))
	s.EndLease(d.Lease)
	s.acknowledge(s.claim("order").Lease, execution.Outcome{Kind: execution.Suspended})
	if r := s.get("order"); !r.Due.IsZero() {
		t.Errorf("due %v after a delivery that began after the wake; want never", r.Due)
	}
	s.entries(0)
}

// Two callers find no wake; the one that asks for the later time is the later to
// write.
func raceWakeBesideEarlier(t *testing.T) {
	s := newStage(t)
	d := s.begin("order")
	soon := time.Now().Add(10 * time.Minute).Truncate(time.Millisecond)
	late := s.caller(before(s.space.Wake("order"), func() { s.must(s.RequestWake(t.Context(), "order", soon)) }))
	s.must(late.RequestWake(t.Context(), "order", soon.Add(time.Minute)))
	s.acknowledge(d.Lease, execution.Outcome{Kind: execution.Suspended})
	if r := s.get("order"); !r.Due.Equal(soon) {
		t.Errorf("due %v, want the earlier wake's %v", r.Due, soon)
	}
}

// An operator finds that nobody holds an execution; it is claimed and completed;
// then the operator cancels it.
func raceCompletionBesideCancel(t *testing.T) {
	s := newStage(t)
	s.admit("order")
	operator := s.caller(before(s.space.State("order"), func() { s.complete(s.claim("order").Lease) }))
	if err := operator.Cancel(t.Context(), "order", "test"); !errors.Is(err, execution.ErrTerminal) {
		t.Errorf("cancel: %v, want terminal", err)
	}
	if r := s.get("order"); r.Status != execution.StatusCompleted {
		t.Errorf("%s, want completed", r.Status)
	}
}

// A claim arrives after its caller has gone, while its process lives on. One scan
// is enough to find that nobody runs it.
func raceScanBesideLateClaim(t *testing.T) {
	s := newStage(t)
	s.admit("order")
	ctx, leave := context.WithCancel(t.Context())
	var late *etcd.Txn
	scans := make(chan struct{})
	lives := s.space.Lives()
	hook := unsent(s.space.State("order"), func(txn *etcd.Txn) { late = txn; leave() })
	hook.BeforeGet = func(g etcd.Get) error {
		if g.End == lives.End {
			select {
			case scans <- struct{}{}:
			case <-t.Context().Done():
			}
		}
		return nil
	}
	holder := s.holder(hook)
	if ds, _, err := holder.Claim(ctx, 1); len(ds) > 0 || err == nil {
		t.Fatalf("%d leases, error %v; want an error", len(ds), err)
	}
	_, err := s.store.Txn(t.Context(), late)
	s.must(err)
	s.watch(holder)
	const enough = 8 // a scan follows the one before; the first is that of a watch's beginning
	for range enough {
		<-scans
	}
	if r := s.get("order"); r.UnacknowledgedDeliveries != 1 || r.Deliveries[0].How != execution.HowReleased {
		t.Errorf("after %d scans it is %s with %d unacknowledged; want the claim that nobody runs released", enough, r.Status, r.UnacknowledgedDeliveries)
	}
}

// restore gives the namespace the epoch that it has after a restore from a backup.
func (s *stage) restore() {
	s.t.Helper()
	_, err := s.store.Txn(s.t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: s.space.Epoch(), Value: []byte("restored")}}})
	s.must(err)
}

// The namespace is restored from a backup in which the state looks as it did at the
// claim: only the epoch tells. No lease from before counts.
func raceRestoreBesideDelivery(t *testing.T) {
	s := newStage(t)
	d := s.begin("order")
	s.step(d.Lease, "before")
	s.restore()
	s.allLost(d.Lease)
	s.EndLease(d.Lease)
	next := s.claim("order")
	if next.Token <= d.Token || next.Epoch == d.Epoch {
		t.Errorf("token %d in epoch %q after %d in %q", next.Token, next.Epoch, d.Token, d.Epoch)
	}
	s.complete(next.Lease)
}

// The namespace is restored between a caller's reading and its claim, whose lease
// nobody would accept.
func raceRestoreBesideClaim(t *testing.T) {
	s := newStage(t)
	s.admit("order")
	c := s.caller(before(s.space.State("order"), s.restore))
	ds, err := c.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 1, Duration: longLease})
	if len(ds) > 0 || err == nil {
		t.Errorf("%d leases of before the restore, error %v; want an error", len(ds), err)
	}
	d, ok := s.claimAt(c, s.never())
	if !ok {
		t.Fatal("the next claim of the same caller finds nothing")
	}
	s.complete(d.Lease)
}
