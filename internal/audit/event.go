package audit

import (
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
)

// A sent is an event that no step has applied.
type sent struct {
	kept[record.Event]
	at keyspace.EventKey
}

// An applied is the receipt of one that a step has applied.
type applied struct {
	kept[record.Applied]
	at keyspace.EventKey
}

// checkEvents verifies what the events of an execution show of I6 and I10.
func (n *namespace) checkEvents(v *view, f *findings) {
	for _, e := range v.events {
		v.checkEvent(e.key, e.created, e.modified, e.at, f)
		if st := v.state; st != nil && st.rec.Terminal() && e.created >= st.modified {
			f.add(I10, v.id, e.key, "sent at revision %d to an execution that had ended at %d", e.created, st.modified)
		}
	}
	written := v.doneAt()
	for _, a := range v.applied {
		v.checkEvent(a.key, a.created, a.modified, a.at, f)
		if _, pending := v.events[n.space.Event(a.at)]; pending {
			f.add(I10, v.id, a.key, "of an event that is there to be applied again")
		}
		v.checkApplied(a, written, f)
	}
}

// checkEvent verifies what events and their receipts have in common.
func (v *view) checkEvent(key string, created, modified int64, at keyspace.EventKey, f *findings) {
	if modified != created {
		f.add(I10, v.id, key, "written at revision %d and changed at %d", created, modified)
	}
	switch st := v.state; {
	case st == nil:
		f.add(I6, v.id, key, "no execution has this id")
	case at.Incarnation != st.created:
		f.add(I6, v.id, key, "of incarnation %d where the execution's is %d", at.Incarnation, st.created)
	case v.purge != nil && created >= v.purge.created:
		f.add(I10, v.id, key, "written at revision %d, and its execution was being deleted since %d", created, v.purge.created)
	}
}

// checkApplied verifies that an event was applied by the record of a step, of which
// nothing is left when its run is over.
func (v *view) checkApplied(a applied, written map[int64]step, f *findings) {
	switch st := v.state; {
	case st == nil || v.purge != nil || a.rec.Run < st.rec.Run:
		return
	case a.rec.Run > st.rec.Run:
		f.add(I6, v.id, a.key, "of run %d where the execution's is %d", a.rec.Run, st.rec.Run)
		return
	}
	if s := written[a.created]; s.at.Run == a.rec.Run && s.at.Key == a.rec.Step && s.rec != nil && s.rec.Token == a.rec.Token {
		return
	}
	f.add(I10, v.id, a.key, "written without the record of step %q, of token %d", a.rec.Step, a.rec.Token)
}

// doneAt returns the steps that are done, by the revisions at which they were recorded,
// where events were applied.
func (v *view) doneAt() map[int64]step {
	if len(v.applied) == 0 {
		return nil
	}
	done := map[int64]step{}
	for _, s := range v.steps {
		if s.rec.Done {
			done[s.created] = s
		}
	}
	return done
}

// inboxEvent verifies that an event that was sent has a delivery to come, that it goes
// with its receipt only, and that a receipt comes in its event's place.
func (r *Replay) inboxEvent(e etcd.Event, deleted map[string]bool, before map[string]past) {
	k, err := r.n.space.Parse(e.KV.Key)
	if err != nil || k.Kind != keyspace.KindEvent && k.Kind != keyspace.KindApplied {
		return
	}
	v := r.n.view(k.ID)
	switch {
	case k.Kind == keyspace.KindEvent && e.Deleted:
		if a, there := v.applied[r.n.space.Applied(k.Event)]; before[k.ID].purge == nil && (!there || a.created != e.KV.Modified) {
			r.f.add(I10, k.ID, e.KV.Key, "an event was deleted, and no step has applied it")
		}
	case k.Kind == keyspace.KindEvent:
		if s := v.state; s == nil || s.rec.Terminal() || s.rec.Claimed && v.wake == nil || !s.rec.Claimed && s.rec.Due == 0 {
			r.f.add(I9, k.ID, e.KV.Key, "an event was sent, and no delivery is to come")
		}
	case e.Deleted:
		if before[k.ID].purge == nil && before[k.ID].state != nil {
			r.f.add(I10, k.ID, e.KV.Key, "the receipt of an event was deleted, and its execution is not being deleted")
		}
	case !deleted[r.n.space.Event(k.Event)]:
		r.f.add(I10, k.ID, e.KV.Key, "the receipt of an event that was not there")
	}
}

// deletedBy returns the keys that a revision deletes.
func deletedBy(events []etcd.Event) map[string]bool {
	keys := map[string]bool{}
	for _, e := range events {
		if e.Deleted {
			keys[e.KV.Key] = true
		}
	}
	return keys
}
