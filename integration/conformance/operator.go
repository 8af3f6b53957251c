package conformance

import (
	"context"
	"errors"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func operatorCases() []clause {
	return []clause{
		{slug: "drain-hands-over", assert: drainHandsOver},
		{slug: "lease-ends-beneath-holder", assert: leaseEndsBeneathHolder},
		{slug: "cancel-stops-holder", assert: cancelStopsHolder},
		{slug: "fence-stops-holder", assert: fenceStopsHolder},
	}
}

// drainHandsOver: a dispatcher that shuts down counts nothing and delays nothing.
func drainHandsOver(s *scene) {
	s.admit("order")
	entered := make(chan execution.Delivery, 1)
	d := s.h.StartDispatcher(DispatcherConfig{
		Name: "leaving", Concurrency: 1,
		Handler: func(_ context.Context, d execution.Delivery, drain <-chan struct{}) Reply {
			entered <- d
			<-drain
			return acknowledge(execution.Outcome{Kind: execution.Suspended, Handover: true})
		},
	})
	first := receive(s, "a delivery", entered)
	d.Stop()
	d.Stop()
	r := s.wantRecord("order", execution.StatusSuspended, 0)
	if r.Due.IsZero() || !r.NotBefore.IsZero() {
		s.Errorf("due %v, not before %v; want due at once", r.Due, r.NotBefore)
	}
	next, ok := s.tryClaim(s.c, r.Due)
	if !ok || next.Token <= first.Token || next.Takeover {
		s.Errorf("claimed: %t, %+v; want the execution handed over", ok, next)
	}
}

// leaseEndsBeneathHolder: the lease of a dispatcher that is well runs out (it was
// cut off for a while). It renews what nobody has taken, under the same token.
func leaseEndsBeneathHolder(s *scene) {
	s.admit("order")
	entered := make(chan execution.Delivery, 1)
	over := make(chan struct{})
	s.h.StartDispatcher(DispatcherConfig{
		Name: "cut off", Concurrency: 1,
		Handler: func(_ context.Context, d execution.Delivery, _ <-chan struct{}) Reply {
			entered <- d
			<-over
			return acknowledge(completed(`1`))
		},
	})
	d := receive(s, "a delivery", entered)
	defer close(over)
	s.h.EndLease(d.Lease)
	s.eventually("the lease to be renewed", func() bool { return s.get("order").Status == execution.StatusRunning })
	s.notDue(later())
	if r := s.wantRecord("order", execution.StatusRunning, 0); r.Token != d.Token || r.Claims != 1 {
		s.Errorf("token %d after %d claims, want %d after 1", r.Token, r.Claims, d.Token)
	}
	over <- struct{}{}
	s.wantOutcome("order", `1`)
}

// stopped starts a dispatcher, lets take do something to its delivery from
// outside, and demands that the handler's context ends because the lease is lost.
func (s *scene) stopped(take func(d execution.Delivery)) {
	s.Helper()
	entered := make(chan execution.Delivery, 1)
	causes := make(chan error, 1)
	d := s.h.StartDispatcher(DispatcherConfig{
		Name: "stopped", Concurrency: 1,
		Handler: func(ctx context.Context, d execution.Delivery, drain <-chan struct{}) Reply {
			entered <- d
			select {
			case <-ctx.Done():
				causes <- context.Cause(ctx)
				return Reply{Lost: true}
			case <-drain: // it was delivered again
				return acknowledge(execution.Outcome{Kind: execution.Suspended, Handover: true})
			}
		},
	})
	delivery := receive(s, "a delivery", entered)
	take(delivery)
	if cause := receive(s, "the delivery to be stopped", causes); !errors.Is(cause, execution.ErrLost) {
		s.Errorf("its context ended by %v, want lost", cause)
	}
	d.Stop()
}

func cancelStopsHolder(s *scene) {
	s.admit("order")
	s.stopped(func(d execution.Delivery) {
		s.must(s.c.Cancel(s.ctx, "order", "changed my mind"), "cancel")
		s.must(s.c.Cancel(s.ctx, "order", "changed my mind"), "cancel again")
		s.everyWriteIsLost(d.Lease, 0)
	})
	o, err := s.c.Wait(s.ctx, "order")
	s.must(err, "wait")
	if r := s.get("order"); !o.Cancelled() || r.Status != execution.StatusFailed || r.Deliveries[0].How != execution.HowCancelled {
		s.Errorf("outcome %+v, status %s, delivery %s", o, r.Status, r.Deliveries[0].How)
	}
	s.admit("waiting")
	s.must(s.c.Cancel(s.ctx, "waiting", ""), "cancel of an execution that nobody holds")
	s.notDue(later())
}

func fenceStopsHolder(s *scene) {
	s.admit("order")
	s.stopped(func(d execution.Delivery) {
		s.must(s.c.Fence(s.ctx, "order", "looks stuck"), "fence")
		s.lost(s.c.Acknowledge(s.ctx, d.Lease, completed(`1`)), "acknowledge", d.Token, 0)
	})
	r := s.get("order")
	if past := r.Deliveries[0]; past.How != execution.HowFenced || past.Why != "looks stuck" || past.Ended.IsZero() {
		s.Errorf("delivery %+v, want it fenced for a reason", past)
	}
	if r.Claims == 1 && (r.UnacknowledgedDeliveries != 1 || !r.NotBefore.After(r.Deliveries[0].Ended)) {
		s.Errorf("%d unacknowledged deliveries, not before %v; want 1 and a delay", r.UnacknowledgedDeliveries, r.NotBefore)
	}
}
