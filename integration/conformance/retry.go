package conformance

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func retryCases() []clause {
	return []clause{
		{slug: "retry-releases", assert: retryReleases},
		{slug: "retry-delays-grow", assert: retryDelaysGrow},
		{slug: "expiry-after-retry", assert: expiryAfterRetry},
		{slug: "ack-resets", assert: ackResets},
	}
}

var errRetry = errors.New("try again")

func retryReleases(s *scene) {
	s.admit("order")
	deliveries := make(chan execution.Delivery, 10)
	s.h.StartDispatcher(DispatcherConfig{
		Name: "retrying", Concurrency: 1,
		Handler: func(_ context.Context, d execution.Delivery, _ <-chan struct{}) Reply {
			deliveries <- d
			if d.First {
				return Reply{Retry: errRetry}
			}
			return acknowledge(completed(`1`))
		},
	})
	first := receive(s, "a delivery", deliveries)
	second := receive(s, "another delivery", deliveries)
	if first.UnacknowledgedDeliveries != 0 || second.UnacknowledgedDeliveries != 1 || second.Takeover || second.Token <= first.Token {
		s.Errorf("deliveries %+v and %+v; want the count up by one and a higher token", first, second)
	}
	s.wantOutcome("order", `1`)
	past := s.get("order").Deliveries[0]
	if past.How != execution.HowReleased || past.Why != errRetry.Error() {
		s.Errorf("the first delivery was %s for %q, want released for %q", past.How, past.Why, errRetry)
	}
}

// retryOnce runs a dispatcher for one delivery, which replies retry while the
// dispatcher drains, so that it can't be followed by another; it returns the record
// after it.
func (s *scene) retryOnce(id execution.ID) execution.Record {
	s.Helper()
	entered := make(chan execution.Delivery, 1)
	d := s.h.StartDispatcher(DispatcherConfig{
		Name: "retrying", Concurrency: 1,
		Handler: func(_ context.Context, d execution.Delivery, drain <-chan struct{}) Reply {
			entered <- d
			<-drain
			return Reply{Retry: errRetry}
		},
	})
	receive(s, "a delivery", entered)
	d.Stop()
	return s.get(id)
}

func retryDelaysGrow(s *scene) {
	s.admit("order")
	var before time.Duration
	var notBefore time.Time
	for n := int64(1); n <= 4; n++ {
		r := s.retryOnce("order")
		last := r.Deliveries[len(r.Deliveries)-1]
		if r.UnacknowledgedDeliveries != n || last.How != execution.HowReleased {
			s.Fatalf("after %d retries: %d unacknowledged deliveries, the last %s", n, r.UnacknowledgedDeliveries, last.How)
		}
		if last.Claimed.Before(notBefore) {
			s.Errorf("delivery %d began at %v, not before %v", n, last.Claimed, notBefore)
		}
		delay := r.NotBefore.Sub(last.Ended)
		if delay <= 0 || delay < before {
			s.Errorf("delay %d is %v after %v; want it non-zero and not shorter", n, delay, before)
		}
		before, notBefore = delay, r.NotBefore
	}
}

func expiryAfterRetry(s *scene) {
	s.admit("order")
	s.retryOnce("order")
	entered := make(chan execution.Delivery, 1)
	d := s.h.StartDispatcher(DispatcherConfig{
		Name: "crashing", Concurrency: 1,
		Handler: func(ctx context.Context, d execution.Delivery, _ <-chan struct{}) Reply {
			entered <- d
			<-ctx.Done()
			return Reply{Retry: ctx.Err()}
		},
	})
	second := receive(s, "another delivery", entered)
	d.Kill()
	s.expire(second)
	s.wantRecord("order", execution.StatusAdmitted, 2)
	if third := s.claim(s.h.Peer()); third.UnacknowledgedDeliveries != 2 {
		s.Errorf("delivery %+v, want 2 unacknowledged", third)
	}
	s.wantRecord("order", execution.StatusRunning, 2)
}

func ackResets(s *scene) {
	s.admit("order")
	entered := make(chan execution.Delivery, 10)
	s.h.StartDispatcher(DispatcherConfig{
		Name: "at last", Concurrency: 1,
		Handler: func(_ context.Context, d execution.Delivery, _ <-chan struct{}) Reply {
			entered <- d
			switch {
			case d.UnacknowledgedDeliveries == 3:
				return acknowledge(suspended())
			case len(entered) > 4:
				return acknowledge(completed(`1`))
			}
			return Reply{Retry: errRetry}
		},
	})
	s.eventually("the acknowledgement after three retries", func() bool { return s.get("order").Status == execution.StatusSuspended })
	r := s.wantRecord("order", execution.StatusSuspended, 0)
	if !r.Due.IsZero() || !r.NotBefore.IsZero() || len(r.Deliveries) != 4 {
		s.Errorf("due %v, not before %v after %d deliveries; want never, no bound, 4", r.Due, r.NotBefore, len(r.Deliveries))
	}
	asked := time.Now()
	s.must(s.c.RequestWake(s.ctx, "order", asked), "requestWake")
	s.wantOutcome("order", `1`)
	if last := s.get("order").Deliveries[4]; last.Claimed.Before(asked.Truncate(time.Millisecond)) || last.How != execution.HowCompleted {
		s.Errorf("the delivery after the wake: %+v, asked for at %v", last, asked)
	}
}
