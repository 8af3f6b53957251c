package integration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// TestUnknownOutcomes loses answers of the writes around a takeover, where a
// second try is refused whether or not the first was applied.
func TestUnknownOutcomes(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"step-applied-then-taken-over", stepAppliedThenTakenOver},
		{"step-never-sent-then-taken-over", stepNeverSentThenTakenOver},
		{"step-applied-then-deleted", stepAppliedThenDeleted},
		{"step-never-answered", stepNeverAnswered},
		{"release-applied-then-claimed", releaseAppliedThenClaimed},
		{"wake-applied-then-claimed", wakeAppliedThenClaimed},
		{"fence-applied-then-claimed", fenceAppliedThenClaimed},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t)
		})
	}
}

func (s *stage) stepKey(l execution.Lease, key string) string {
	return s.space.Step(keyspace.Step{ID: string(l.ID), Incarnation: l.Incarnation, Run: l.Run, Key: key})
}

func (s *stage) takeOver(l execution.Lease) execution.Delivery {
	s.t.Helper()
	s.EndLease(l)
	s.reap()
	return s.claim(l.ID)
}

// The step is recorded, with the holder's own token: it was accepted, though its
// token is stale by now.
func stepAppliedThenTakenOver(t *testing.T) {
	s := newStage(t)
	d := s.begin("order")
	c := s.caller(unanswered(s.stepKey(d.Lease, "charge"), func() { s.takeOver(d.Lease) }))
	st, err := c.WriteStep(t.Context(), d.Lease, stepWrite("charge"))
	if err != nil || st.Token != d.Token {
		t.Errorf("%+v, %v; want the step accepted", st, err)
	}
	s.allLost(d.Lease)
}

// Not recorded by anybody, or by another: that is lost, and nothing was written.
func stepNeverSentThenTakenOver(t *testing.T) {
	for _, byOther := range []bool{false, true} {
		s := newStage(t)
		d := s.begin("order")
		var next execution.Delivery
		c := s.caller(unsent(s.stepKey(d.Lease, "charge"), func(*etcd.Txn) {
			if next = s.takeOver(d.Lease); byOther {
				s.step(next.Lease, "charge")
			}
		}))
		_, err := c.WriteStep(t.Context(), d.Lease, stepWrite("charge"))
		s.lost(err)
		steps, err := s.Read(t.Context(), next.Lease)
		s.must(err)
		if byOther && (len(steps) != 1 || steps[0].Token != next.Token) || !byOther && len(steps) != 0 {
			t.Errorf("by another %t: steps %+v", byOther, steps)
		}
	}
}

// The execution is gone when the second try arrives: nobody can tell.
func stepAppliedThenDeleted(t *testing.T) {
	s := newUnverifiedStage(t)
	d := s.begin("order")
	c := s.caller(unanswered(s.stepKey(d.Lease, "charge"), func() {
		s.deleteSpan(s.space.StepsOf("order"))
		s.delete(s.space.State("order"), s.space.Spec("order"), s.space.Live("order"))
	}))
	_, err := c.WriteStep(t.Context(), d.Lease, stepWrite("charge"))
	if err == nil || errors.Is(err, execution.ErrLost) || !errors.Is(err, fencing.ErrUnknown) {
		t.Errorf("%v, want an unknown outcome", err)
	}
}

// Etcd does not answer until the caller gives up.
func stepNeverAnswered(t *testing.T) {
	s := newStage(t)
	d := s.begin("order")
	ctx, giveUp := context.WithCancel(t.Context())
	c := s.caller(unanswered(s.stepKey(d.Lease, "charge"), giveUp))
	_, err := c.WriteStep(ctx, d.Lease, stepWrite("charge"))
	if err == nil || errors.Is(err, execution.ErrLost) || !errors.Is(err, fencing.ErrUnknown) {
		t.Errorf("%v, want an unknown outcome", err)
	}
	again, err := s.WriteStep(t.Context(), d.Lease, execution.StepWrite{Key: "charge", Response: []byte(`"another"`)})
	if err != nil || string(again.Response) != `"charge"` {
		t.Errorf("%s, %v; want what the first call recorded", again.Response, err)
	}
	s.complete(d.Lease)
}

func releaseAppliedThenClaimed(t *testing.T) {
	s := newStage(t)
	d := s.begin("order")
	c := s.caller(unanswered(s.space.State("order"), func() { s.claim("order") }))
	s.must(c.Release(t.Context(), d.Lease, "test"))
	if r := s.get("order"); r.UnacknowledgedDeliveries != 1 || r.Claims != 2 || r.Status != execution.StatusRunning {
		t.Errorf("%s with %d unacknowledged after %d claims; want running, 1, 2", r.Status, r.UnacknowledgedDeliveries, r.Claims)
	}
	s.lost(s.Release(t.Context(), d.Lease, "test"))
}

// The second try finds the execution claimed: a wake too many at most.
func wakeAppliedThenClaimed(t *testing.T) {
	s := newStage(t)
	s.acknowledge(s.begin("order").Lease, execution.Outcome{Kind: execution.Suspended})
	var d execution.Delivery
	c := s.caller(unanswered(s.space.State("order"), func() { d = s.claim("order") }))
	s.must(c.RequestWake(t.Context(), "order", time.Now()))
	if r := s.get("order"); r.Token != d.Token || r.Status != execution.StatusRunning {
		t.Errorf("%s with token %d, want running with %d", r.Status, r.Token, d.Token)
	}
	s.complete(d.Lease)
}

// The second try must not fence the delivery that came after the first.
func fenceAppliedThenClaimed(t *testing.T) {
	s := newStage(t)
	s.begin("order")
	var d execution.Delivery
	c := s.caller(unanswered(s.space.State("order"), func() { d = s.claim("order") }))
	s.must(c.Fence(t.Context(), "order", "test"))
	s.complete(d.Lease)
}
