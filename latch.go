package holdfast

import (
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A verdict is what a delivery came to. Exactly one field is set: acknowledge with
// the outcome, release (it counts), or stop without a word.
type verdict struct {
	outcome *execution.Outcome
	retry   error
	lost    bool
}

// A level says how a delivery was ended before its function returned. A higher
// one overrules a lower one, whichever came first.
type level int

const (
	open      level = iota
	suspended       // acknowledged as suspended
	misused         // failed by a fault that a replay would meet again
	broken          // redelivered: a panic, or an error of the infrastructure
	timedOut        // failed, since the execution has come to its deadline
	lost            // somebody else's
)

// A latch holds the end of a delivery that the engine decided, whatever the
// workflow's function makes of it. Once set it stays set.
type latch struct {
	level    level
	wake     time.Time        // suspended: the earliest time that any step waits for; zero: none has a time
	handover bool             // suspended: at once, elsewhere
	failure  *execution.Error // misused, timedOut
	err      error            // broken
}

func (l *latch) set() bool { return l.level != open }

// hard says whether steps in flight make no further attempt.
func (l *latch) hard() bool { return l.level > suspended }

// waiting says whether the delivery has ended just because of a wait.
func (l *latch) waiting() bool { return l.level == suspended && !l.handover }

// suspend ends the delivery until the time; zero: until somebody asks for a wake.
func (l *latch) suspend(wake time.Time) {
	l.level = max(l.level, suspended)
	if !wake.IsZero() && (l.wake.IsZero() || wake.Before(l.wake)) {
		l.wake = wake
	}
}

func (l *latch) handOver() {
	l.level = max(l.level, suspended)
	l.handover = true
}

func (l *latch) misuse(err error) {
	if l.level < misused {
		l.level, l.failure = misused, recordedError(err)
	}
}

func (l *latch) breakOff(err error) {
	if l.level < broken {
		l.level, l.err = broken, err
	}
}

// timeOut fails the execution, whatever else its delivery has come to.
func (l *latch) timeOut(deadline time.Time) {
	if l.level < timedOut {
		l.level, l.failure = timedOut, execution.TimeoutAt(deadline).Error
	}
}

func (l *latch) lose() { l.level = lost }

// verdict says what a set latch makes of the delivery.
func (l *latch) verdict() verdict {
	switch l.level {
	case lost:
		return verdict{lost: true}
	case broken:
		return verdict{retry: l.err}
	case misused, timedOut:
		return verdict{outcome: &execution.Outcome{Kind: execution.Failed, Error: l.failure}}
	case open, suspended:
	}
	if l.handover {
		return verdict{outcome: &execution.Outcome{Kind: execution.Suspended, Handover: true}}
	}
	return verdict{outcome: &execution.Outcome{Kind: execution.Suspended, Wake: l.wake}}
}
