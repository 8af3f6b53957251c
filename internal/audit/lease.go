package audit

import (
	"slices"

	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// check verifies all that can be said of one execution at one revision.
func (n *namespace) check(v *view, f *findings) {
	if len(v.unreadable) > 0 || v.empty() {
		return
	}
	for _, r := range v.receipts {
		v.checkReceipt(r, f)
	}
	for _, s := range v.starts {
		n.checkStart(v, s, f)
	}
	n.checkEvents(v, f)
	if v.state == nil {
		v.checkOrphans(f)
		return
	}
	v.checkSpec(f)
	v.checkTokens(f)
	v.checkLive(n.procs, f)
	v.checkOutcome(n, f)
	v.checkCounter(f)
	v.checkDue(n, f)
	v.checkDeadline(f)
	v.checkGarbage(f)
	v.checkPurge(f)
	v.checkParams(n, f)
	for _, s := range v.steps {
		v.checkStep(s, f)
	}
}

// checkSpec verifies that the spec is the one that the state was admitted with.
func (v *view) checkSpec(f *findings) {
	switch s := v.state; {
	case v.spec == nil:
		f.add(I6, v.id, s.key, "a state without a spec")
	case v.spec.modified != s.created:
		f.add(I5, v.id, v.spec.key, "the spec was written at revision %d, the execution admitted at %d", v.spec.modified, s.created)
	case v.spec.rec.Workflow != s.rec.Workflow || v.spec.rec.Queue != s.rec.Queue:
		f.add(I5, v.id, s.key, "workflow %q in queue %q where the spec says %q in %q",
			s.rec.Workflow, s.rec.Queue, v.spec.rec.Workflow, v.spec.rec.Queue)
	}
	if v.state.rec.Incarnation != v.state.created {
		f.add(Format, v.id, v.state.key, "incarnation %d in a state created at revision %d", v.state.rec.Incarnation, v.state.created)
	}
}

// checkTokens verifies I1: the history's tokens strictly rise, within the time
// from the admission to the last write of the state.
func (v *view) checkTokens(f *findings) {
	before := execution.Token(v.state.created)
	for i, d := range v.state.rec.Deliveries {
		if d.How == execution.HowRunning {
			if d.Token != 0 || d.Ended != 0 || !v.claimed() || i != len(v.state.rec.Deliveries)-1 {
				f.add(I2, v.id, v.state.key, "delivery %d of the history is running, which only the last of a claimed execution can be", i)
			}
			continue
		}
		if d.Token <= before {
			f.add(I1, v.id, v.state.key, "token %d of delivery %d follows token or admission %d", d.Token, i, before)
		}
		before = max(before, d.Token)
	}
	if now := execution.Token(v.state.modified); before >= now && len(v.state.rec.Deliveries) > 0 {
		f.add(I1, v.id, v.state.key, "token %d of the history where the state was written at %d", before, now)
	}
	if last := v.state.rec.Last(); v.claimed() && (last == nil || last.How != execution.HowRunning) {
		f.add(I2, v.id, v.state.key, "claimed, and no delivery of the history is running")
	}
}

// checkLive verifies I2: live exists if and only if state is claimed, and names
// its token. A reaper writes it only when its process is gone, for good.
func (v *view) checkLive(procs map[string]bool, f *findings) {
	switch {
	case !v.claimed() && v.live == nil:
		return
	case v.live == nil:
		f.add(I2, v.id, v.state.key, "claimed, and there is no live record")
		return
	case !v.claimed():
		f.add(I2, v.id, v.live.key, "a live record of an execution that is not claimed")
		return
	}
	l := v.live.rec
	if l.Token != v.state.modified {
		f.add(I2, v.id, v.live.key, "names token %d where the current one is %d", l.Token, v.state.modified)
	}
	last := v.state.rec.Last()
	if first := v.live.modified == v.state.modified; first && last != nil && last.Proc != l.Proc {
		f.add(I2, v.id, v.live.key, "names process %q where the claim was that of %q", l.Proc, last.Proc)
	}
	if l.Reaped != 0 && procs[l.Proc] {
		f.add(I2, v.id, v.live.key, "reaped, while its process %q is there", l.Proc)
	}
	if l.Reaped != 0 && l.Reaped <= l.Expired {
		f.add(I8, v.id, v.live.key, "reaped for %d, without a delay after its expiry at %d", l.Reaped, l.Expired)
	}
}

// unacknowledged returns how many deliveries at the end of the history ended
// without an acknowledgement, and whether one that was acknowledged precedes them.
func unacknowledged(s *record.State) (count int64, acknowledged bool) {
	for _, d := range slices.Backward(s.Deliveries) {
		switch d.How {
		case execution.HowReleased, execution.HowExpired, execution.HowFenced:
			count++
		case execution.HowCompleted, execution.HowFailed, execution.HowSuspended, execution.HowContinued:
			return count, true
		case execution.HowRunning, execution.HowCancelled:
		}
	}
	return count, false
}

// checkCounter verifies I7 as far as the bounded history reaches.
func (v *view) checkCounter(f *findings) {
	s := v.state.rec
	if int64(len(s.Deliveries)) > s.Claims || len(s.Deliveries) > record.HistoryLimit {
		f.add(Format, v.id, v.state.key, "%d deliveries in the history of %d claims", len(s.Deliveries), s.Claims)
		return
	}
	if last := s.Last(); last != nil && last.How == execution.HowCancelled || s.Base == execution.StatusFailed && s.Error != nil && s.Error.Code == execution.CodeCancelled {
		return // a cancel is no acknowledgement and leaves the counter as it is
	}
	count, exact := unacknowledged(s)
	exact = exact || int64(len(s.Deliveries)) == s.Claims
	if exact && s.Unacked != count || s.Unacked < count {
		f.add(I7, v.id, v.state.key, "unacknowledgedDeliveries is %d where the history has %d", s.Unacked, count)
	}
	if s.Unacked > 0 && s.NotBefore == 0 && !s.Claimed && !s.Terminal() {
		f.add(I8, v.id, v.state.key, "unacknowledgedDeliveries is %d and there is no not-before", s.Unacked)
	}
}

// checkOutcome verifies what a snapshot can show of I5: an execution that is
// terminal has the outcome that goes with its status and is in the index of the
// terminal ones, once; no other execution has either.
func (v *view) checkOutcome(n *namespace, f *findings) {
	s, key := v.state.rec, v.state.key
	kind := execution.OutcomeKind("")
	switch s.Base {
	case execution.StatusCompleted:
		kind = execution.Completed
		if last := s.Last(); last == nil || last.How != execution.HowCompleted {
			f.add(I5, v.id, key, "completed, and no delivery completed it")
		}
	case execution.StatusFailed:
		kind = execution.Failed
		if s.Error == nil {
			f.add(I5, v.id, key, "failed without an error")
		}
	case execution.StatusAdmitted, execution.StatusSuspended:
		if s.Error != nil || s.Result != nil || s.Ended != 0 {
			f.add(I5, v.id, key, "%s, with the outcome of an execution that has ended", s.Base)
		}
	default:
		f.add(Format, v.id, key, "base status %q", s.Base)
	}
	if s.Outcome != kind {
		f.add(I5, v.id, key, "status %s with outcome %q", s.Base, s.Outcome)
	}
	if s.Terminal() && s.Claimed {
		f.add(I5, v.id, key, "%s, and claimed", s.Base)
	}
	v.checkDone(n, f)
}

// checkDone verifies the index of terminal executions.
func (v *view) checkDone(n *namespace, f *findings) {
	if !v.state.rec.Terminal() {
		for key := range v.dones {
			f.add(I6, v.id, key, "in the index of terminal executions, and the status is %s", v.state.rec.Base)
		}
		return
	}
	want := n.space.Done(unix(v.state.rec.Ended), v.id)
	for key := range v.dones {
		if key != want {
			f.add(I6, v.id, key, "indexed for another time than the end, %d", v.state.rec.Ended)
		}
	}
	if _, found := v.dones[want]; !found {
		f.add(I6, v.id, want, "terminal, and not in the index of terminal executions")
	}
}
