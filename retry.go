package holdfast

import (
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The backoff of a step with [MaxAttempts] that names none.
const (
	defaultBackoffInitial = time.Second
	defaultBackoffFactor  = 2
	defaultBackoffMax     = 5 * time.Minute
)

// A StepOption configures one [Step].
type StepOption func(*policy)

// MaxAttempts lets a step run up to n times, the first time included; default 1.
// An attempt that was cut short by the loss of its worker does not count. n must
// be at least 1.
func MaxAttempts(n int) StepOption {
	return func(p *policy) { p.attempts = int64(n) }
}

// Backoff sets how long a failed step waits before its next attempt: initial
// after the first one, each time factor times longer, never longer than limit.
// Default: 1 s, 2, 5 min. An initial of 0 retries at once, in the same delivery;
// otherwise the execution is suspended meanwhile and holds no goroutine and no
// lease. The time is recorded with the failed attempt, so that a delivery that
// comes earlier uses up no attempt.
func Backoff(initial time.Duration, factor float64, limit time.Duration) StepOption {
	return func(p *policy) { p.initial, p.factor, p.max = initial, factor, limit }
}

// A policy says whether and when a failed step runs again.
type policy struct {
	attempts     int64
	initial, max time.Duration
	factor       float64
}

func newPolicy(opts []StepOption) (policy, error) {
	p := policy{attempts: 1, initial: defaultBackoffInitial, factor: defaultBackoffFactor, max: defaultBackoffMax}
	for _, o := range opts {
		if o == nil {
			return p, errors.New("an option is nil")
		}
		o(&p)
	}
	bad := func(what, value, reason string) (policy, error) {
		return p, &execution.InvalidError{What: what, Value: value, Reason: reason}
	}
	switch {
	case p.attempts < 1:
		return bad("MaxAttempts", strconv.FormatInt(p.attempts, 10), "is not at least 1")
	case p.initial < 0:
		return bad("Backoff initial", p.initial.String(), "is negative")
	case p.max < p.initial:
		return bad("Backoff max", p.max.String(), "is below the initial "+p.initial.String())
	case !(p.factor >= 1) || math.IsInf(p.factor, 0):
		return bad("Backoff factor", strconv.FormatFloat(p.factor, 'g', -1, 64), "is not a number of at least 1")
	}
	return p, nil
}

// retries says whether the attempt, counted from 0, is followed by another one.
func (p policy) retries(attempt int64, err error) bool {
	_, permanent := errors.AsType[*PermanentError](err)
	return p.attempts > attempt+1 && !permanent
}

// interval returns how long to wait after the attempt, counted from 0.
func (p policy) interval(attempt int64) time.Duration {
	d := float64(p.initial) * math.Pow(p.factor, float64(attempt))
	if !(d < float64(p.max)) { // also where the power overflowed
		if p.initial == 0 {
			return 0
		}
		return p.max
	}
	return time.Duration(d)
}

// retryAt returns when the step may run again after the attempt.
func (p policy) retryAt(now time.Time, attempt int64) time.Time {
	return due(now, p.interval(attempt))
}

// due returns the time d after now as it is recorded: in UTC and whole
// milliseconds, which is what due times are kept in, rounded up, so that no
// delivery for that time comes before it. No wait is no rounding: now itself.
func due(now time.Time, d time.Duration) time.Time {
	t := now.Add(d).UTC().Round(0)
	if d <= 0 {
		return t
	}
	return wholeMillis(t)
}

// wholeMillis rounds the time up.
func wholeMillis(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if floor := t.Truncate(time.Millisecond); floor.Before(t) {
		return floor.Add(time.Millisecond)
	}
	return t
}
