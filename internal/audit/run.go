package audit

import (
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// checkParams verifies that the params of the execution's run are there, and those of
// no other run: the first one's are in the spec.
func (v *view) checkParams(n *namespace, f *findings) {
	st, want := v.state, ""
	if st.rec.Run > 0 {
		want = n.space.Params(v.id, st.created, st.rec.Run)
		if _, there := v.params[want]; !there {
			f.add(I6, v.id, want, "run %d goes on, and its params are missing", st.rec.Run)
		}
	}
	for key, at := range v.params {
		if key != want {
			f.add(I6, v.id, key, "params of run %d of incarnation %d where the execution's are %d and %d", at.Run, at.Incarnation, st.rec.Run, st.created)
		}
	}
}

// followRun verifies that a run begins where its predecessor's last delivery says so,
// and nowhere else.
func (r *Replay) followRun(v *view, p, s *record.State) {
	want := p.Run
	if last := s.Last(); p.Claimed && !s.Claimed && last != nil && last.How == execution.HowContinued {
		want++
	}
	if s.Run != want {
		r.f.add(I5, v.id, v.state.key, "run %d where %d goes on", s.Run, want)
	}
}
