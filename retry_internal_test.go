package holdfast

// White-box: the policy is a pure function that is not exported.

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"
)

func TestBackoffIntervals(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		opts []StepOption
		want []time.Duration // after the attempts 0, 1, 2, 3
	}{
		{"default", nil, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}},
		{"capped", []StepOption{Backoff(time.Minute, 3, 5*time.Minute)}, []time.Duration{time.Minute, 3 * time.Minute, 5 * time.Minute, 5 * time.Minute}},
		{"constant", []StepOption{Backoff(time.Minute, 1, time.Hour)}, []time.Duration{time.Minute, time.Minute, time.Minute, time.Minute}},
		{"none", []StepOption{Backoff(0, 2, time.Hour)}, []time.Duration{0, 0, 0, 0}},
		{"fractional", []StepOption{Backoff(time.Second, 1.5, time.Hour)}, []time.Duration{1000e6, 1500e6, 2250e6, 3375e6}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := newPolicy(c.opts)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range c.want {
				wantEqual(t, fmt.Sprintf("after attempt %d", i), p.interval(int64(i)), want)
			}
		})
	}
}

func TestBackoffNeverOverflows(t *testing.T) {
	t.Parallel()
	for _, initial := range []time.Duration{0, 1, math.MaxInt64} {
		for _, factor := range []float64{1, 2, math.MaxFloat64} {
			p := policy{initial: initial, factor: factor, max: math.MaxInt64}
			for _, attempt := range []int64{0, 1, 63, 5000, math.MaxInt64} {
				if d := p.interval(attempt); d < initial {
					t.Errorf("initial %v, factor %v, attempt %d: %v", initial, factor, attempt, d)
				}
			}
		}
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	plain := errors.New("busy")
	cases := []struct {
		name     string
		attempts int
		attempt  int64
		err      error
		want     bool
	}{
		{"one attempt", 1, 0, plain, false},
		{"the first of two", 2, 0, plain, true},
		{"the second of two", 2, 1, plain, false},
		{"past the last", 2, 7, plain, false},
		{"permanent", 9, 0, Permanent(plain), false},
		{"permanent in the chain", 9, 0, fmt.Errorf("charge: %w", Permanent(plain)), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := newPolicy([]StepOption{MaxAttempts(c.attempts)})
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "retries", p.retries(c.attempt, c.err), c.want)
		})
	}
}

func TestBadPolicies(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		opt  StepOption
		want string
	}{
		{"no attempts", MaxAttempts(0), `MaxAttempts "0" is not at least 1`},
		{"negative initial", Backoff(-1, 1, 1), `Backoff initial "-1ns" is negative`},
		{"max below initial", Backoff(2, 1, 1), `Backoff max "1ns" is below the initial 2ns`},
		{"factor below 1", Backoff(1, 0.9, 1), `Backoff factor "0.9" is not a number of at least 1`},
		{"factor not a number", Backoff(1, math.NaN(), 1), `Backoff factor "NaN" is not a number of at least 1`},
		{"infinite factor", Backoff(1, math.Inf(1), 1), `Backoff factor "+Inf" is not a number of at least 1`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := newPolicy([]StepOption{c.opt})
			wantEqual(t, "error", errorText(err), c.want)
		})
	}
}

func TestPermanent(t *testing.T) {
	t.Parallel()
	wantEqual(t, "of nil", Permanent(nil), nil)
	cause := errors.New("no such card")
	err := Permanent(cause)
	wantEqual(t, "message", err.Error(), "no such card")
	wantEqual(t, "errors.Is", errors.Is(err, cause), true)
}
