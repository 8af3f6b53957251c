package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
)

// inTurn is a workflow of steps, one after the other, that ends in a sleep.
func inTurn(names ...string) body {
	return func(ctx Context) (string, error) {
		for _, name := range names {
			if _, err := Step(ctx, name, value(name)); err != nil {
				return "", err
			}
		}
		return "done", Sleep(ctx, "sleep", time.Hour)
	}
}

// A change of code that the history does not fit is noticed at the step, before that
// does anything, and the code that fits goes on later.
func TestChangedCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		was, is []string
		call    string // that does not fit; empty: it fits
		instead string
	}{
		"a step at the end":        {was: []string{"load", "charge"}, is: []string{"load", "charge", "ship"}, call: `step "ship"`, instead: "sleep"},
		"a step in the middle":     {was: []string{"load", "charge"}, is: []string{"load", "reserve", "charge"}, call: `step "reserve"`, instead: "charge"},
		"a step at the beginning":  {was: []string{"load", "charge"}, is: []string{"greet", "load", "charge"}, call: `step "greet"`, instead: "load"},
		"another name":             {was: []string{"load", "charge"}, is: []string{"load", "pay"}, call: `step "pay"`, instead: "charge"},
		"another order":            {was: []string{"load", "charge"}, is: []string{"charge", "load"}},
		"a step that is gone":      {was: []string{"load", "charge"}, is: []string{"load"}},
		"nothing but what it does": {was: []string{"load", "charge"}, is: []string{"load", "charge"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				began := time.Now()
				wantSuspended(t, b.deliver(inTurn(c.was...)), began.Add(time.Hour))
				writes := len(b.steps.writes)
				v := b.deliver(inTurn(c.is...))
				if c.call == "" {
					wantSuspended(t, v, began.Add(time.Hour))
				} else {
					var mismatch *HistoryError
					if err := retried(t, v); !errors.As(err, &mismatch) || mismatch.Call != c.call || mismatch.Recorded != c.instead {
						t.Errorf("got %v, want a HistoryError of %s in place of %q", err, c.call, c.instead)
					}
					if n := len(b.steps.writes); n != writes {
						t.Errorf("%d records were written", n-writes)
					}
				}
				wantSuspended(t, b.deliver(inTurn(c.was...)), began.Add(time.Hour))
			})
		})
	}
}

// Steps that run in parallel come in any order, and some have no record when a worker
// dies: all of that fits.
func TestParallelStepsFitTheirHistory(t *testing.T) {
	t.Parallel()
	const branches, length = 4, 5
	parallel := func(hold func(branch, i int) error) body {
		return func(ctx Context) (string, error) {
			var g errgroup.Group
			for branch := range branches {
				g.Go(func() error {
					<-time.After(time.Duration(branch*(length-branch)) * 100 * time.Millisecond)
					for i := range length {
						_, err := Step(ctx, fmt.Sprintf("%d-%d", branch, i), func(context.Context) (string, error) {
							return "", hold(branch, i)
						})
						if err != nil {
							return err
						}
					}
					return nil
				})
			}
			return "done", g.Wait()
		}
	}
	for died := range branches * length {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			wantRetry(t, b.deliver(parallel(func(branch, i int) error {
				if branch*length+i == died {
					panic("the worker dies here")
				}
				return nil
			})))
			ran := map[string]bool{}
			for _, w := range b.steps.writes {
				ran[w.Key] = true
			}
			again := 0
			wantCompleted(t, b.deliver(parallel(func(branch, i int) error {
				if ran[fmt.Sprintf("%d-%d", branch, i)] {
					again++
				}
				return nil
			})), `"done"`)
			if again > 0 {
				t.Errorf("%d recorded steps ran again", again)
			}
		})
	}
}

// versioned is inTurn, with a change that reserves before it charges.
func versioned(oldest, newest int) body {
	return func(ctx Context) (string, error) {
		if _, err := Step(ctx, "load", value("load")); err != nil {
			return "", err
		}
		v, err := Version(ctx, "reserve first", oldest, newest)
		if err != nil {
			return "", err
		}
		if v >= 1 {
			if _, err := Step(ctx, "reserve", value("reserve")); err != nil {
				return "", err
			}
		}
		if _, err := Step(ctx, "charge", value("charge")); err != nil {
			return "", err
		}
		again, err := Version(ctx, "reserve first", oldest, newest)
		return fmt.Sprint(v, again), errors.Join(err, Sleep(ctx, "sleep", time.Hour))
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before body
		want   string
	}{
		"a new execution":              {nil, `"1 1"`},
		"one that came by the change":  {inTurn("load", "charge"), `"0 0"`},
		"one that has not come so far": {inTurn("load"), `"0 0"`}, // the sleep is behind it
		"one that began with it":       {versioned(0, 1), `"1 1"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				if c.before != nil {
					b.deliver(c.before)
				}
				if name == "one that has not come so far" {
					delete(b.steps.recs, memKey{"sleep", 0})
					c.want = `"1 1"`
				}
				b.deliver(versioned(0, 1))
				advance(2 * time.Hour)
				wantCompleted(t, b.deliver(versioned(0, 1)), c.want)
			})
		})
	}
}

// An execution of a version that the code does not know any more, or not yet, waits
// for code that does.
func TestVersionThatIsNotKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wantSuspended(t, b.deliver(versioned(0, 1)), time.Now().Add(time.Hour))
		for _, known := range [][2]int{{2, 3}, {0, 0}} {
			err := retried(t, b.deliver(versioned(known[0], known[1])))
			wantContains(t, err, `"reserve first"`, "recorded as 1", fmt.Sprintf("%d to %d", known[0], known[1]))
		}
		advance(2 * time.Hour)
		wantCompleted(t, b.deliver(versioned(1, 5)), `"1 1"`)
	})
	b := newBench(t)
	wantFailed(t, b.deliver(versioned(2, 1)), `version "reserve first": the versions 2 to 1 are none: the oldest is not less than 0, and not greater than the newest`)
	wantFailed(t, newBench(t).deliver(versioned(-1, 1)), `version "reserve first": the versions -1 to 1 are none: the oldest is not less than 0, and not greater than the newest`)
}

func wantContains(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("%v does not say %s", err, p)
		}
	}
}

// An execution that slept through the release that asked first is stopped by one that
// has dropped the old code, and not taken for a new one.
func TestVersionSleptThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		wantSuspended(t, b.deliver(inTurn("load", "charge")), time.Now().Add(time.Hour))
		err := retried(t, b.deliver(versioned(1, 1)))
		wantContains(t, err, `"reserve first"`, "recorded as 0", "1 to 1")
	})
}

// What ran in parallel, and was recorded out of turn, lies behind the change too.
func TestVersionBeforeParallelSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		fan := func(fail bool) body {
			return func(ctx Context) (string, error) {
				var g errgroup.Group
				g.Go(func() error {
					_, err := Step(ctx, "a", func(context.Context) (string, error) {
						advance(time.Minute)
						if fail {
							panic("the worker dies here")
						}
						return "", nil
					})
					return err
				})
				g.Go(func() error {
					advance(time.Second)
					_, err := Step(ctx, "b", value(""))
					return err
				})
				return "done", g.Wait()
			}
		}
		wantRetry(t, b.deliver(fan(true)))
		wantCompleted(t, b.deliver(func(ctx Context) (string, error) {
			v, err := Version(ctx, "change", 0, 1)
			if err != nil {
				return "", err
			}
			_, err = fan(false)(ctx)
			return fmt.Sprint(v), err
		}), `"0"`)
	})
}
