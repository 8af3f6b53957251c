package fencesql_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestOnceTellsOfACommit(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		attempt := func(f execution.Fencing, commit bool) bool {
			tx, err := s.guard(f)
			must(t, err)
			already, err := s.d.Once(t.Context(), tx, f)
			must(t, err)
			if commit {
				must(t, tx.Commit())
			} else {
				must(t, tx.Rollback())
			}
			return already
		}
		other := fencing(101)
		other.Key, other.Step = "hf-ship", "ship"
		for i, c := range []struct {
			fencing execution.Fencing
			commit  bool
			already bool
		}{
			{fencing(101), false, false}, // it is rolled back
			{fencing(101), true, false},
			{fencing(101), true, true},
			{other, true, false},
			{fencing(105), true, true}, // another holder repeats the step
		} {
			if got := attempt(c.fencing, c.commit); got != c.already {
				t.Errorf("attempt %d: already %v, want %v", i, got, c.already)
			}
		}
	})
}

// The repetition waits for a transaction of the same step that has not ended.
func TestOnceWaitsForTheSameStep(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		first := s.begin()
		_, err := s.d.Once(t.Context(), first, fencing(101))
		must(t, err)
		done := make(chan error, 1)
		go func() {
			tx, err := s.db.BeginTx(t.Context(), nil)
			if err != nil {
				done <- err
				return
			}
			already, err := s.d.Once(t.Context(), tx, fencing(101))
			if err == nil && !already {
				err = errors.New("both were the first")
			}
			done <- errors.Join(err, tx.Rollback())
		}()
		if s.waits != nil {
			eventually(t, "the repetition waits", func() bool { return s.waits(t, s.db) })
		}
		must(t, first.Commit())
		must(t, <-done)
	})
}

func TestOnceValidates(t *testing.T) {
	t.Parallel()
	s := newScene(t, databases()["sqlite"])
	without := func(change func(*execution.Fencing)) execution.Fencing {
		f := fencing(101)
		change(&f)
		return f
	}
	for want, f := range map[string]execution.Fencing{
		"fencing \"\" is empty": {},
		"idempotency key":       without(func(f *execution.Fencing) { f.Key = "" }),
		"step name":             without(func(f *execution.Fencing) { f.Step = "" }),
		"fencing token":         without(func(f *execution.Fencing) { f.Token = -1 }),
	} {
		_, err := s.d.Once(t.Context(), s.begin(), f)
		var invalid *execution.InvalidError
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an *InvalidError that says %q", err, want)
		}
	}
	if _, err := s.d.Once(t.Context(), nil, fencing(101)); err == nil {
		t.Error("accepted without a transaction")
	}
	if n := s.count("holdfast_steps"); n != 0 {
		t.Errorf("what was refused left %d rows", n)
	}
}
