package audit

import (
	"bytes"
	"time"

	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
)

func unix(ms int64) time.Time { return time.UnixMilli(ms) }

// wanted returns the entry of the due index that the execution must have, or
// false: none.
func (v *view) wanted() (at int64, stateRevision, liveRevision int64, ok bool) {
	s := v.state.rec
	switch {
	case s.Terminal():
		return 0, 0, 0, false
	case s.Claimed && v.live != nil && v.live.rec.Reaped != 0:
		return v.live.rec.Reaped, v.state.modified, v.live.modified, true
	case s.Claimed || s.Due == 0:
		return 0, 0, 0, false
	}
	return max(s.Due, s.NotBefore), v.state.modified, 0, true
}

// checkDue verifies I6 and I8: the one entry that the execution must have, if
// any, and no other; with the revisions and the copy of the state that make a
// claim of it exact.
func (v *view) checkDue(n *namespace, f *findings) {
	at, stateRevision, liveRevision, due := v.wanted()
	want := ""
	if due {
		want = n.space.Due(keyspace.Due{Queue: v.state.rec.Queue, Priority: keyspace.DefaultPriority, At: unix(at), ID: v.id})
		if _, found := v.dues[want]; !found {
			f.add(I6, v.id, want, "due at %d, and this entry is missing", at)
		}
	}
	for key, e := range v.dues {
		if !due {
			f.add(I6, v.id, key, "an entry of an execution that can't be claimed")
		} else if key != want {
			f.add(I6, v.id, key, "an entry beside the one that is for the execution's due time, %d", at)
		}
		if notBefore := v.state.rec.NotBefore; !v.claimed() && e.at.At.Before(unix(notBefore)) {
			f.add(I8, v.id, key, "claimable before its not-before, %d", notBefore)
		}
		if key != want {
			continue
		}
		if e.rec.StateRevision != stateRevision || e.rec.LiveRevision != liveRevision {
			f.add(I6, v.id, key, "for state %d and live %d where they are at %d and %d: nobody can claim it",
				e.rec.StateRevision, e.rec.LiveRevision, stateRevision, liveRevision)
		} else if !same(e.state, v.state.rec) {
			f.add(I6, v.id, key, "its copy of the state differs from the state")
		}
	}
}

// checkDeadline verifies that an execution that waits is due at its deadline, or before,
// or since its last delivery ended.
func (v *view) checkDeadline(f *findings) {
	s := v.state.rec
	if s.Deadline == 0 || s.Claimed || s.Terminal() {
		return
	}
	bound := s.Deadline
	if last := s.Last(); last != nil {
		bound = max(bound, last.Ended)
	}
	if s.Due == 0 || s.Due > bound {
		f.add(I9, v.id, v.state.key, "due at %d (0: never), and its deadline is %d", s.Due, s.Deadline)
	}
}

// same says whether two states say the same, apart from a result, which an entry
// has no place for.
func same(a, b *record.State) bool {
	a, b = a.Clone(), b.Clone()
	a.Result, b.Result = nil, nil
	return bytes.Equal(a.Encode(), b.Encode())
}

// checkGarbage verifies the rest of I6: wakes and evictions that mean nothing.
func (v *view) checkGarbage(f *findings) {
	switch w := v.wake; {
	case w == nil:
	case !v.claimed():
		f.add(I6, v.id, w.key, "a pending wake of an execution that is not claimed")
	case w.created <= v.state.modified:
		f.add(I6, v.id, w.key, "a wake from before the claim at %d, which covers it", v.state.modified)
	case w.rec.At <= 0:
		f.add(Format, v.id, w.key, "a wake at %d", w.rec.At)
	}
	for key, e := range v.evicts {
		if e.rec.Token <= 0 || int64(e.rec.Token) >= v.state.modified {
			f.add(I6, v.id, key, "an eviction of token %d, and the state, last written at %d, was not taken away from it", e.rec.Token, v.state.modified)
		}
	}
}

// checkOrphans verifies that nothing is left of an execution that has no state, but
// for what its holder has yet to be told.
func (v *view) checkOrphans(f *findings) {
	orphan := func(key string) { f.add(I6, v.id, key, "no execution has this id") }
	if v.spec != nil {
		orphan(v.spec.key)
	}
	if v.live != nil {
		orphan(v.live.key)
	}
	if v.wake != nil {
		orphan(v.wake.key)
	}
	if v.purge != nil {
		orphan(v.purge.key)
	}
	for key := range v.dues {
		orphan(key)
	}
	for key := range v.steps {
		orphan(key)
	}
	for key := range v.dones {
		orphan(key)
	}
	for key := range v.params {
		orphan(key)
	}
}
