package integration_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/process"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

// postgresVariable is the environment variable that names a PostgreSQL server to run
// these tests on, too, as a DSN.
const postgresVariable = "HOLDFAST_TEST_POSTGRES"

// A rowsBackend is a database in which two workers write one row.
type rowsBackend struct {
	driver string
	// fresh returns the DSN of a new and empty database.
	fresh func(t *testing.T) string
	// endsFrozen: the database ends a session that is idle inside its transaction. One
	// that does not lets the current holder wait until the frozen one wakes up.
	endsFrozen bool
}

func rowsBackends() map[string]rowsBackend {
	all := map[string]rowsBackend{"sqlite": {driver: "sqlite", fresh: freshSQLite}}
	if os.Getenv(postgresVariable) != "" {
		all["postgres"] = rowsBackend{driver: "pgx", fresh: freshPostgres, endsFrozen: true}
	}
	return all
}

func freshSQLite(t *testing.T) string {
	t.Helper()
	return "file:" + filepath.Join(t.TempDir(), "rows.db") + "?_pragma=journal_mode(wal)&_pragma=busy_timeout(60000)"
}

var rowsSchemas atomic.Int64

// freshPostgres gives the test a schema of its own.
func freshPostgres(t *testing.T) string {
	t.Helper()
	dsn, schema := os.Getenv(postgresVariable), fmt.Sprintf("integration_%d_%d", os.Getpid(), rowsSchemas.Add(1))
	db := openRows(t, "pgx", dsn)
	execRows(t, db, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		if _, err := db.ExecContext(context.Background(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
	})
	join := "?"
	if strings.Contains(dsn, "?") {
		join = "&"
	}
	return dsn + join + "search_path=" + schema
}

func openRows(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func execRows(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), text); err != nil {
		t.Fatal(err)
	}
}

// A rowStage is a row that workers write, each a process of its own.
type rowStage struct {
	*harness
	rowsBackend

	dsn string
	db  *sql.DB
}

func newRowStage(t *testing.T, b rowsBackend) *rowStage {
	t.Helper()
	s := &rowStage{harness: newHarness(t), rowsBackend: b, dsn: b.fresh(t)}
	s.db = openRows(t, b.driver, s.dsn)
	guarded, err := fencesql.New(s.db, fencesql.Config{Dialect: dialects[b.driver]})
	if err == nil {
		err = guarded.Migrate(t.Context())
	}
	if err == nil {
		_, err = s.main.Admit(t.Context(), execution.AdmitRequest{ID: payments, Workflow: payer, Params: []byte(`""`)})
	}
	if err != nil {
		t.Fatal(err)
	}
	execRows(t, s.db, tableText)
	return s
}

// hire starts a worker whose step waits at the place.
func (s *rowStage) hire(name, waitAt string) *runtimeProcess {
	s.t.Helper()
	path, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	lines := make(chan string, 16)
	child, err := process.Start(process.Config{
		Name: name, Path: path, Args: []string{fencesqlCommand, testetcd.Endpoint(s.t), s.namespace, name, s.driver, s.dsn, waitAt},
		Stderr: os.Stderr, Line: func(line []byte) { lines <- string(line) },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	p := &runtimeProcess{s.harness, child, lines}
	s.t.Cleanup(p.Kill)
	return p
}

// hear waits for the line that begins so and returns the rest of it.
func (s *rowStage) hear(p *runtimeProcess, begin string) string {
	s.t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case line := <-p.lines:
			if rest, is := strings.CutPrefix(line, begin); is {
				return strings.TrimSpace(rest)
			}
		case <-p.child.Done():
			s.t.Fatalf("%s has ended (%v) and never said %q", p.child.Name(), p.child.Err(), begin)
		case <-late:
			s.t.Fatalf("%s does not say %q", p.child.Name(), begin)
		}
	}
}

// token returns the current one.
func (s *rowStage) token() execution.Token {
	s.t.Helper()
	rec, err := s.main.Get(s.t.Context(), payments)
	if err != nil {
		s.t.Fatal(err)
	}
	return rec.Token
}

// freeze freezes the worker and ends its lease.
func (s *rowStage) freeze(p *runtimeProcess) (late execution.Token) {
	s.t.Helper()
	late = s.token()
	p.Pause()
	s.EndLease(execution.Lease{ID: payments, Token: late})
	return late
}

// wantPaid demands that the row holds what the current holder wrote, that the step's
// record is its, and that it has completed the execution.
func (s *rowStage) wantPaid(by string, late execution.Token) {
	s.t.Helper()
	out, err := s.main.Wait(s.t.Context(), payments)
	if err != nil || string(out.Result) != `"`+by+`"` {
		s.t.Errorf("the execution came to %s, %v; want %q", out.Result, err, by)
	}
	rec, err := s.main.Get(s.t.Context(), payments)
	if err != nil {
		s.t.Fatal(err)
	}
	steps, err := s.main.Read(s.t.Context(), execution.Lease{ID: payments, Incarnation: rec.Incarnation, Run: rec.Run})
	if err != nil || len(steps) != 1 || steps[0].Token <= late {
		s.t.Fatalf("the steps are %+v, %v; want the current holder's alone", steps, err)
	}
	var holder string
	var token int64
	if err := s.db.QueryRowContext(s.t.Context(), "SELECT holder, token FROM rows").Scan(&holder, &token); err != nil {
		s.t.Fatal(err)
	}
	if holder != by || execution.Token(token) != steps[0].Token {
		s.t.Errorf("the row holds what %s wrote under token %d, want %s and %d", holder, token, by, steps[0].Token)
	}
}

// A worker is frozen inside its transaction, before its guard; another one takes over
// and commits. When the first one wakes up, the guard refuses it, and its delivery ends
// as lost.
func TestWorkerFrozenBeforeItsGuard(t *testing.T) {
	t.Parallel()
	for name, backend := range rowsBackends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRowStage(t, backend)
			first := s.hire("first", atBegin)
			s.hear(first, atBegin)
			late := s.freeze(first)

			second := s.hire("second", toTheEnd)
			if got := s.hear(second, atCommit); got != "<nil>" {
				t.Errorf("the current holder's transaction gives %s", got)
			}
			s.wantPaid("second", late)

			first.Resume()
			first.Tell("go on")
			want := fmt.Sprintf(`guard "rows": lease lost: execution "order-42" carried token %d, and token`, late)
			if got := s.hear(first, atCommit); !strings.HasPrefix(got, want) {
				t.Errorf("the late holder's transaction gives %s, want %s …", got, want)
			}
			if got := s.hear(first, "the step gives"); !strings.Contains(got, "delivery ends here") {
				t.Errorf("the late holder's workflow is given %s, want that its delivery ends", got)
			}
			s.wantPaid("second", late)
		})
	}
}

// A worker is frozen inside its transaction, after its guard and its write. It holds
// the row. Where the database ends its session, the current holder goes on, and the
// first one's commit fails; where not, the current holder waits for that commit. The
// row holds what the current holder wrote in either case.
func TestWorkerFrozenAfterItsGuard(t *testing.T) {
	t.Parallel()
	for name, backend := range rowsBackends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newRowStage(t, backend)
			first := s.hire("first", atGuard)
			s.hear(first, atGuard)
			late := s.freeze(first)

			second := s.hire("second", toTheEnd)
			s.hear(second, atBegin)
			if s.endsFrozen {
				s.wantPaid("second", late)
			}
			first.Resume()
			first.Tell("go on")
			if got := s.hear(first, atCommit); (got == "<nil>") == s.endsFrozen {
				t.Errorf("the late holder's transaction gives %s", got)
			}
			if got := s.hear(second, atCommit); got != "<nil>" {
				t.Errorf("the current holder's transaction gives %s", got)
			}
			if got := s.hear(first, "the step gives"); !strings.Contains(got, "delivery ends here") {
				t.Errorf("the late holder's workflow is given %s, want that its delivery ends", got)
			}
			s.wantPaid("second", late)
		})
	}
}
