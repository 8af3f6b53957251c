package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

const (
	workflow = "conformance"

	// duration of a lease that no case waits for.
	duration = 30 * time.Second

	// How long to poll for what must come about, and how often.
	patience = 30 * time.Second
	interval = 10 * time.Millisecond
)

// later is a now for claims at which every redelivery delay is over.
func later() time.Time { return time.Now().Add(time.Hour) }

// A scene is a case while it runs. Its methods fail the case when what they do
// does not work; they are for the case's own goroutine.
type scene struct {
	*testing.T
	h   Harness
	c   Client
	ctx context.Context
}

func newScene(t *testing.T, h Harness) *scene {
	return &scene{T: t, h: h, c: h.Client(), ctx: t.Context()}
}

func (s *scene) must(err error, what string) {
	s.Helper()
	if err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// eventually polls until ok.
func (s *scene) eventually(what string, ok func() bool) {
	s.Helper()
	bound := time.NewTimer(patience)
	defer bound.Stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-bound.C:
			s.Fatalf("after %v still not: %s", patience, what)
		case <-s.ctx.Done():
			s.Fatalf("the test was ended before: %s", what)
		}
	}
}

// receive waits for a value that a handler sends.
func receive[T any](s *scene, what string, from <-chan T) T {
	s.Helper()
	bound := time.NewTimer(patience)
	defer bound.Stop()
	select {
	case v, ok := <-from:
		if !ok {
			s.Fatalf("ended before: %s", what)
		}
		return v
	case <-bound.C:
		s.Fatalf("after %v still not: %s", patience, what)
	}
	panic("unreachable")
}

// admit admits an execution that is due now.
func (s *scene) admit(id execution.ID) execution.ID {
	s.Helper()
	a, err := s.c.Admit(s.ctx, execution.AdmitRequest{ID: id, Workflow: workflow, Params: json.RawMessage(`{"n":1}`)})
	s.must(err, "admit")
	if a.ID != id || a.Existing {
		s.Fatalf("admit %q answered %+v", id, a)
	}
	return id
}

func (s *scene) get(id execution.ID) execution.Record {
	s.Helper()
	r, err := s.c.Get(s.ctx, id)
	s.must(err, "get")
	return r
}

// tryClaim claims at most one execution that is due at now.
func (s *scene) tryClaim(c Client, now time.Time) (execution.Delivery, bool) {
	s.Helper()
	ds, err := c.ClaimDue(s.ctx, execution.ClaimRequest{Now: now, Limit: 1, Duration: duration})
	s.must(err, "claimDue")
	if len(ds) > 1 {
		s.Fatalf("claimDue with limit 1 returned %d leases", len(ds))
	}
	if len(ds) == 0 {
		return execution.Delivery{}, false
	}
	return ds[0], true
}

// claim claims the only execution of the namespace, over any redelivery delay.
func (s *scene) claim(c Client) (d execution.Delivery) {
	s.Helper()
	s.eventually("an execution to claim", func() (ok bool) {
		d, ok = s.tryClaim(c, later())
		return ok
	})
	return d
}

// begin admits an execution and claims it.
func (s *scene) begin(id execution.ID) execution.Delivery {
	s.Helper()
	s.admit(id)
	return s.claim(s.c)
}

// expire lets the delivery's lease run out.
func (s *scene) expire(d execution.Delivery) {
	s.Helper()
	s.h.EndLease(d.Lease)
	s.eventually("the lease's end to be seen", func() bool { return s.get(d.ID).Status != execution.StatusRunning })
}

// reclaim lets the delivery's lease run out, and claims its execution for another
// caller.
func (s *scene) reclaim(d execution.Delivery) execution.Delivery {
	s.Helper()
	s.expire(d)
	next := s.claim(s.h.Peer())
	if next.ID != d.ID || next.Token <= d.Token {
		s.Fatalf("%q claimed with token %d after %q with token %d", next.ID, next.Token, d.ID, d.Token)
	}
	return next
}

// notDue demands that nothing can be claimed, at a time by which every delay is
// over; several calls, since one may only notice an expiry.
func (s *scene) notDue(now time.Time) {
	s.Helper()
	for range 3 {
		if d, ok := s.tryClaim(s.h.Peer(), now); ok {
			s.Fatalf("%q was claimed with token %d; want nothing to claim", d.ID, d.Token)
		}
	}
}

func (s *scene) write(c Client, l execution.Lease, key, response string) execution.Step {
	s.Helper()
	st, err := c.WriteStep(s.ctx, l, stepOf(key, response))
	s.must(err, "writeStep")
	return st
}

func stepOf(key, response string) execution.StepWrite {
	return execution.StepWrite{Key: key, Done: true, Response: json.RawMessage(response)}
}

// lost demands that an answer is lost, and tells of both tokens.
func (s *scene) lost(err error, operation string, carried, current execution.Token) {
	s.Helper()
	var l *execution.LostError
	switch {
	case !errors.Is(err, execution.ErrLost) || !errors.As(err, &l):
		s.Fatalf("%s with stale token %d: %v, want lost", operation, carried, err)
	case l.Operation != operation || l.Carried != carried || current != 0 && l.Current != current:
		s.Errorf("%s: lost with %+v, want token %d carried and %d current", operation, *l, carried, current)
	}
}

// unchanged demands that do changes nothing of the execution.
func (s *scene) unchanged(id execution.ID, do func()) {
	s.Helper()
	before, record := s.h.Dump(id), s.get(id)
	do()
	if after := s.h.Dump(id); after != before {
		s.Errorf("%q was changed:\n%s\nto\n%s", id, before, after)
	}
	if r := s.get(id); r.Status != record.Status || r.Token != record.Token || r.UnacknowledgedDeliveries != record.UnacknowledgedDeliveries {
		s.Errorf("%q was %s with token %d, now %s with %d", id, record.Status, record.Token, r.Status, r.Token)
	}
}

// wantRecord demands a status and a count.
func (s *scene) wantRecord(id execution.ID, status execution.Status, unacknowledged int64) execution.Record {
	s.Helper()
	r := s.get(id)
	if r.Status != status || r.UnacknowledgedDeliveries != unacknowledged {
		s.Errorf("%q is %s with %d unacknowledged deliveries, want %s with %d", id, r.Status, r.UnacknowledgedDeliveries, status, unacknowledged)
	}
	return r
}

func completed(result string) execution.Outcome {
	return execution.Outcome{Kind: execution.Completed, Result: json.RawMessage(result)}
}

func failed(message string) execution.Outcome {
	return execution.Outcome{Kind: execution.Failed, Error: &execution.Error{Message: message}}
}

func suspended() execution.Outcome { return execution.Outcome{Kind: execution.Suspended} }

func acknowledge(o execution.Outcome) Reply { return Reply{Outcome: &o} }

// wantOutcome waits for the outcome and compares its result.
func (s *scene) wantOutcome(id execution.ID, result string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	o, err := s.c.Wait(ctx, id)
	s.must(err, "wait")
	if o.Kind != execution.Completed || string(o.Result) != result {
		s.Errorf("%q came to %s %s, want completed %s", id, o.Kind, o.Result, result)
	}
}
