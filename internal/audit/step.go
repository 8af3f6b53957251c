package audit

import "github.com/holdfast-io/holdfast/pkg/execution"

// checkStep verifies what one step record shows of I3, I5 and I6.
func (v *view) checkStep(s step, f *findings) {
	st := v.state
	switch {
	case s.at.Incarnation != st.created:
		f.add(I6, v.id, s.key, "a step of incarnation %d where the execution's is %d", s.at.Incarnation, st.created)
		return
	case s.at.Run > st.rec.Run:
		f.add(I6, v.id, s.key, "a step of run %d where the execution's is %d", s.at.Run, st.rec.Run)
		return
	case s.modified != s.created:
		f.add(I5, v.id, s.key, "recorded at revision %d and changed at %d", s.created, s.modified)
	case s.rec.Done && s.rec.Waiter != nil:
		f.add(Format, v.id, s.key, "done, and waits at store %q", s.rec.Waiter)
	}
	if why := v.stale(s); why != "" {
		f.add(I3, v.id, s.key, "recorded at revision %d with token %d: %s", s.created, s.rec.Token, why)
	}
}

// stale returns why the step cannot have been accepted with the token that it
// names, or "". A delivery's token is current from its claim to the next write of
// the state; of the history only the claims are known by their revisions.
func (v *view) stale(s step) string {
	st, token := v.state, s.rec.Token
	current := st.rec.Claimed && int64(token) == st.modified
	switch {
	case int64(token) <= st.created:
		return "no claim of this execution can have it"
	case int64(token) >= s.created:
		return "it was claimed later"
	case s.created >= st.modified && !current:
		return "another write of the state had ended it"
	}
	known := v.tokens()
	named := false
	for _, t := range known {
		if t > token && int64(t) < s.created {
			return "a later claim had made it stale"
		}
		named = named || t == token
	}
	reaches := int64(len(st.rec.Deliveries)) == st.rec.Claims || len(known) > 0 && token > known[0]
	if !named && reaches && st.rec.Run == 0 {
		return "no claim in the history has it"
	}
	return ""
}

// tokens returns the tokens of the history in its order, the current one last.
func (v *view) tokens() []execution.Token {
	var all []execution.Token
	for _, d := range v.state.rec.Deliveries {
		if d.How == execution.HowRunning {
			d.Token = execution.Token(v.state.modified)
		}
		all = append(all, d.Token)
	}
	return all
}
