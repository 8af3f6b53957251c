package holdfast

import (
	"fmt"
	"time"
)

// historyGrace is how long a call that is not recorded waits for the recorded ones that
// should have come before it. Replaying takes next to no time; what takes some is what
// the workflow's function does outside of steps.
// The delivery holds its place in the worker meanwhile, so it is short where no other call
// is under way, as in a function that does one thing after the other.
const (
	historyGrace      = 5 * time.Second
	historyGraceAlone = 500 * time.Millisecond
)

// A place is where a call stands in its run: the number of calls that had come to their
// answers when it began, plus one. At a place that is not later than the present one
// the function has all that it needs to make the call again. A call that began while
// another one was under way, in parallel or inside of it, has none, which is 0: when it
// comes is not the function's alone to say.
type place = int64

// noteLocked notes that a call has begun.
func (r *run) noteLocked(name string) {
	r.used[name] = true
	if r.underWay == 0 {
		r.places[name] = r.answers + 1
	}
	r.underWay++
	if _, recorded := r.recorded[name]; recorded {
		r.replayed++
	}
	r.moveLocked()
}

// over notes that a call is over, by an answer or without one.
func (r *run) over(answered bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay--
	if answered {
		r.answers++
		r.moveLocked()
	}
}

// moveLocked tells those who wait for the replay to come further.
func (r *run) moveLocked() {
	if r.moved != nil {
		close(r.moved)
		r.moved = nil
	}
}

// aheadLocked returns a recorded call that the function could have made by now and has
// not, or "". It is one that comes first.
func (r *run) aheadLocked() string {
	if r.replayed == len(r.recorded) {
		return ""
	}
	name, first := "", place(0)
	for key, rec := range r.recorded {
		if r.used[key] || rec.Place == 0 || rec.Place > r.answers+1 {
			continue
		}
		if name == "" || rec.Place < first || rec.Place == first && key < name {
			name, first = key, rec.Place
		}
	}
	return name
}

// caughtUp lets a call that is not recorded wait until the replay has come by all
// recorded calls that are due before it. If it does not, the function is not the one
// that made the records: the delivery is broken off before the call does anything, and
// says so. It is redelivered, since the former function may come back.
func (r *run) caughtUp(what string) error {
	var grace <-chan time.Time
	for {
		r.mu.Lock()
		ahead := r.aheadLocked()
		hard, suspended, alone := r.latch.hard(), r.latch.set(), r.underWay == 1
		if ahead != "" && r.moved == nil {
			r.moved = make(chan struct{})
		}
		moved := r.moved
		r.mu.Unlock()
		switch {
		case ahead == "":
			return nil
		case hard:
			return ErrSuspended
		case grace == nil:
			pause := historyGrace
			if alone {
				pause = historyGraceAlone
			}
			timer := time.NewTimer(pause)
			defer timer.Stop()
			grace = timer.C
		}
		select {
		case <-moved:
		case <-r.drain:
			return r.handOver()
		case <-r.ctx.Done():
			if r.interrupted() {
				return ErrSuspended
			}
		case <-grace:
			if suspended { // it may wait for what this worker's clock says has not come yet
				return ErrSuspended
			}
			return r.breakOff(&HistoryError{Workflow: r.workflow, Call: what, Recorded: ahead})
		}
	}
}

// A HistoryError says that a workflow's code does not fit what an execution has
// recorded: it made a call that is not recorded, and left out one that is. The call did
// nothing. The execution is delivered again and again, with the redelivery delay, until
// code runs that fits: bring the former code back, or guard the change by [Version].
type HistoryError struct {
	Workflow string
	Call     string // what the code called, such as: step "reserve"
	Recorded string // the name that is recorded in its place
}

func (e *HistoryError) Error() string {
	return fmt.Sprintf("workflow %q comes to %s where %q is recorded: its code has changed in a way that this execution's history does not fit; bring the former code back, or guard the change with Version",
		e.Workflow, e.Call, e.Recorded)
}
