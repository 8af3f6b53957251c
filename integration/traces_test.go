package integration_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// TestTraces forces, one step after the other, the nine orders of events that
// broke earlier designs of the protocol. Every namespace is audited at the end, and
// every revision of it, except where a test says so.
func TestTraces(t *testing.T) { runTraces(t, onEmbedded) }

// TestTracesInMemory scripts the same orders on an etcd in memory, the one that the
// simulation draws its schedules on, in virtual time.
func TestTracesInMemory(t *testing.T) { runTraces(t, inMemory) }

// A trace forces an order of events in the theatre, or several as subtests.
type trace func(*testing.T, theatre)

func runTraces(t *testing.T, th theatre) {
	t.Helper()
	for _, c := range []struct {
		name string
		run  trace
	}{
		{"1-wake-beside-a-renewal", alone(traceWakeBesideRenewal)},
		{"2-garbage-that-becomes-due", alone(traceGarbageThatBecomesDue)},
		{"3-claim-that-arrives-late", traceClaimThatArrivesLate},
		{"4-reap-of-an-earlier-expiry", traceReapOfAnEarlierExpiry},
		{"5-fence-and-cancel-that-forget", traceFenceAndCancelThatForget},
		{"6-id-admitted-again", alone(traceIDAdmittedAgain)},
		{"7-acknowledge-tried-twice", traceAcknowledgeTriedTwice},
		{"8-one-key-put-and-deleted", alone(traceOneKeyPutAndDeleted)},
		{"9-many-reapers", alone(traceManyReapers)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, th)
		})
	}
}

// alone makes a trace of one that has no subtests.
func alone(run trace) trace {
	return func(t *testing.T, th theatre) {
		t.Helper()
		th.around(t, func(t *testing.T) { run(t, th) })
	}
}

// Claim, expiry, the wake reads, renewal, the wake writes. A wake that took the
// process's absence for "not claimed" would write the state: the holder fenced, and
// a live record that nobody can claim over.
func traceWakeBesideRenewal(t *testing.T, th theatre) {
	for _, reaped := range []bool{false, true} {
		s := th.stage(t)
		d := s.begin("order")
		s.EndLease(d.Lease)
		if reaped {
			s.reap()
		}
		waker := s.caller(before(s.space.Wake("order"), func() { s.renew(d.Lease) }))
		at := time.Now().Add(time.Minute).Truncate(time.Millisecond)
		s.must(waker.RequestWake(t.Context(), "order", at))
		if r := s.get("order"); r.Status != execution.StatusRunning || r.Token != d.Token || r.UnacknowledgedDeliveries != 0 {
			t.Errorf("reaped %t: %s with token %d and %d unacknowledged; want running with %d and none", reaped, r.Status, r.Token, r.UnacknowledgedDeliveries, d.Token)
		}
		s.step(d.Lease, "after the wake")
		s.acknowledge(d.Lease, execution.Outcome{Kind: execution.Suspended})
		if r := s.get("order"); !r.Due.Equal(at) {
			t.Errorf("reaped %t: due %v, want the wake's %v", reaped, r.Due, at)
		}
		s.complete(s.claim("order").Lease)
	}
}

// A caller reads a due entry; the execution is claimed and becomes due again at
// the same time, so that the new entry has the same key; then the caller's claim
// arrives. Whoever deletes an entry that looks like garbage deletes the new one.
func traceGarbageThatBecomesDue(t *testing.T, th theatre) {
	s := th.stage(t)
	at := time.Now().Add(10 * time.Minute).Truncate(time.Millisecond)
	_, err := s.Admit(t.Context(), execution.AdmitRequest{ID: "order", Workflow: suiteWorkflow, Due: at})
	s.must(err)
	entry := s.dues()[0]
	slow := s.caller(before(s.space.State("order"), func() {
		d, ok := s.claimAt(s.caller(nil), at)
		if !ok {
			t.Error("the faster caller could not claim")
		}
		s.acknowledge(d.Lease, execution.Outcome{Kind: execution.Suspended, Wake: at})
	}))
	if d, ok := s.claimAt(slow, at); ok {
		t.Errorf("claimed with token %d by an entry that was for an earlier state", d.Token)
	}
	if dues := s.dues(); len(dues) != 1 || dues[0] != entry {
		t.Fatalf("due index %v, want the entry %v", dues, entry)
	}
	d, ok := s.claimAt(s.caller(nil), at)
	if !ok {
		t.Fatal("due, and nobody can claim it")
	}
	s.complete(d.Lease)
}

// A claim is applied after its caller read "not claimed" and went away. Nobody
// runs it, and its process may live for ever.
func traceClaimThatArrivesLate(t *testing.T, th theatre) {
	th.leaf(t, "caller with a lease for each claim", func(t *testing.T) {
		s := th.stage(t)
		s.admit("order")
		ctx, leave := context.WithCancel(t.Context())
		var late *etcd.Txn
		c := s.caller(unsent(s.space.State("order"), func(txn *etcd.Txn) { late = txn; leave() }))
		ds, err := c.ClaimDue(ctx, execution.ClaimRequest{Limit: 1, Duration: longLease})
		if len(ds) > 0 || err == nil || errors.Is(err, execution.ErrLost) {
			t.Fatalf("%d leases, error %v; want an error that is not lost", len(ds), err)
		}
		res, err := s.store.Txn(t.Context(), late)
		s.must(err)
		if res.Succeeded {
			t.Error("the late claim was applied although its caller had gone")
		}
		if r := s.get("order"); r.Status != execution.StatusAdmitted || r.Claims != 0 {
			t.Errorf("%s after %d claims, want admitted", r.Status, r.Claims)
		}
		s.complete(s.claim("order").Lease)
	})
	th.leaf(t, "process that lives on", func(t *testing.T) {
		s := th.stage(t)
		s.admit("order")
		ctx, leave := context.WithCancel(t.Context())
		var late *etcd.Txn
		hook := unsent(s.space.State("order"), func(txn *etcd.Txn) { late = txn; leave() })
		holder := s.holder(hook)
		ds, _, err := holder.Claim(ctx, 1)
		if len(ds) > 0 || err == nil {
			t.Fatalf("%d leases, error %v; want an error", len(ds), err)
		}
		res, err := s.store.Txn(t.Context(), late)
		s.must(err)
		if !res.Succeeded || s.get("order").Status != execution.StatusRunning {
			t.Fatalf("the late claim was not applied: the process is there")
		}
		s.watch(holder)
		s.eventually("the claim that nobody runs to be released", func() bool { return s.get("order").UnacknowledgedDeliveries == 1 })
		if r := s.get("order"); r.Deliveries[0].How != execution.HowReleased || r.NotBefore.IsZero() {
			t.Errorf("delivery %+v, not before %v; want it released, with a delay", r.Deliveries[0], r.NotBefore)
		}
		s.complete(s.claim("order").Lease)
	})
	th.leaf(t, "claim whose answer is on its way", func(t *testing.T) {
		s := th.stage(t)
		s.admit("order")
		var once sync.Once
		applied, answer, scans := make(chan struct{}), make(chan struct{}), make(chan struct{}, 8)
		lives := s.space.Lives()
		holder := s.holder(&testetcd.Hook{
			AfterTxn: func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
				if writes(txn, s.space.State("order")) {
					once.Do(func() { close(applied); <-answer })
				}
				return res, err
			},
			AfterGet: func(g etcd.Get, res etcd.Result, rev int64, err error) (etcd.Result, int64, error) {
				if g.End == lives.End {
					select {
					case scans <- struct{}{}:
					default: // enough of them
					}
				}
				return res, rev, err
			},
		})
		claimed := make(chan []execution.Delivery, 1)
		go func() {
			ds, _, err := holder.Claim(t.Context(), 1)
			if err != nil {
				t.Error(err)
			}
			claimed <- ds
		}()
		<-applied
		s.watch(holder)
		for range 8 { // several rounds of both scans, and a little more
			<-scans
		}
		close(answer)
		if ds := <-claimed; len(ds) != 1 {
			t.Errorf("%d leases, want the one whose answer was slow", len(ds))
		} else {
			s.complete(ds[0].Lease)
		}
	})
}

// holder returns a holder with short scans whose requests go through the hook.
func (s *stage) holder(hook *testetcd.Hook) *leasing.Holder {
	s.t.Helper()
	h, err := s.caller(hook).NewHolder(leasing.HolderConfig{
		Name: "holder", Duration: longLease, ScanInterval: 20 * time.Millisecond,
		Queues: []string{suiteWorkflow}, Workflows: []string{suiteWorkflow},
	})
	s.must(err)
	s.t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

// watch runs the holder's watches and scans until the test ends.
func (s *stage) watch(h *leasing.Holder) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Watch(ctx, func(time.Time) {}, func(*execution.LostError) {}, func() {})
	}()
	s.t.Cleanup(func() { cancel(); <-done })
}

// Expiry, reap, renewal, long work, second expiry. The second expiry has a delay of
// its own: neither the first reap's entry, nor a reaper that is late, may give the
// execution away before that.
func traceReapOfAnEarlierExpiry(t *testing.T, th theatre) {
	th.leaf(t, "entry of the first reap", func(t *testing.T) {
		s := th.stage(t)
		d := s.begin("order")
		s.EndLease(d.Lease)
		s.reap()
		first := s.get("order").NotBefore
		s.renew(d.Lease)
		if dues := s.dues(); len(dues) != 0 {
			t.Errorf("due index %v after the renewal, want it empty", dues)
		}
		s.step(d.Lease, "long work")
		s.eventually("time to pass", func() bool { return time.Now().After(first.Add(2*time.Millisecond - longDelay)) })
		s.EndLease(d.Lease)
		if d, ok := s.claimAt(s.caller(nil), first); ok {
			t.Errorf("claimed with token %d without a delay", d.Token)
		}
		second := s.get("order").NotBefore
		if !second.After(first) {
			t.Errorf("not before %v after the second expiry, want it later than %v", second, first)
		}
		next, ok := s.claimAt(s.caller(nil), second)
		if !ok || next.UnacknowledgedDeliveries != 1 {
			t.Fatalf("claimed: %t, %+v; want a delivery after one unacknowledged", ok, next)
		}
		s.complete(next.Lease)
	})
	th.leaf(t, "reaper that is late", func(t *testing.T) {
		s := th.stage(t)
		d := s.begin("order")
		s.EndLease(d.Lease)
		late := s.caller(before(s.space.Live("order"), func() {
			s.renew(d.Lease)
			s.step(d.Lease, "long work")
			s.EndLease(d.Lease)
		}))
		if d, ok := s.claimAt(late, s.never()); ok {
			t.Errorf("claimed with token %d without a delay", d.Token)
		}
		if l := s.liveOf("order"); l.Reaped != 0 || len(s.dues()) != 0 {
			t.Errorf("the late reaper wrote %+v, due index %v; want nothing", l, s.dues())
		}
		s.reap()
		if r := s.get("order"); r.NotBefore.IsZero() || len(s.dues()) != 1 {
			t.Errorf("not before %v, due index %v; want one entry after the delay", r.NotBefore, s.dues())
		}
		s.complete(s.claim("order").Lease)
	})
}

// A fence or a cancel reads; a wake is requested and answered; then it writes. The
// fenced execution must come to a delivery, the cancelled one leave nothing behind.
func traceFenceAndCancelThatForget(t *testing.T, th theatre) {
	wake := func(s *stage) { s.must(s.RequestWake(s.t.Context(), "order", time.Now())) }
	for name, arrange := range map[string]func(s *stage, d execution.Delivery){
		"running":           func(*stage, execution.Delivery) {},
		"woken":             func(s *stage, _ execution.Delivery) { wake(s) },
		"expired":           func(s *stage, d execution.Delivery) { s.EndLease(d.Lease) },
		"woken and expired": func(s *stage, d execution.Delivery) { wake(s); s.EndLease(d.Lease) },
		"reaped":            func(s *stage, d execution.Delivery) { s.EndLease(d.Lease); s.reap() },
		"reaped and woken":  func(s *stage, d execution.Delivery) { s.EndLease(d.Lease); s.reap(); wake(s) },
		"renewed": func(s *stage, d execution.Delivery) {
			s.EndLease(d.Lease)
			s.reap()
			s.renew(d.Lease)
			wake(s)
		},
	} {
		th.leaf(t, "fence/"+name, func(t *testing.T) {
			s := th.stage(t)
			d := s.begin("order")
			arrange(s, d)
			operator := s.caller(before(s.space.State("order"), func() { wake(s) }))
			s.must(operator.Fence(t.Context(), "order", "test"))
			s.allLost(d.Lease)
			if r := s.get("order"); r.UnacknowledgedDeliveries != 1 || r.Due.IsZero() || r.Due.Before(r.NotBefore) || len(s.dues()) != 1 {
				t.Errorf("%d unacknowledged, due %v, not before %v, due index %v; want one entry after a delay", r.UnacknowledgedDeliveries, r.Due, r.NotBefore, s.dues())
			}
			s.complete(s.claim("order").Lease)
		})
		th.leaf(t, "cancel/"+name, func(t *testing.T) {
			s := th.stage(t)
			d := s.begin("order")
			arrange(s, d)
			operator := s.caller(before(s.space.State("order"), func() { wake(s) }))
			s.must(operator.Cancel(t.Context(), "order", "test"))
			s.allLost(d.Lease)
			s.cancelled("order")
		})
	}
	th.leaf(t, "wake that arrives after a cancel", func(t *testing.T) {
		s := th.stage(t)
		d := s.begin("order")
		waker := s.caller(before(s.space.Wake("order"), func() { s.must(s.Cancel(t.Context(), "order", "test")) }))
		s.must(waker.RequestWake(t.Context(), "order", time.Now()))
		s.allLost(d.Lease)
		s.cancelled("order")
	})
}

// cancelled demands that a cancelled execution is in the index of the terminal
// ones, and has neither a wake nor an entry.
func (s *stage) cancelled(id execution.ID) {
	s.t.Helper()
	if _, there := s.key(s.space.Wake(string(id))); there || len(s.dues()) != 0 {
		s.t.Errorf("a wake: %t, due index %v; want neither", there, s.dues())
	}
	dones := s.space.Dones()
	res, _, err := s.store.Get(s.t.Context(), etcd.Get{Key: dones.Start, End: dones.End})
	s.must(err)
	if r := s.get(id); r.Outcome == nil || !r.Outcome.Cancelled() || len(res.KVs) != 1 {
		s.t.Errorf("outcome %+v, %d terminal executions; want cancelled, and 1", r.Outcome, len(res.KVs))
	}
}
