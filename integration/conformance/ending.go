package conformance

import (
	"errors"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func endingCases() []clause {
	return []clause{
		{slug: "release-redelivers", assert: releaseRedelivers},
		{slug: "suspend-with-future-wake", assert: suspendWithFutureWake},
		{slug: "suspend-without-wake", assert: suspendWithoutWake},
		{slug: "wakes-collapse", assert: wakesCollapse},
		{slug: "acknowledge-is-final", assert: acknowledgeIsFinal},
	}
}

func releaseRedelivers(s *scene) {
	d := s.begin("order")
	s.must(s.c.Release(s.ctx, d.Lease, "a reason"), "release")
	r := s.wantRecord("order", execution.StatusAdmitted, 1)
	past := r.Deliveries[0]
	if past.How != execution.HowReleased || past.Why != "a reason" || past.Token != d.Token || past.Ended.IsZero() {
		s.Errorf("delivery %+v, want it released for a reason", past)
	}
	if !r.NotBefore.After(past.Ended) || r.Due.Before(r.NotBefore) {
		s.Errorf("due %v, not before %v, released at %v: want a delay", r.Due, r.NotBefore, past.Ended)
	}
	s.notDue(r.NotBefore.Add(-time.Millisecond))
	next, ok := s.tryClaim(s.h.Peer(), r.NotBefore)
	if !ok {
		s.Fatal("not claimable when its redelivery delay is over")
	}
	if next.Token <= d.Token || next.Takeover || next.First || next.UnacknowledgedDeliveries != 1 {
		s.Errorf("delivery %+v after token %d", next, d.Token)
	}
}

func suspendWithFutureWake(s *scene) {
	at := time.Now().Add(20 * time.Minute).Truncate(time.Millisecond)
	d := s.begin("order")
	s.must(s.c.RequestWake(s.ctx, "order", at), "requestWake")
	s.must(s.c.Acknowledge(s.ctx, d.Lease, suspended()), "acknowledge")
	r := s.wantRecord("order", execution.StatusSuspended, 0)
	if !r.Due.Equal(at) || !r.NotBefore.IsZero() || r.Token != 0 {
		s.Errorf("due %v, not before %v, token %d; want due %v", r.Due, r.NotBefore, r.Token, at)
	}
	s.notDue(at.Add(-time.Millisecond))
	next, ok := s.tryClaim(s.c, at)
	if !ok || next.Token <= d.Token || next.UnacknowledgedDeliveries != 0 {
		s.Errorf("claimed: %t, %+v; want a delivery at the wake's time", ok, next)
	}
}

func suspendWithoutWake(s *scene) {
	s.admit("order")
	s.must(s.c.RequestWake(s.ctx, "order", time.Now()), "requestWake before the claim, which covers it")
	d := s.claim(s.c)
	s.must(s.c.Acknowledge(s.ctx, d.Lease, suspended()), "acknowledge")
	if r := s.wantRecord("order", execution.StatusSuspended, 0); !r.Due.IsZero() {
		s.Errorf("due at %v, want never", r.Due)
	}
	s.notDue(later())
	s.must(s.c.RequestWake(s.ctx, "order", time.Now()), "requestWake")
	if next := s.claim(s.c); next.Token <= d.Token {
		s.Errorf("token %d after %d", next.Token, d.Token)
	}
}

// wakesCollapse: of several wakes the earliest counts, once, in whatever state the
// execution is.
func wakesCollapse(s *scene) {
	soon := time.Now().Add(10 * time.Minute).Truncate(time.Millisecond)
	late := soon.Add(time.Minute)
	wakes := func() {
		s.Helper()
		for _, at := range []time.Time{late, soon, late, soon} {
			s.must(s.h.Peer().RequestWake(s.ctx, "order", at), "requestWake")
		}
	}
	d := s.begin("order")
	wakes()
	s.must(s.c.Acknowledge(s.ctx, d.Lease, suspended()), "acknowledge")
	if r := s.get("order"); !r.Due.Equal(soon) {
		s.Errorf("claimed, then suspended: due %v, want %v", r.Due, soon)
	}
	d = s.claim(s.c)
	s.must(s.c.Acknowledge(s.ctx, d.Lease, suspended()), "acknowledge")
	s.notDue(later())
	wakes()
	if r := s.get("order"); !r.Due.Equal(soon) {
		s.Errorf("suspended: due %v, want %v", r.Due, soon)
	}
	d = s.claim(s.c)
	s.expire(d)
	wakes() // nobody has claimed it since: the holder may still go on
	s.must(s.c.Acknowledge(s.ctx, d.Lease, suspended()), "acknowledge after the expiry")
	if r := s.wantRecord("order", execution.StatusSuspended, 0); !r.Due.Equal(soon) {
		s.Errorf("expired, then suspended: due %v, want %v", r.Due, soon)
	}
}

// acknowledgeIsFinal: an outcome never changes, and nothing is delivered after it.
func acknowledgeIsFinal(s *scene) {
	d := s.begin("order")
	s.must(s.c.Acknowledge(s.ctx, d.Lease, completed(`{"total":42}`)), "acknowledge")
	s.unchanged("order", func() {
		for _, o := range []execution.Outcome{completed(`{"total":42}`), failed("no"), suspended()} {
			s.lost(s.c.Acknowledge(s.ctx, d.Lease, o), "acknowledge", d.Token, 0)
		}
		s.must(s.c.RequestWake(s.ctx, "order", time.Now()), "requestWake of a terminal execution")
		if err := s.c.Cancel(s.ctx, "order", "too late"); !errors.Is(err, execution.ErrTerminal) {
			s.Errorf("cancel: %v, want terminal", err)
		}
		s.must(s.c.Fence(s.ctx, "order", "too late"), "fence of an execution that nobody holds")
		s.notDue(later())
	})
	s.wantOutcome("order", `{"total":42}`)
	var invalid *execution.InvalidError
	d = s.begin("other")
	for _, o := range []execution.Outcome{{}, {Kind: "done"}, {Kind: execution.Failed}, completed(`{`)} {
		if err := s.c.Acknowledge(s.ctx, d.Lease, o); !errors.As(err, &invalid) {
			s.Errorf("outcome %+v: %v, want an InvalidError", o, err)
		}
	}
	s.must(s.c.Acknowledge(s.ctx, d.Lease, failed("declined")), "acknowledge")
	if o, err := s.c.Wait(s.ctx, "other"); err != nil || o.Kind != execution.Failed || o.Error.Message != "declined" {
		s.Errorf("%+v, %v; want failed: declined", o, err)
	}
}
