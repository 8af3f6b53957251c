package audit

import (
	"fmt"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
)

// A Replay follows a namespace from its first revision on, one revision after
// the other, and verifies each by itself and against the one before. Feed it a
// watch of the whole namespace. It is for one goroutine.
type Replay struct {
	n     *namespace
	f     findings
	stale int

	instances map[string]bool // of stores, all that there were
}

// NewReplay returns a replay of the empty namespace.
func NewReplay(space keyspace.Space) *Replay {
	return &Replay{n: newNamespace(space), instances: map[string]bool{}}
}

// Apply takes in the events of a batch, whole revisions in their order.
func (r *Replay) Apply(b etcd.Batch) {
	for events := b.Events; len(events) > 0; {
		revision := events[0].KV.Modified
		end := slices.IndexFunc(events, func(e etcd.Event) bool { return e.KV.Modified != revision })
		if end < 0 {
			end = len(events)
		}
		r.revision(revision, events[:end])
		events = events[end:]
	}
}

// Stale returns how many fenced writes were accepted although their token was
// not current.
func (r *Replay) Stale() int { return r.stale }

// Violations returns what was found so far, in the order of the revisions.
func (r *Replay) Violations() []Violation { return slices.Clone(r.f.list) }

// Revision returns the last revision that was taken in.
func (r *Replay) Revision() int64 { return r.f.revision }

// A past is what an execution's records were before a revision.
type past struct {
	state *kept[record.State]
	live  *kept[record.Live]
	wake  *kept[record.Wake]
	purge *kept[record.Purging]
}

// revision takes in all events of one revision, then verifies the executions and the
// stores that it touched.
func (r *Replay) revision(revision int64, events []etcd.Event) {
	r.f.revision = revision
	before := map[string]past{}
	for _, e := range events {
		if k, err := r.n.space.Parse(e.KV.Key); err == nil && k.ID != "" {
			v := r.n.view(k.ID)
			before[k.ID] = past{v.state, v.live, v.wake, v.purge}
		}
	}
	stores := r.touched(events)
	for _, e := range events {
		if e.Deleted {
			r.n.remove(e.KV.Key)
		} else {
			r.n.put(e.KV, &r.f)
		}
	}
	deleted := deletedBy(events)
	for _, e := range events {
		r.inboxEvent(e, deleted, before)
		r.stepEvent(e, before)
		r.storeEvent(e, stores)
		r.startEvent(e)
	}
	r.followStores(stores)
	for id, was := range before {
		v := r.n.view(id)
		r.n.check(v, &r.f)
		r.followDeletion(v, was)
		r.follow(v, was)
		r.followEnding(id)
		if v.empty() {
			delete(r.n.views, id)
		}
	}
}

// stepEvent verifies that a step was recorded with the token that was current
// just before, that it was not there yet, and that it stays while its execution
// exists and is not being deleted; so do a receipt and a start.
func (r *Replay) stepEvent(e etcd.Event, before map[string]past) {
	k, err := r.n.space.Parse(e.KV.Key)
	switch {
	case err != nil:
		return
	case e.Deleted:
		r.purged(k, e.KV.Key, before[k.ID])
		return
	case k.Kind != keyspace.KindStep:
		return
	}
	v, was := r.n.view(k.ID), before[k.ID].state
	s, ok := v.steps[e.KV.Key]
	if !ok {
		return // unreadable, and reported
	}
	if was == nil || !was.rec.Claimed || int64(s.rec.Token) != was.modified {
		r.stale++
		r.f.add(I3, k.ID, e.KV.Key, "a step was accepted with token %d where %s", s.rec.Token, current(was))
	}
}

// current tells which token a state makes current.
func current(s *kept[record.State]) string {
	switch {
	case s == nil:
		return "no execution existed"
	case !s.rec.Claimed:
		return "no token was current"
	}
	return fmt.Sprintf("token %d was current", s.modified)
}
