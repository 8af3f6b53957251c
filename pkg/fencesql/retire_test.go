package fencesql_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// An etcd that was restored with its old revisions: every new token is refused until
// the tokens are forgotten.
func TestResetAfterARestore(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		before, after, calls := fencing(900), fencing(101), 0
		elsewhere := execution.Fencing{Token: 900, Namespace: "tests", ExecutionID: "order-42"}
		_, err := s.transfer(t.Context(), before, &calls)
		must(t, err)
		s.commit(elsewhere)
		if _, err := s.guard(after); !errors.Is(err, execution.ErrLost) {
			t.Fatalf("after the restore: %v, want lost", err)
		}
		if n, err := s.d.Reset(t.Context(), "default"); n != 1 || err != nil {
			t.Fatalf("Reset() = %d, %v; want one row", n, err)
		}
		s.commit(after)
		if _, err := s.guard(fencing(100)); !errors.Is(err, execution.ErrLost) {
			t.Errorf("after the reset an older token gives %v, want lost", err)
		}
		elsewhere.Token = 899
		if _, err := s.guard(elsewhere); !errors.Is(err, execution.ErrLost) {
			t.Errorf("the other namespace was reset as well: %v", err)
		}
		if got, err := s.transfer(t.Context(), after, &calls); err != nil || got.Amount != 900 || calls != 1 {
			t.Errorf("a step from before the restore gives %+v, %v after %d calls; want what it was", got, err, calls)
		}
		var invalid *execution.InvalidError
		if _, err := s.d.Reset(t.Context(), ""); !errors.As(err, &invalid) {
			t.Errorf("Reset without a namespace: %v", err)
		}
	})
}

func TestPruneDeletesWhatIsOld(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		calls := 0
		old := execution.Fencing{Key: "hf-old", Token: 900, Namespace: "default", ExecutionID: "order-1", Step: "charge"}
		_, err := s.transfer(t.Context(), old, &calls)
		must(t, err)
		for _, table := range []string{"holdfast_tokens", "holdfast_steps"} {
			exec(t, s.db, "UPDATE "+table+" SET seen = seen - 2*60*60")
		}
		_, err = s.transfer(t.Context(), fencing(101), &calls)
		must(t, err)
		for i, c := range []struct {
			age  time.Duration
			rows int64
		}{{3 * time.Hour, 0}, {time.Hour, 2}, {time.Hour, 0}} {
			if n, err := s.d.Prune(t.Context(), c.age); n != c.rows || err != nil {
				t.Errorf("case %d: Prune(%v) = %d, %v; want %d rows", i, c.age, n, err, c.rows)
			}
		}
		if _, err := s.guard(fencing(100)); !errors.Is(err, execution.ErrLost) {
			t.Errorf("a token that is new was deleted: %v", err)
		}
		var invalid *execution.InvalidError
		if _, err := s.d.Prune(t.Context(), time.Hour-1); !errors.As(err, &invalid) {
			t.Errorf("less than an hour: %v", err)
		}
	})
}
