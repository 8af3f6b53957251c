package simulate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/internal/memetcd"
)

// A scheduler decides what happens next.
type scheduler struct {
	*world
	rng     *rand.Rand
	begun   time.Time
	trace   io.Writer
	hash    hash.Hash
	line    string               // of the call that was let go last
	frozen  map[string]time.Time // by node name, until when
	stalled time.Time            // until when claims stand still
	later   []restart
	idle    time.Duration // the last pause, while nothing waits
	healed  bool
}

// A restart starts a node's next process.
type restart struct {
	at   time.Time
	node *node
}

// Run runs one simulation in a bubble of virtual time.
func Run(t *testing.T, o Options) Result {
	t.Helper()
	var result Result
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		w, err := newWorld(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		s := &scheduler{
			world: w, rng: rand.New(rand.NewPCG(o.Seed, 0x686f6c6466617374)), begun: time.Now(), trace: o.Trace,
			hash: sha256.New(), frozen: map[string]time.Time{},
		}
		w.gate.answer = s.answer
		s.run()
		cancel()
		w.server.Close()
		w.actors.Wait()
		result = Result{
			Seed: o.Seed, Hash: hex.EncodeToString(s.hash.Sum(nil))[:16], Virtual: time.Since(s.begun),
			Operations: w.gate.count, Rare: w.rare, Violations: w.violated(),
		}
	})
	return result
}

// run lets the world work: under faults, then without, until everything has ended.
func (s *scheduler) run() {
	actors, stop := context.WithCancel(s.ctx)
	defer stop()
	operating, retire := context.WithCancel(s.ctx)
	defer retire()
	s.actors.Go(func() { s.operator(operating, "op") })
	for i := range callers {
		s.actors.Go(func() { s.caller(actors, fmt.Sprint("c", i)) })
	}
	for _, n := range s.nodes {
		n.start()
	}
	for len(s.violated()) == 0 {
		synctest.Wait()
		s.take()
		now := time.Since(s.begun)
		switch {
		case !s.healed && now > chaos:
			retire()
			s.heal()
			continue
		case s.healed && len(s.open) == 0 && now > chaos+5*time.Second:
			stop()
			s.finish()
			return
		case now > chaos+bound:
			s.violate("stuck: %d executions have not ended %v after the last fault", len(s.open), bound)
			return
		}
		s.next()
	}
}

// next does one thing. Whatever that starts runs until it is blocked before the
// next one.
func (s *scheduler) next() {
	if len(s.later) > 0 && !time.Now().Before(s.later[0].at) {
		s.say("start %s", s.later[0].node.name)
		s.later[0].node.start()
		s.later = s.later[1:]
		return
	}
	if !s.healed && s.rng.IntN(60) == 0 {
		s.fault()
		return
	}
	ps := s.gate.eligible(s.held)
	if len(ps) == 0 || s.rng.IntN(25) == 0 {
		s.sleep(len(ps) == 0)
		return
	}
	s.idle = 0
	p := ps[s.rng.IntN(len(ps))]
	f := passes
	if !s.healed && droppable(p.call) {
		switch s.rng.IntN(30) {
		case 0:
			f = loseAnswer
			s.count("answer lost: " + p.what)
		case 1:
			f = loseCall
		}
	}
	s.rareBefore(p, ps)
	s.line = p.order
	s.gate.let(p, f)
}

func droppable(call memetcd.Call) bool { return call.Operation != memetcd.Watch }

// rareBefore counts what can be seen before a call takes effect.
func (s *scheduler) rareBefore(p *parked, ps []*parked) {
	select {
	case <-p.call.Gone:
		s.count("call arrives after its caller has gone")
	default:
	}
	if p.what != "reap" {
		return
	}
	for _, q := range ps {
		if q != p && q.call.Client != p.call.Client && q.what == "reap" {
			s.count("two reapers at once")
			return
		}
	}
}

// sleep lets time pass: while nothing waits, more and more of it.
func (s *scheduler) sleep(idle bool) {
	d := time.Duration(1+s.rng.IntN(50)) * time.Millisecond
	if idle {
		s.idle = min(max(2*s.idle, time.Millisecond), 64*time.Millisecond)
		d = s.idle
	}
	pause(s.ctx, d)
}

// held says whether a call stands still: its node is frozen, or it is a claim while
// claims are stalled and renewals pass.
func (s *scheduler) held(p *parked) bool {
	name, _, _ := strings.Cut(p.call.Client, ".")
	if time.Now().Before(s.frozen[name]) {
		return true
	}
	return time.Now().Before(s.stalled) && p.what == "claim"
}

// answer hears what became of the call that was let go last.
func (s *scheduler) answer(call memetcd.Call, f fate) {
	outcome := ""
	if call.Err != nil {
		outcome = "error"
	} else if call.Result != nil {
		outcome = fmt.Sprint(call.Result.Succeeded)
		for _, r := range call.Result.Results {
			if r.Txn != nil {
				outcome += fmt.Sprint(" ", r.Txn.Succeeded)
				if !r.Txn.Succeeded && s.gate.names.operation(call.Txn) == "reap" {
					s.count("reap came too late")
				}
				if !r.Txn.Succeeded && s.gate.names.operation(call.Txn) == "claim" {
					s.count("claim came too late")
				}
			}
		}
	}
	s.say("%s -> %s at %d%s", s.line, outcome, call.Revision, [...]string{"", ", answer lost", ""}[f])
}

// say adds a line to the history.
func (s *scheduler) say(format string, args ...any) {
	line := fmt.Sprintf("%9.3fs  "+format+"\n", append([]any{time.Since(s.begun).Seconds()}, args...)...)
	_, _ = io.WriteString(s.hash, line)
	if s.trace != nil {
		_, _ = io.WriteString(s.trace, line)
	}
}
