package conformance

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func expiryCases() []clause {
	return []clause{
		{slug: "expiry-reclaim-higher-token", assert: expiryReclaimHigherToken},
		{slug: "expiry-returns-suspended", assert: expiryReturnsSuspended},
		{slug: "expiry-returns-admitted", assert: expiryReturnsAdmitted},
		{slug: "expiry-delays", assert: expiryDelays},
		{slug: "worker-crash", assert: workerCrash},
		{slug: "runtime-death", needs: Processes, assert: runtimeDeath},
	}
}

func expiryReclaimHigherToken(s *scene) {
	d := s.begin("order")
	for want := int64(1); want <= 3; want++ {
		next := s.reclaim(d) // demands a higher token
		if !next.Takeover || next.First || next.UnacknowledgedDeliveries != want {
			s.Errorf("delivery %+v, want a takeover after %d unacknowledged", next, want)
		}
		r := s.wantRecord("order", execution.StatusRunning, want)
		if past := r.Deliveries[want-1]; past.How != execution.HowExpired || past.Token != d.Token || past.Ended.Before(past.Claimed) {
			s.Errorf("the delivery before: %+v, want it expired with token %d", past, d.Token)
		}
		d = next
	}
}

func expiryReturnsSuspended(s *scene) {
	d := s.begin("order")
	s.must(s.c.Acknowledge(s.ctx, d.Lease, execution.Outcome{Kind: execution.Suspended, Wake: time.Now()}), "acknowledge")
	s.expire(s.claim(s.c))
	s.wantRecord("order", execution.StatusSuspended, 1)
	s.expire(s.claim(s.h.Peer()))
	s.wantRecord("order", execution.StatusSuspended, 2)
}

func expiryReturnsAdmitted(s *scene) {
	d := s.begin("order")
	s.expire(d)
	s.wantRecord("order", execution.StatusAdmitted, 1)
	d = s.claim(s.h.Peer())
	s.must(s.c.Release(s.ctx, d.Lease, "not an acknowledgement"), "release")
	s.expire(s.claim(s.c))
	s.wantRecord("order", execution.StatusAdmitted, 3)
}

// expiryDelays: after an expiry the execution waits for its redelivery delay.
func expiryDelays(s *scene) {
	d := s.begin("order")
	s.expire(d)
	var r execution.Record
	s.eventually("the expiry to be counted", func() bool {
		s.notDue(time.UnixMilli(0)) // nothing is due then; it notices expiries all the same
		r = s.get("order")
		return !r.NotBefore.IsZero()
	})
	if r.Due.Before(r.NotBefore) || !r.NotBefore.After(r.Deliveries[0].Ended) || r.Deliveries[0].How != execution.HowExpired {
		s.Errorf("due %v, not before %v, after a delivery that %s at %v", r.Due, r.NotBefore, r.Deliveries[0].How, r.Deliveries[0].Ended)
	}
	s.notDue(r.NotBefore.Add(-time.Millisecond))
	if _, ok := s.tryClaim(s.h.Peer(), r.NotBefore); !ok {
		s.Error("not claimable when its redelivery delay is over")
	}
}

// workerCrash: a dispatcher crashes in the middle of a delivery; another one
// delivers it again, and the late writes of the first reach nobody.
func workerCrash(s *scene) {
	s.admit("order")
	started := make(chan execution.Delivery, 10)
	crashing := s.h.StartDispatcher(DispatcherConfig{
		Name: "crashing", Concurrency: 1,
		Handler: func(ctx context.Context, d execution.Delivery, _ <-chan struct{}) Reply {
			started <- d
			<-ctx.Done()
			return acknowledge(completed(`"of the crashed one"`))
		},
	})
	d := receive(s, "a delivery", started)
	s.write(s.c, d.Lease, "before", `1`)
	crashing.Kill()
	s.wantRecord("order", execution.StatusRunning, 0)
	s.expire(d)
	s.wantRecord("order", execution.StatusAdmitted, 1)
	replayed := make(chan []execution.Step, 10)
	s.h.StartDispatcher(DispatcherConfig{
		Name: "second", Concurrency: 1,
		Handler: func(ctx context.Context, d execution.Delivery, _ <-chan struct{}) Reply {
			steps, err := s.c.Read(ctx, d.Lease)
			if err != nil {
				return Reply{Retry: err}
			}
			replayed <- steps
			return acknowledge(completed(`"of the second"`))
		},
	})
	s.wantOutcome("order", `"of the second"`)
	if steps := receive(s, "the steps", replayed); len(steps) != 1 || steps[0].Key != "before" || steps[0].Token != d.Token {
		s.Errorf("the second delivery finds %+v, want the step that the first recorded", steps)
	}
	r := s.get("order")
	if r.Claims != 2 || r.Deliveries[0].How != execution.HowExpired || r.Deliveries[0].Holder != "crashing" || r.Deliveries[1].Holder != "second" {
		s.Errorf("%d claims, deliveries %+v", r.Claims, r.Deliveries)
	}
}
