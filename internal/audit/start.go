package audit

import (
	"strconv"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
)

// A started is what a step has started.
type started struct {
	kept[record.Start]
	at keyspace.CallKey
}

// checkStart verifies what one start shows of I6 and I10: what it names was admitted
// with it or, if the id was free again, later.
func (n *namespace) checkStart(v *view, s started, f *findings) {
	if s.modified != s.created {
		f.add(I10, v.id, s.key, "written at revision %d and changed at %d", s.created, s.modified)
	}
	switch st := v.state; {
	case st == nil:
		f.add(I6, v.id, s.key, "no execution has this id")
	case s.at.Incarnation != st.created:
		f.add(I6, v.id, s.key, "a start of incarnation %d where the execution's is %d", s.at.Incarnation, st.created)
	case s.at.Run > st.rec.Run:
		f.add(I6, v.id, s.key, "a start of run %d where the execution's is %d", s.at.Run, st.rec.Run)
	case v.purge != nil && s.created >= v.purge.created:
		f.add(I10, v.id, s.key, "written at revision %d, and its execution was being deleted since %d", s.created, v.purge.created)
	}
	if target := n.views[s.rec.Target]; target != nil && target.state != nil && target.state.created < s.created {
		f.add(I10, v.id, s.key, "of execution %q at revision %d, which was admitted at %d", s.rec.Target, s.created, target.state.created)
	}
}

// startEvent verifies that a start was written with the admission of what it names, and
// by the run that goes on.
func (r *Replay) startEvent(e etcd.Event) {
	k, err := r.n.space.Parse(e.KV.Key)
	if err != nil || e.Deleted || k.Kind != keyspace.KindStart {
		return
	}
	v := r.n.view(k.ID)
	s, readable := v.starts[e.KV.Key]
	if !readable {
		return
	}
	if v.state != nil && v.state.rec.Run != k.Call.Run {
		r.f.add(I10, k.ID, s.key, "written by run %d, and run %d goes on", k.Call.Run, v.state.rec.Run)
	}
	if target := r.n.views[s.rec.Target]; target == nil || target.state == nil || target.state.created != e.KV.Modified {
		r.f.add(I10, k.ID, s.key, "written without the admission of execution %q", s.rec.Target)
	}
}

// checkEnding verifies those who wait for the end of an execution: it is still to come,
// or there is a notice of it; and a notice is of an end that has been.
func (n *namespace) checkEnding(s *storeView, f *findings) {
	v := n.views[s.key.ID]
	if v != nil && len(v.unreadable) > 0 {
		return
	}
	told := map[string]bool{}
	for _, c := range s.changes {
		told[c.rec.Instance] = true
		if c.rec.Version != c.version || c.rec.Instance != strconv.FormatInt(c.version, 10) {
			f.add(Format, s.key.ID, c.key, "a notice of version %d of instance %q", c.rec.Version, c.rec.Instance)
		}
		if v != nil && v.state != nil && v.state.created == c.version && !v.state.rec.Terminal() {
			f.add(I9, s.key.ID, c.key, "a notice of the end of an execution that is %s", v.state.rec.Base)
		}
	}
	for _, w := range s.waiters {
		goesOn := v != nil && v.state != nil && strconv.FormatInt(v.state.created, 10) == w.rec.Instance && !v.state.rec.Terminal()
		if !goesOn && !told[w.rec.Instance] {
			f.add(I9, w.step.ID, w.key, "waits for an end that has been, and of which there is no notice")
		}
	}
}

// followEnding verifies those who wait for the end of an execution that a revision has
// touched.
func (r *Replay) followEnding(id string) {
	if s := r.n.stores[keyspace.StoreKey{Name: endings, ID: id}]; s != nil && len(s.unreadable) == 0 {
		r.n.checkEnding(s, &r.f)
	}
}
