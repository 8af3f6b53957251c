package dispatch

import (
	"sync"
	"time"
)

// A signal carries no data and coalesces: what it is about is read again after it.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// An alarm holds the earliest time at which something is known to be due.
type alarm struct {
	mu   sync.Mutex
	at   time.Time // zero: none
	ring signal    // set when at became earlier
}

// set moves the alarm to the time if that is earlier.
func (a *alarm) set(at time.Time) {
	if at.IsZero() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || at.Before(a.at) {
		a.at = at
		a.ring.set()
	}
}

// take clears the alarm. What is set afterwards is kept.
func (a *alarm) take() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = time.Time{}
}

// wait returns how long it is until the alarm, at most the bound.
func (a *alarm) wait(now time.Time, bound time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() {
		return bound
	}
	return min(max(a.at.Sub(now), 0), bound)
}
