package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The roles of a [Process].
const (
	// RoleHold holds a delivery: it records the step "before", says "holding" and
	// waits for a line; then it tries to record the step "after", says what came of
	// that, and does nothing more.
	RoleHold = "hold"
	// RoleComplete completes each delivery at once.
	RoleComplete = "complete"
)

// ProcessHandler is what a process runs in a role. It records its steps by steps,
// says a line by say, and hears those that the case tells it from heard.
func ProcessHandler(role string, steps Steps, heard <-chan string, say func(string)) (Handler, error) {
	switch role {
	case RoleHold:
		return func(ctx context.Context, d execution.Delivery, _ <-chan struct{}) Reply {
			if _, err := steps.WriteStep(ctx, d.Lease, stepOf("before", `1`)); err != nil {
				return Reply{Retry: err}
			}
			say(fmt.Sprintf("holding %d", d.Token))
			<-heard // whatever becomes of ctx: this is a step that knows nothing of it
			_, err := steps.WriteStep(context.WithoutCancel(ctx), d.Lease, stepOf("after", `2`))
			switch {
			case errors.Is(err, execution.ErrLost):
				say("lost")
			case err != nil:
				say("error: " + err.Error())
			default:
				say("accepted")
			}
			return Reply{Lost: true}
		}, nil
	case RoleComplete:
		return func(context.Context, execution.Delivery, <-chan struct{}) Reply {
			return acknowledge(completed(`"process"`))
		}, nil
	}
	return nil, fmt.Errorf("role %q: want %q or %q", role, RoleHold, RoleComplete)
}

// holding waits until a process holds the execution, and returns its delivery.
func (s *scene) holding(p Process, id execution.ID) execution.Delivery {
	s.Helper()
	line := receive(s, "the process to hold the execution", p.Lines())
	r := s.wantRecord(id, execution.StatusRunning, 0)
	if line != fmt.Sprintf("holding %d", r.Token) {
		s.Fatalf("the process says %q where the token is %d", line, r.Token)
	}
	return execution.Delivery{Lease: execution.Lease{ID: id, Token: r.Token, Incarnation: r.Incarnation, Run: r.Run}}
}

// runtimeDeath: SIGKILL of the process that holds a lease, in the middle of a
// step. Nothing is written in its name any more.
func runtimeDeath(s *scene) {
	s.admit("order")
	p := s.h.StartProcess("victim", RoleHold)
	d := s.holding(p, "order")
	p.Kill()
	for line := range p.Lines() {
		s.Errorf("the process said %q after it was killed", line)
	}
	after := s.h.Dump("order")
	s.expire(d)
	s.wantRecord("order", execution.StatusAdmitted, 1)
	s.notDue(time.UnixMilli(0)) // the expiry is noticed, and nothing claimed
	if dump := s.h.Dump("order"); dump != after {
		s.Errorf("state or steps were written after the kill:\n%s\nthen\n%s", after, dump)
	}
	next := s.claim(s.h.Peer())
	if next.Token <= d.Token || !next.Takeover {
		s.Errorf("delivery %+v after token %d", next, d.Token)
	}
	s.wantSteps(next.Lease, "before=1")
}

// pauseAndResumeProcess is pause-and-resume with a process that really stands
// still (SIGSTOP) while its lease runs out and another caller takes over.
func pauseAndResumeProcess(s *scene) {
	s.admit("order")
	p := s.h.StartProcess("paused", RoleHold)
	d := s.holding(p, "order")
	p.Pause()
	next := s.reclaim(d)
	s.write(s.h.Peer(), next.Lease, "takeover", `3`)
	s.unchanged("order", func() {
		p.Resume()
		p.Tell("go on")
		if line := receive(s, "the process to try its write", p.Lines()); line != "lost" {
			s.Errorf("the late write of the process: %s, want lost", line)
		}
	})
	s.wantSteps(next.Lease, "before=1", "takeover=3")
	s.must(s.h.Peer().Acknowledge(s.ctx, next.Lease, completed(`"second"`)), "acknowledge")
	s.wantOutcome("order", `"second"`)
}

// fromProcess says whether an outcome is that of a process with [RoleComplete].
func fromProcess(r execution.Record) bool {
	return r.Outcome != nil && strings.Contains(string(r.Outcome.Result), "process")
}
