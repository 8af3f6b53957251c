package conformance

import (
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func fencingCases() []clause {
	return []clause{
		{slug: "stale-step-write", assert: staleStepWrite},
		{slug: "stale-acknowledge", assert: staleAcknowledge},
		{slug: "pause-and-resume", assert: pauseAndResume},
		{slug: "pause-and-resume-process", needs: Processes, assert: pauseAndResumeProcess},
		{slug: "step-rewrite", assert: stepRewrite},
		{slug: "stale-store-update", assert: staleStoreUpdate},
		{slug: "stale-start", assert: staleStart},
		{slug: "stale-wake", assert: staleWake},
		{slug: "expired-holder-goes-on", assert: expiredHolderGoesOn},
		{slug: "ended-holder", assert: endedHolder},
	}
}

// wantSteps demands the recorded steps of a delivery, as key=response pairs.
func (s *scene) wantSteps(l execution.Lease, want ...string) {
	s.Helper()
	steps, err := s.h.Peer().Read(s.ctx, l)
	s.must(err, "read the steps")
	var got []string
	for _, st := range steps {
		got = append(got, st.Key+"="+string(st.Response))
	}
	if len(got) != len(want) {
		s.Fatalf("steps %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			s.Errorf("steps %v, want %v", got, want)
		}
	}
}

func staleStepWrite(s *scene) {
	stale := s.begin("order")
	s.write(s.c, stale.Lease, "charge", `"first"`)
	d := s.reclaim(stale)
	s.write(s.h.Peer(), d.Lease, "ship", `"second"`)
	s.unchanged("order", func() {
		for _, key := range []string{"new", "ship", "charge"} {
			_, err := s.c.WriteStep(s.ctx, stale.Lease, stepOf(key, `"late"`))
			s.lost(err, "writeStep", stale.Token, d.Token)
		}
	})
	s.wantSteps(d.Lease, `charge="first"`, `ship="second"`)
}

func staleAcknowledge(s *scene) {
	stale := s.begin("order")
	d := s.reclaim(stale)
	acknowledge := func() {
		s.Helper()
		for _, o := range []execution.Outcome{completed(`"stale"`), failed("stale"), suspended()} {
			s.lost(s.c.Acknowledge(s.ctx, stale.Lease, o), "acknowledge", stale.Token, d.Token)
		}
	}
	s.unchanged("order", acknowledge)
	if r := s.wantRecord("order", execution.StatusRunning, 1); r.Token != d.Token || r.Outcome != nil {
		s.Errorf("token %d, outcome %v; want %d and none", r.Token, r.Outcome, d.Token)
	}
	s.must(s.h.Peer().Acknowledge(s.ctx, d.Lease, completed(`"current"`)), "acknowledge")
	s.unchanged("order", acknowledge)
	s.wantOutcome("order", `"current"`)
}

// everyWriteIsLost demands it of all four fenced writes, in the order in which
// none could hide another.
func (s *scene) everyWriteIsLost(stale execution.Lease, current execution.Token) {
	s.Helper()
	s.unchanged(stale.ID, func() {
		_, err := s.c.WriteStep(s.ctx, stale, stepOf("late", `1`))
		s.lost(err, "writeStep", stale.Token, current)
		_, err = s.c.Renew(s.ctx, stale, duration)
		s.lost(err, "renew", stale.Token, current)
		_, err = s.c.Renew(s.ctx, stale, 2*duration)
		s.lost(err, "renew", stale.Token, current)
		s.lost(s.c.Release(s.ctx, stale, "late"), "release", stale.Token, current)
		for _, o := range []execution.Outcome{suspended(), failed("late"), completed(`1`)} {
			s.lost(s.c.Acknowledge(s.ctx, stale, o), "acknowledge", stale.Token, current)
		}
	})
}

func pauseAndResume(s *scene) {
	stale := s.begin("order")
	d := s.reclaim(stale) // the first has paused meanwhile: it knows nothing of this
	s.everyWriteIsLost(stale.Lease, d.Token)
	s.write(s.h.Peer(), d.Lease, "step", `1`)
	s.everyWriteIsLost(stale.Lease, d.Token)
	s.must(s.h.Peer().Acknowledge(s.ctx, d.Lease, suspended()), "acknowledge")
	s.everyWriteIsLost(stale.Lease, 0)
	s.must(s.c.RequestWake(s.ctx, "order", time.Now()), "requestWake")
	e := s.claim(s.h.Peer())
	s.everyWriteIsLost(stale.Lease, e.Token)
	s.everyWriteIsLost(d.Lease, e.Token)
	s.wantSteps(e.Lease, "step=1")
}

func stepRewrite(s *scene) {
	d := s.begin("order")
	first := s.write(s.c, d.Lease, "charge", `"first"`)
	rewrite := func(l execution.Lease) {
		s.Helper()
		s.unchanged("order", func() {
			again := s.write(s.h.Peer(), l, "charge", `"second"`)
			if string(again.Response) != `"first"` || again.Token != first.Token || !again.Done || again.Attempt != 0 {
				s.Errorf("the rewrite got %+v, want what was recorded", again)
			}
		})
	}
	rewrite(d.Lease)
	d = s.reclaim(d)
	rewrite(d.Lease)
	w := stepOf("charge", `"again"`)
	w.Attempt = 1
	other, err := s.c.WriteStep(s.ctx, d.Lease, w)
	s.must(err, "writeStep of another attempt")
	if string(other.Response) != `"again"` || other.Attempt != 1 || other.Token != d.Token {
		s.Errorf("another attempt: %+v", other)
	}
	s.wantSteps(d.Lease, `charge="first"`, `charge="again"`)
}

func staleWake(s *scene) {
	stale := s.begin("order")
	d := s.reclaim(stale)
	s.must(s.c.RequestWake(s.ctx, "order", time.Now()), "requestWake by the stale holder")
	s.must(s.c.RequestWake(s.ctx, "order", time.Now()), "requestWake by the stale holder, again")
	s.must(s.h.Peer().Acknowledge(s.ctx, d.Lease, suspended()), "acknowledge")
	extra := s.claim(s.h.Peer())
	s.must(s.h.Peer().Acknowledge(s.ctx, extra.Lease, suspended()), "acknowledge the extra delivery")
	s.notDue(later())
	s.must(s.c.RequestWake(s.ctx, "order", time.Now()), "requestWake by the stale holder")
	last := s.claim(s.h.Peer())
	s.must(s.h.Peer().Acknowledge(s.ctx, last.Lease, completed(`"done"`)), "acknowledge")
	s.unchanged("order", func() {
		s.must(s.c.RequestWake(s.ctx, "order", time.Now()), "requestWake by the stale holder, after the outcome")
		s.notDue(later())
	})
	s.wantOutcome("order", `"done"`)
}

// expiredHolderGoesOn: an expiry alone fences nobody. While nobody has claimed the
// execution since, its holder's writes count.
func expiredHolderGoesOn(s *scene) {
	d := s.begin("order")
	s.expire(d)
	s.notDue(time.UnixMilli(0)) // others notice, too
	s.write(s.c, d.Lease, "step", `1`)
	s.wantRecord("order", execution.StatusAdmitted, 1)
	s.must(s.c.Acknowledge(s.ctx, d.Lease, suspended()), "acknowledge")
	if r := s.wantRecord("order", execution.StatusSuspended, 0); !r.Due.IsZero() || r.Deliveries[0].How != execution.HowSuspended {
		s.Errorf("due %v after a delivery that %s; want never, suspended", r.Due, r.Deliveries[0].How)
	}
	s.notDue(later())
}

// endedHolder: after its release or acknowledgement a token is stale.
func endedHolder(s *scene) {
	d := s.begin("order")
	s.must(s.c.Release(s.ctx, d.Lease, "test"), "release")
	s.everyWriteIsLost(d.Lease, 0)
	d = s.claim(s.c)
	s.must(s.c.Acknowledge(s.ctx, d.Lease, suspended()), "acknowledge")
	s.everyWriteIsLost(d.Lease, 0)
	s.must(s.c.RequestWake(s.ctx, "order", time.Now()), "requestWake")
	d = s.claim(s.c)
	s.must(s.h.Peer().Fence(s.ctx, "order", "test"), "fence")
	s.everyWriteIsLost(d.Lease, 0)
	d = s.claim(s.c)
	s.must(s.h.Peer().Cancel(s.ctx, "order", "test"), "cancel")
	s.everyWriteIsLost(d.Lease, 0)
}
