package fencesql_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

// A holder that does not wake up, frozen after its guard: what becomes of the current
// one differs from database to database.
func TestFrozenForGood(t *testing.T) {
	t.Parallel()
	tests := map[fencesql.Dialect]struct {
		setting string
		test    func(*testing.T, *scene, *sql.Tx)
	}{
		fencesql.PostgreSQL: {"lock_timeout=0", frozenInPostgres},
		fencesql.SQLite:     {"_pragma=busy_timeout(1)", frozenInSQLite},
	}
	for name, base := range databases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := tests[base.dialect]
			s := newScene(t, base, c.setting)
			tx, err := s.guard(fencing(101))
			must(t, err)
			must(t, s.write(tx, fencing(101)))
			c.test(t, s, tx)
		})
	}
}

// PostgreSQL ends the frozen session.
func frozenInPostgres(t *testing.T, s *scene, frozen *sql.Tx) {
	t.Helper()
	_, err := frozen.ExecContext(t.Context(), "SET LOCAL idle_in_transaction_session_timeout = '100ms'")
	must(t, err)
	current := fencing(105)
	s.commit(current)
	if err := s.write(frozen, fencing(101)); err == nil || errors.Is(err, execution.ErrLost) {
		t.Errorf("the frozen one's write gives %v, want that its session has ended", err)
	}
	if err := frozen.Commit(); err == nil {
		t.Error("the frozen one could commit")
	}
	s.wantHolder(current)
}

// SQLite ends nobody: the current holder fails, and goes on once the frozen one has
// woken up.
func frozenInSQLite(t *testing.T, s *scene, frozen *sql.Tx) {
	t.Helper()
	current := fencing(105)
	if _, err := s.guard(current); err == nil || errors.Is(err, execution.ErrLost) {
		t.Errorf("the current holder's guard gives %v, want that the file is locked", err)
	}
	must(t, frozen.Commit())
	s.wantHolder(fencing(101))
	s.commit(current)
	s.wantHolder(current)
}

// With a snapshot from before, a guard is never accepted wrongly; it may have to be
// tried again to be refused properly.
func TestGuardInASnapshot(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		s.commit(fencing(99))
		for _, level := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
			if s.dialect == fencesql.SQLite && level != sql.LevelDefault {
				continue
			}
			tx, err := s.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			must(t, err)
			var n int
			scan(t, tx.QueryRowContext(t.Context(), "SELECT count(*) FROM accounts"), &n)
			s.commit(fencing(105))
			if err := s.d.Guard(t.Context(), tx, "accounts", fencing(101)); err == nil {
				t.Errorf("%v: an older token was accepted", level)
			}
			tx, err = s.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			must(t, err)
			if err := s.d.Guard(t.Context(), tx, "accounts", fencing(101)); !errors.Is(err, execution.ErrLost) {
				t.Errorf("%v: the next try gives %v, want lost", level, err)
			}
			s.wantHolder(fencing(105))
		}
	})
}
