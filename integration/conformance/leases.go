package conformance

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func claimCases() []clause {
	return []clause{
		{slug: "concurrent-claim", assert: concurrentClaim},
		{slug: "claim-sets-running", assert: claimSetsRunning},
		{slug: "claim-limit", assert: claimLimit},
		{slug: "admit-again", assert: admitAgain},
		{slug: "renew-stale", assert: renewStale},
		{slug: "renew-after-expiry", assert: renewAfterExpiry},
		{slug: "renewal-outlives-period", assert: renewalOutlivesPeriod},
	}
}

// concurrentClaim: two callers claim at once while one execution is due.
func concurrentClaim(s *scene) {
	a, b := s.c, s.h.Peer()
	for _, id := range []execution.ID{"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"} {
		s.admit(id)
		var wg sync.WaitGroup
		start := make(chan struct{})
		won := make([][]execution.Delivery, 2)
		errs := make([]error, 2)
		for i, c := range []Client{a, b} {
			wg.Go(func() {
				<-start
				won[i], errs[i] = c.ClaimDue(s.ctx, execution.ClaimRequest{Limit: 5, Duration: duration})
			})
		}
		close(start)
		wg.Wait()
		s.must(errors.Join(errs...), "claimDue")
		if n := len(won[0]) + len(won[1]); n != 1 {
			s.Fatalf("%q: %d leases, want exactly one", id, n)
		}
		if d := append(won[0], won[1]...)[0]; d.ID != id || d.Token == 0 {
			s.Errorf("claimed %q with token %d, want %q", d.ID, d.Token, id)
		}
	}
}

func claimSetsRunning(s *scene) {
	s.admit("order")
	before := s.wantRecord("order", execution.StatusAdmitted, 0)
	if before.Token != 0 || before.Due.IsZero() {
		s.Errorf("token %d, due %v; want none, and a due time", before.Token, before.Due)
	}
	d := s.claim(s.c)
	if r := s.wantRecord("order", execution.StatusRunning, 0); r.Token != d.Token || r.Claims != 1 {
		s.Errorf("token %d after %d claims, want %d after 1", r.Token, r.Claims, d.Token)
	}
	if !d.First || d.Takeover || d.Workflow != workflow || string(d.Params) != `{"n":1}` || !d.ExpiresAt.After(time.Now()) {
		s.Errorf("delivery %+v", d)
	}
	s.notDue(later())
}

// claimLimit: a claim returns at most limit leases, and only of the workflows and
// queues that were asked for.
func claimLimit(s *scene) {
	for _, id := range []execution.ID{"a", "b", "c"} {
		s.admit(id)
	}
	claim := func(r execution.ClaimRequest) int {
		r.Duration = duration
		ds, err := s.c.ClaimDue(s.ctx, r)
		s.must(err, "claimDue")
		return len(ds)
	}
	if n := claim(execution.ClaimRequest{Limit: 3, Workflows: []string{"other"}}); n != 0 {
		s.Errorf("%d leases of a workflow that has no executions", n)
	}
	if n := claim(execution.ClaimRequest{Limit: 3, Queues: []string{"other"}}); n != 0 {
		s.Errorf("%d leases of a queue that has no executions", n)
	}
	if n := claim(execution.ClaimRequest{Limit: 2}); n != 2 {
		s.Errorf("%d leases with limit 2", n)
	}
	if n := claim(execution.ClaimRequest{Limit: 2}); n != 1 {
		s.Errorf("%d leases where one execution is left", n)
	}
	var invalid *execution.InvalidError
	if _, err := s.c.ClaimDue(s.ctx, execution.ClaimRequest{Limit: 0, Duration: duration}); !errors.As(err, &invalid) {
		s.Errorf("limit 0: %v, want an InvalidError", err)
	}
}

// admitAgain: an id that exists is answered, or is a conflict; nothing changes.
func admitAgain(s *scene) {
	s.admit("order")
	s.unchanged("order", func() {
		again, err := s.h.Peer().Admit(s.ctx, execution.AdmitRequest{ID: "order", Workflow: workflow, Params: []byte(`{ "n": 1 }`)})
		s.must(err, "admit again")
		if !again.Existing || again.ID != "order" {
			s.Errorf("%+v, want the existing execution", again)
		}
		for name, r := range map[string]execution.AdmitRequest{
			"other params":   {ID: "order", Workflow: workflow, Params: []byte(`{"n":2}`)},
			"other workflow": {ID: "order", Workflow: "other", Params: []byte(`{"n":1}`)},
		} {
			if _, err := s.c.Admit(s.ctx, r); !errors.Is(err, execution.ErrConflict) {
				s.Errorf("%s: %v, want a conflict", name, err)
			}
		}
	})
	fresh, err := s.c.Admit(s.ctx, execution.AdmitRequest{Workflow: workflow})
	s.must(err, "admit without an id")
	if fresh.ID == "" || fresh.Existing {
		s.Errorf("%+v, want a new id", fresh)
	}
	if _, err := s.c.Get(s.ctx, "nobody"); !errors.Is(err, execution.ErrNotFound) {
		s.Errorf("get of an unknown id: %v, want not found", err)
	}
	if err := s.c.RequestWake(s.ctx, "nobody", time.Now()); !errors.Is(err, execution.ErrNotFound) {
		s.Errorf("wake of an unknown id: %v, want not found", err)
	}
}

// renewStale: a stale token is lost, however it became so.
func renewStale(s *scene) {
	old := s.begin("order")
	d := s.reclaim(old)
	renew := func(stale execution.Delivery, current execution.Token) {
		s.Helper()
		s.unchanged("order", func() {
			_, err := s.c.Renew(s.ctx, stale.Lease, duration)
			s.lost(err, "renew", stale.Token, current)
		})
	}
	renew(old, d.Token)
	s.must(s.c.Release(s.ctx, d.Lease, "test"), "release")
	renew(old, 0)
	renew(d, 0)
	e := s.claim(s.c)
	renew(d, e.Token)
	s.must(s.c.Acknowledge(s.ctx, e.Lease, completed(`1`)), "acknowledge")
	renew(e, 0)
}

// renewAfterExpiry: a lease that ran out can be renewed while nobody has claimed
// the execution since, and counts for nothing then.
func renewAfterExpiry(s *scene) {
	d := s.begin("order")
	s.expire(d)
	s.wantRecord("order", execution.StatusAdmitted, 1)
	l, err := s.c.Renew(s.ctx, d.Lease, duration)
	s.must(err, "renew")
	if l.Token != d.Token || !l.ExpiresAt.After(time.Now()) {
		s.Errorf("%+v, want token %d", l, d.Token)
	}
	s.wantRecord("order", execution.StatusRunning, 0)
	s.notDue(later())
	s.write(s.c, l, "step", `1`)
	s.must(s.c.Acknowledge(s.ctx, l, completed(`1`)), "acknowledge")
}

// renewalOutlivesPeriod is the one case that lets time pass: a delivery goes on
// for more than two lease periods under one claim, while another caller tries to
// get it.
func renewalOutlivesPeriod(s *scene) {
	s.admit("order")
	rival := s.h.Peer()
	over := make(chan struct{})
	started := make(chan execution.Delivery, 10)
	s.h.StartDispatcher(DispatcherConfig{
		Name: "renewing", Concurrency: 1, LeaseDuration: s.h.ShortestLease(),
		Handler: func(ctx context.Context, d execution.Delivery, _ <-chan struct{}) Reply {
			started <- d
			select {
			case <-over:
				return acknowledge(completed(`"long"`))
			case <-ctx.Done():
				return Reply{Retry: ctx.Err()}
			}
		},
	})
	d := receive(s, "a delivery", started)
	end := d.ExpiresAt.Add(s.h.ShortestLease() + time.Second)
	s.eventually("two lease periods to pass", func() bool {
		if _, ok := s.tryClaim(rival, later()); ok {
			s.Fatal("claimed by another while its lease was renewed")
		}
		return time.Now().After(end)
	})
	s.wantRecord("order", execution.StatusRunning, 0)
	close(over)
	s.wantOutcome("order", `"long"`)
	if r := s.get("order"); r.Claims != 1 {
		s.Errorf("%d claims, want 1", r.Claims)
	}
}
