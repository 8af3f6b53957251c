package mutant

import (
	"time"

	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// faults are the faults by their names.
func faults() map[string]fault {
	claims := []kind{claim, takeover}
	return map[string]fault{
		// The fence.
		"fence-left-out":                     rewriting(uncompared(keyspace.KindState, fenced()...)),
		"fence-left-out-of-acknowledgements": rewriting(uncompared(keyspace.KindState, acknowledge)),
		"fence-left-out-of-releases":         rewriting(uncompared(keyspace.KindState, release)),
		"fence-left-out-of-renewals":         rewriting(uncompared(keyspace.KindState, confirm, renew, renewAll)),
		"epoch-left-out":                     rewriting(uncompared(keyspace.KindEpoch, fenced()...)),
		"step-overwritten":                   rewriting(uncompared(keyspace.KindStep, writeStep)),
		"token-repeats":                      {txn: repeatToken},
		"steps-survive-readmission":          {txn: writeSteps, get: readSteps},

		// What else a transaction demands.
		"admit-over-an-execution":                 rewriting(uncompared(keyspace.KindState, admit)),
		"start-without-start-compare":             rewriting(uncompared(keyspace.KindStart, admit)),
		"claim-without-epoch-compare":             rewriting(uncompared(keyspace.KindEpoch, claims...)),
		"claim-without-live-compare":              rewriting(uncompared(keyspace.KindLive, claims...)),
		"claim-without-process-compare":           rewriting(uncompared(keyspace.KindProc, claims...)),
		"claim-without-state-compare":             rewriting(uncompared(keyspace.KindState, claims...)),
		"reap-without-live-compare":               rewriting(uncompared(keyspace.KindLive, reap)),
		"renew-without-live-compare":              rewriting(uncompared(keyspace.KindLive, renew)),
		"renew-all-without-live-compare":          rewriting(uncompared(keyspace.KindLive, renewAll)),
		"release-without-live-compare":            rewriting(uncompared(keyspace.KindLive, release)),
		"fence-without-live-compare":              rewriting(uncompared(keyspace.KindLive, fence)),
		"cancel-without-live-compare":             rewriting(uncompared(keyspace.KindLive, cancel)),
		"cancel-without-state-compare":            rewriting(uncompared(keyspace.KindState, cancel)),
		"ack-without-wake-compare":                rewriting(uncompared(keyspace.KindWake, acknowledge)),
		"wake-without-state-compare":              rewriting(uncompared(keyspace.KindState, wakeClaimed)),
		"wake-without-wake-compare":               rewriting(uncompared(keyspace.KindWake, wakeClaimed)),
		"wake-of-unclaimed-without-state-compare": rewriting(uncompared(keyspace.KindState, wakeUnclaimed)),

		// What a transaction leaves behind, or forgets.
		"ack-blind-to-reaped-entry": rewriting(
			uncompared(keyspace.KindLive, acknowledge), undeleted(keyspace.KindDue, acknowledge)),
		"claim-leaves-entry":    rewriting(undeleted(keyspace.KindDue, claims...)),
		"claim-leaves-wake":     rewriting(undeleted(keyspace.KindWake, claims...)),
		"renew-leaves-entry":    rewriting(undeleted(keyspace.KindDue, renew)),
		"cancel-leaves-wake":    rewriting(undeleted(keyspace.KindWake, cancel)),
		"cancel-writes-no-done": rewriting(unwritten(keyspace.KindDone, cancel)),
		"fence-drops-due":       rewriting(restated(func(s *record.State) { s.Due = 0 }, fence)),
		"wake-by-process":       {txn: wakeByProcess},
		"lost-answer-as-lost":   {txn: sendTwice},
		"no-ghost-sweep":        {get: hideLiving},
		"expiry-is-not-delayed": rewriting(among([]kind{reap}, reapForNow)),
		"expiry-not-counted":    rewriting(restated(func(s *record.State) { s.Unacked-- }, takeover)),
		"counter-not-reset":     rewriting(restated(func(s *record.State) { s.Unacked = before(s) }, acknowledge)),
		"delay-shrinks":         rewriting(restated(shrinkDelay, release)),
		"drain-counts":          rewriting(restated(countHandover, acknowledge)),
	}
}

// shrinkDelay makes each redelivery delay half as long as the one before it.
func shrinkDelay(s *record.State) {
	ended := s.Last().Ended
	s.NotBefore = ended + (s.NotBefore-ended)>>(2*(s.Unacked-1))
}

// countHandover makes a release of an acknowledgement by which a shutdown hands an
// execution over.
func countHandover(s *record.State) {
	last := s.Last()
	if last.How != execution.HowSuspended || last.Why != "handed over by a shutdown" {
		return
	}
	last.How = execution.HowReleased
	s.Unacked = before(s) + 1
	s.NotBefore = last.Ended + time.Second.Milliseconds()
}

// reapForNow makes an expired claim due when the expiry is seen.
func reapForNow(p *part) {
	put, ok := p.put(keyspace.KindLive)
	if !ok {
		return // the outer one of a batch
	}
	live, err := record.DecodeLive(put.Value, 0)
	due, found := p.put(keyspace.KindDue)
	if err != nil || !found {
		return
	}
	k, err := p.space.Parse(due.Key)
	if err != nil {
		return
	}
	live.Reaped = live.Expired
	p.set(keyspace.KindLive, live.Encode())
	k.Due.At = time.UnixMilli(live.Reaped)
	due.Key = p.space.Due(k.Due)
	p.unput(keyspace.KindDue)
	p.txn.Then = append(p.txn.Then, due)
}
