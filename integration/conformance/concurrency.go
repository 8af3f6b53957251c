package conformance

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func concurrencyCases() []clause {
	return []clause{
		{slug: "concurrency-n", assert: concurrencyN},
		{slug: "concurrency-bound", assert: concurrencyBound},
		{slug: "one-live-lease", assert: oneLiveLease},
		{slug: "one-live-lease-processes", needs: Processes, assert: oneLiveLeaseProcesses},
		{slug: "foreign-workflow", assert: foreignWorkflow},
	}
}

func (s *scene) admitMany(n int) []execution.ID {
	s.Helper()
	ids := make([]execution.ID, n)
	for i := range ids {
		ids[i] = s.admit(execution.ID(fmt.Sprintf("order %d", i)))
	}
	return ids
}

// count returns how many executions have the status.
func (s *scene) count(status execution.Status) int {
	s.Helper()
	page, err := s.c.List(s.ctx, execution.ListRequest{Status: status, Limit: 1000})
	s.must(err, "list")
	return len(page.Records)
}

// concurrencyN: N deliveries that all wait for each other can only end if all run.
func concurrencyN(s *scene) {
	const n = 12
	ids := s.admitMany(n)
	var running atomic.Int32
	all := make(chan struct{})
	s.h.StartDispatcher(DispatcherConfig{
		Name: "wide", Concurrency: n,
		Handler: func(ctx context.Context, _ execution.Delivery, _ <-chan struct{}) Reply {
			if running.Add(1) == n {
				close(all)
			}
			select {
			case <-all:
				return acknowledge(completed(`1`))
			case <-ctx.Done():
				return Reply{Retry: ctx.Err()}
			}
		},
	})
	for _, id := range ids {
		s.wantOutcome(id, `1`)
		if r := s.get(id); r.Claims != 1 {
			s.Errorf("%q needed %d claims", id, r.Claims)
		}
	}
}

// concurrencyBound: while as many deliveries as allowed stand still, no other
// begins, however often one looks.
func concurrencyBound(s *scene) {
	const n, bound = 20, 3
	ids := s.admitMany(n)
	var running, most atomic.Int32
	entered := make(chan struct{}, n)
	gate := make(chan struct{})
	s.h.StartDispatcher(DispatcherConfig{
		Name: "narrow", Concurrency: bound,
		Handler: func(ctx context.Context, _ execution.Delivery, _ <-chan struct{}) Reply {
			now := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
			}
			entered <- struct{}{}
			select {
			case <-gate:
				return acknowledge(completed(`1`))
			case <-ctx.Done():
				return Reply{Retry: ctx.Err()}
			}
		},
	})
	for range bound {
		receive(s, "a delivery", entered)
	}
	for range 10 {
		if n := s.count(execution.StatusRunning); n != bound {
			s.Fatalf("%d executions are running, want %d", n, bound)
		}
	}
	close(gate)
	for _, id := range ids {
		s.wantOutcome(id, `1`)
	}
	if most.Load() != bound {
		s.Errorf("%d deliveries at once, want %d", most.Load(), bound)
	}
}

// A register notes who holds what, and finds two at once.
type register struct {
	mu     sync.Mutex
	held   map[execution.ID]execution.Token
	twice  []string
	number map[execution.ID]int
}

func newRegister() *register {
	return &register{held: map[execution.ID]execution.Token{}, number: map[execution.ID]int{}}
}

func (r *register) enter(d execution.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.held[d.ID]; ok {
		r.twice = append(r.twice, fmt.Sprintf("%q with tokens %d and %d", d.ID, other, d.Token))
	}
	r.held[d.ID] = d.Token
	r.number[d.ID]++
}

func (r *register) leave(d execution.Delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.held, d.ID)
}

// counting is a handler that registers its deliveries, each of which lasts until
// it has read its own record: the token that is current must be its own.
func (s *scene) counting(r *register, gate <-chan struct{}) Handler {
	return func(ctx context.Context, d execution.Delivery, _ <-chan struct{}) Reply {
		r.enter(d)
		defer r.leave(d)
		select {
		case <-gate:
		case <-ctx.Done():
			return Reply{Retry: ctx.Err()}
		}
		rec, err := s.c.Get(ctx, d.ID)
		if err != nil {
			return Reply{Retry: err}
		}
		if rec.Token != d.Token || rec.Status != execution.StatusRunning {
			return acknowledge(failed(fmt.Sprintf("token %d while %s with token %d", d.Token, rec.Status, rec.Token)))
		}
		return acknowledge(completed(`1`))
	}
}

func oneLiveLease(s *scene) {
	ids := s.admitMany(60)
	r := newRegister()
	open := make(chan struct{})
	close(open)
	for i := range 4 {
		s.h.StartDispatcher(DispatcherConfig{Name: fmt.Sprintf("dispatcher %d", i), Concurrency: 8, Handler: s.counting(r, open)})
	}
	for _, id := range ids {
		s.wantOutcome(id, `1`)
		if rec := s.get(id); rec.Claims != 1 {
			s.Errorf("%q was claimed %d times", id, rec.Claims)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.twice) > 0 || len(r.number) != len(ids) {
		s.Errorf("%d executions delivered; two live leases of %v", len(r.number), r.twice)
	}
}

// oneLiveLeaseProcesses: dispatchers of two processes and of this one share a
// backend; none of them gets everything, and nothing is delivered twice.
func oneLiveLeaseProcesses(s *scene) {
	ids := s.admitMany(40)
	r := newRegister()
	gate := make(chan struct{})
	s.h.StartDispatcher(DispatcherConfig{Name: "here", Concurrency: 4, Handler: s.counting(r, gate)})
	s.eventually("this process to hold as much as it may", func() bool { return s.count(execution.StatusRunning) == 4 })
	s.h.StartProcess("there", RoleComplete)
	s.h.StartProcess("elsewhere", RoleComplete)
	s.eventually("the processes to complete the rest", func() bool { return s.count(execution.StatusCompleted) == len(ids)-4 })
	close(gate)
	elsewhere := 0
	for _, id := range ids {
		o, err := s.c.Wait(s.ctx, id)
		s.must(err, "wait")
		rec := s.get(id)
		if o.Kind != execution.Completed || rec.Claims != 1 {
			s.Errorf("%q came to %s after %d claims: %v", id, o.Kind, rec.Claims, o.Error)
		}
		if fromProcess(rec) {
			elsewhere++
		}
	}
	if elsewhere != len(ids)-4 {
		s.Errorf("%d executions completed by the processes, want %d", elsewhere, len(ids)-4)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.twice) > 0 {
		s.Errorf("two live leases of %v", r.twice)
	}
}

// foreignWorkflow: a dispatcher never claims a workflow that it does not have, and
// nothing is counted against one that waits.
func foreignWorkflow(s *scene) {
	for _, id := range []execution.ID{"a", "b", "c"} {
		_, err := s.c.Admit(s.ctx, execution.AdmitRequest{ID: id, Workflow: "foreign", Queue: workflow})
		s.must(err, "admit")
	}
	s.admit("own")
	s.h.StartDispatcher(DispatcherConfig{
		Name: "picky", Concurrency: 4,
		Handler: func(context.Context, execution.Delivery, <-chan struct{}) Reply { return acknowledge(completed(`1`)) },
	})
	s.wantOutcome("own", `1`)
	for _, id := range []execution.ID{"a", "b", "c"} {
		if r := s.wantRecord(id, execution.StatusAdmitted, 0); r.Claims != 0 {
			s.Errorf("%q was claimed by a dispatcher that lacks its workflow", id)
		}
	}
}
