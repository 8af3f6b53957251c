package audit

import "github.com/holdfast-io/holdfast/internal/keyspace"

// checkPurge verifies that only an execution that has ended is being deleted.
func (v *view) checkPurge(f *findings) {
	switch p := v.purge; {
	case p == nil:
	case !v.state.rec.Terminal():
		f.add(I5, v.id, p.key, "being deleted, and the status is %s", v.state.rec.Base)
	case p.rec.Incarnation != v.state.created:
		f.add(I6, v.id, p.key, "for incarnation %d where the execution's is %d", p.rec.Incarnation, v.state.created)
	}
}

// checkReceipt verifies what one receipt shows of I6 and I10. Those of other runtimes'
// executions belong to nothing that a namespace holds.
func (v *view) checkReceipt(r receipt, f *findings) {
	if r.modified != r.created {
		f.add(I10, v.id, r.key, "written at revision %d and changed at %d", r.created, r.modified)
	}
	switch st := v.state; {
	case r.at.Incarnation == 0:
	case st == nil:
		f.add(I6, v.id, r.key, "no execution has this id")
	case r.at.Incarnation != st.created:
		f.add(I6, v.id, r.key, "a receipt of incarnation %d where the execution's is %d", r.at.Incarnation, st.created)
	case r.at.Run > st.rec.Run:
		f.add(I6, v.id, r.key, "a receipt of run %d where the execution's is %d", r.at.Run, st.rec.Run)
	case v.purge != nil && r.created >= v.purge.created:
		f.add(I10, v.id, r.key, "written at revision %d, and its execution was being deleted since %d", r.created, v.purge.created)
	}
}

// followDeletion verifies that an execution is deleted only after that was begun, and
// that what was begun is not given up.
func (r *Replay) followDeletion(v *view, was past) {
	there := v.state != nil && was.state != nil && v.state.created == was.state.created
	switch {
	case was.state != nil && !there && was.purge == nil:
		r.f.add(I5, v.id, was.state.key, "deleted without a deletion that was begun before")
	case there && was.purge != nil && v.purge == nil:
		r.f.add(I5, v.id, was.purge.key, "a deletion that was begun was given up")
	}
}

// purged verifies that a step, a receipt or a start was deleted with its execution, or
// after its run.
func (r *Replay) purged(k keyspace.Key, key string, was past) {
	if was.purge != nil || was.state == nil {
		return
	}
	switch run := was.state.rec.Run; {
	case k.Kind == keyspace.KindStep && k.Step.Run >= run:
		r.f.add(I5, k.ID, key, "a step was deleted, and its execution is not being deleted")
	case k.Kind == keyspace.KindStart && k.Call.Run >= run:
		r.f.add(I10, k.ID, key, "a start was deleted, and its execution is not being deleted")
	case k.Kind == keyspace.KindReceipt && k.Call.Incarnation != 0 && k.Call.Run >= run:
		r.f.add(I10, k.ID, key, "a receipt was deleted, and its execution is not being deleted")
	}
}
