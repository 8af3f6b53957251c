package audit

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// follow verifies an execution against what it was before the revision.
func (r *Replay) follow(v *view, was past) {
	if v.state == nil || was.state == nil || v.state.created != was.state.created {
		return // admitted, or deleted
	}
	if v.state.modified == was.state.modified {
		r.followWake(v, was)
		r.followLive(v, was)
		return
	}
	p, s := was.state.rec, v.state.rec
	if p.Terminal() {
		r.f.add(I5, v.id, v.state.key, "written although it was %s", p.Base)
		return
	}
	if !r.followHistory(v, was) {
		return
	}
	if s.Deadline != p.Deadline {
		r.f.add(I5, v.id, v.state.key, "the deadline went from %d to %d", p.Deadline, s.Deadline)
	}
	r.followClaims(v, was)
	r.followRun(v, p, s)
	r.followCounter(v, p, s)
	r.followDue(v, was)
}

// followWake verifies that a pending wake, once answered, is not put off or
// dropped while the delivery goes on.
func (r *Replay) followWake(v *view, was past) {
	switch {
	case was.wake == nil:
	case v.wake == nil:
		r.f.add(I9, v.id, was.wake.key, "a wake was dropped while the delivery goes on")
	case v.wake.rec.At > was.wake.rec.At:
		r.f.add(I9, v.id, was.wake.key, "a wake at %d was put off to %d", was.wake.rec.At, v.wake.rec.At)
	}
}

// followLive verifies that a reaper acted on the claim that it had read: one that
// another process holds by then, or that was reaped already, is none of its business.
func (r *Replay) followLive(v *view, was past) {
	if was.live == nil || v.live == nil || was.live.modified == v.live.modified || v.live.rec.Reaped == 0 {
		return
	}
	if old := was.live.rec; old.Proc != v.live.rec.Proc || old.Reaped != 0 {
		r.f.add(I2, v.id, v.live.key, "a claim of process %q, due again at %d, was reaped as one of process %q", old.Proc, old.Reaped, v.live.rec.Proc)
	}
}

// followHistory verifies that a write of the state took away what was current
// then: the delivery that ran has ended, under its token, and what had ended
// before is as it was. Whoever wrote from a stale token or an older reading fails
// that. It returns false if so.
func (r *Replay) followHistory(v *view, was past) bool {
	want := slices.Clone(was.state.rec.Deliveries)
	if n := len(want); was.state.rec.Claimed && n > 0 {
		want[n-1].Token = execution.Token(was.state.modified)
	}
	got := slices.Clone(v.state.rec.Deliveries)
	room := record.HistoryLimit
	if n := len(got); v.state.rec.Claimed && n > 0 {
		got, room = got[:n-1], room-1
	}
	want = want[max(0, len(want)-room):]
	if n := len(want); was.state.rec.Claimed && n > 0 && n == len(got) {
		want[n-1].Ended, want[n-1].How = got[n-1].Ended, got[n-1].How
		want[n-1].Why, want[n-1].EndNonce = got[n-1].Why, got[n-1].EndNonce
	}
	if slices.EqualFunc(got, want, sameDelivery) {
		return true
	}
	r.stale++
	r.f.add(I3, v.id, v.state.key, "the state was written by somebody who did not hold it: %s, and the history then says %v where it was %v",
		current(was.state), got, want)
	return false
}

func sameDelivery(a, b record.Delivery) bool {
	extra := maps.EqualFunc(a.Extra, b.Extra, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
	a.Extra, b.Extra = nil, nil
	return extra && reflect.DeepEqual(a, b)
}

// followClaims verifies that the claims are counted, and that a claim of a
// claimed execution took it from a process that is gone, after a reaper.
func (r *Replay) followClaims(v *view, was past) {
	claims := was.state.rec.Claims
	if v.state.rec.Claimed {
		claims++
	}
	if v.state.rec.Claims != claims {
		r.f.add(I1, v.id, v.state.key, "claim %d where %d were expected", v.state.rec.Claims, claims)
	}
	if !v.state.rec.Claimed || !was.state.rec.Claimed || was.live == nil {
		return
	}
	if r.n.procs[was.live.rec.Proc] {
		r.f.add(I2, v.id, v.state.key, "claimed while the lease of process %q, with token %d, was live", was.live.rec.Proc, was.state.modified)
	}
	if was.live.rec.Reaped == 0 {
		r.f.add(I8, v.id, v.state.key, "claimed after the expiry of token %d without its redelivery delay", was.state.modified)
	}
}

// followCounter verifies I7 for one write of the state.
func (r *Replay) followCounter(v *view, p, s *record.State) {
	want := p.Unacked
	if p.Claimed {
		ended := s.Deliveries
		if s.Claimed {
			ended = ended[:len(ended)-1]
		}
		switch ended[len(ended)-1].How {
		case execution.HowReleased, execution.HowExpired, execution.HowFenced:
			want++
		case execution.HowCompleted, execution.HowFailed, execution.HowSuspended, execution.HowContinued:
			want = 0
		default: // cancelled
			return
		}
	}
	if s.Unacked != want && !s.Terminal() {
		r.f.add(I7, v.id, v.state.key, "unacknowledgedDeliveries went from %d to %d where %d was due", p.Unacked, s.Unacked, want)
	}
}

// followDue verifies that a write of the state forgot no wake and no delay.
func (r *Replay) followDue(v *view, was past) {
	p, s := was.state.rec, v.state.rec
	if s.Terminal() || s.Claimed {
		return
	}
	if !p.Claimed {
		if s.NotBefore < p.NotBefore {
			r.f.add(I8, v.id, v.state.key, "not-before went from %d back to %d", p.NotBefore, s.NotBefore)
		}
		r.promised(v, p.Due, s.NotBefore)
		return
	}
	if was.wake != nil {
		// A time that has passed is written as the time at which the delivery ended.
		r.promised(v, was.wake.rec.At, max(s.NotBefore, s.Last().Ended))
	}
	how := s.Last().How
	if (how == execution.HowReleased || how == execution.HowFenced || how == execution.HowContinued) && s.Due == 0 {
		r.f.add(I9, v.id, v.state.key, "%s, and not due any more", how)
	}
}

// promised verifies that the execution is due at the promised time or before, or
// else at the time before which it can't be.
func (r *Replay) promised(v *view, at, bound int64) {
	due := v.state.rec.Due
	if at != 0 && (due == 0 || due > max(at, bound)) {
		r.f.add(I9, v.id, v.state.key, "a delivery was promised for %d, and it is due at %d (0: never)", at, due)
	}
}
