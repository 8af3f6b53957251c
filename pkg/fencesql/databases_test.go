package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

// postgresVariable is the environment variable that names a PostgreSQL server to run
// every test on, too, as a DSN.
const postgresVariable = "HOLDFAST_TEST_POSTGRES"

// patience bounds every wait of these tests; none comes near it.
const patience = 30 * time.Second

// A database is one that tests run on.
type database struct {
	dialect fencesql.Dialect
	driver  string
	// fresh returns the DSN of a new and empty one, with settings of its sessions as
	// the driver has them in a DSN's query.
	fresh func(t *testing.T, settings ...string) string
	// waits says whether a session of the test waits for another one; nil: this
	// database does not tell.
	waits func(t *testing.T, db *sql.DB) bool
}

// databases are those that there are: SQLite, and PostgreSQL where a server is given.
func databases() map[string]database {
	all := map[string]database{"sqlite": {dialect: fencesql.SQLite, driver: "sqlite", fresh: freshSQLite}}
	if os.Getenv(postgresVariable) != "" {
		all["postgres"] = database{dialect: fencesql.PostgreSQL, driver: "pgx", fresh: freshPostgres, waits: postgresWaits}
	}
	return all
}

func freshSQLite(t *testing.T, settings ...string) string {
	t.Helper()
	if len(settings) == 0 {
		settings = []string{"_pragma=busy_timeout(30000)"}
	}
	settings = append(settings, "_pragma=journal_mode(wal)")
	return "file:" + filepath.Join(t.TempDir(), "rows.db") + "?" + strings.Join(settings, "&")
}

var schemas atomic.Int64

// freshPostgres gives the test a schema of its own.
func freshPostgres(t *testing.T, settings ...string) string {
	t.Helper()
	dsn := os.Getenv(postgresVariable)
	schema := fmt.Sprintf("fencesql_%d_%d", os.Getpid(), schemas.Add(1))
	admin := open(t, "pgx", dsn)
	exec(t, admin, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		if _, err := admin.ExecContext(context.Background(), "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			t.Error(err)
		}
	})
	join := "?"
	if strings.Contains(dsn, "?") {
		join = "&"
	}
	return dsn + join + strings.Join(append(settings, "search_path="+schema, "application_name="+schema), "&")
}

// postgresWaits says whether a session of the test waits for a lock.
func postgresWaits(t *testing.T, db *sql.DB) bool {
	t.Helper()
	var n int
	scan(t, db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_stat_activity
WHERE wait_event_type = 'Lock' AND application_name = current_setting('application_name')`), &n)
	return n > 0
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// A scene is a database with holdfast's tables and a user's own table.
type scene struct {
	database
	t   *testing.T
	dsn string
	db  *sql.DB
	d   *fencesql.DB
}

// onEach runs the test on each of the databases.
func onEach(t *testing.T, test func(*testing.T, *scene)) {
	t.Helper()
	t.Parallel()
	for name, base := range databases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newScene(t, base))
		})
	}
}

func newScene(t *testing.T, base database, settings ...string) *scene {
	t.Helper()
	s := &scene{database: base, t: t, dsn: base.fresh(t, settings...)}
	s.db = open(t, s.driver, s.dsn)
	s.d = s.tables(fencesql.Config{Dialect: base.dialect})
	must(t, s.d.Migrate(t.Context()))
	exec(t, s.db, "CREATE TABLE accounts (name text PRIMARY KEY, holder bigint NOT NULL)")
	return s
}

func (s *scene) tables(cfg fencesql.Config) *fencesql.DB {
	s.t.Helper()
	d, err := fencesql.New(s.db, cfg)
	must(s.t, err)
	return d
}

func (s *scene) begin() *sql.Tx {
	s.t.Helper()
	tx, err := s.db.BeginTx(s.t.Context(), nil)
	must(s.t, err)
	s.t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// guard begins a transaction and guards the resource "accounts" in it.
func (s *scene) guard(f execution.Fencing) (*sql.Tx, error) {
	tx, err := s.db.BeginTx(s.t.Context(), nil)
	if err != nil {
		return nil, err
	}
	s.t.Cleanup(func() { _ = tx.Rollback() })
	return tx, s.d.Guard(s.t.Context(), tx, "accounts", f)
}

// write writes the holder's token into the user's row.
func (s *scene) write(tx *sql.Tx, f execution.Fencing) error {
	text := "INSERT INTO accounts VALUES ('tea', $1) ON CONFLICT (name) DO UPDATE SET holder = excluded.holder"
	if s.dialect == fencesql.SQLite {
		text = strings.ReplaceAll(text, "$", "?")
	}
	_, err := tx.ExecContext(s.t.Context(), text, f.Token)
	return err
}

// try makes a whole guarded transaction that writes. guarded is called between the
// guard and the write.
func (s *scene) try(f execution.Fencing, guarded func()) error {
	tx, err := s.guard(f)
	if err != nil {
		return err
	}
	guarded()
	if err := s.write(tx, f); err != nil {
		return err
	}
	return tx.Commit()
}

func (s *scene) commit(f execution.Fencing) {
	s.t.Helper()
	must(s.t, s.try(f, func() {}))
}

// holder returns what the user's row holds; 0: there is none.
func (s *scene) holder() (token int64) {
	s.t.Helper()
	err := s.db.QueryRowContext(s.t.Context(), "SELECT holder FROM accounts WHERE name = 'tea'").Scan(&token)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		s.t.Fatal(err)
	}
	return token
}

func (s *scene) wantHolder(want execution.Fencing) {
	s.t.Helper()
	if got := s.holder(); got != want.Token {
		s.t.Errorf("the row holds what token %d wrote, want %d", got, want.Token)
	}
}

func (s *scene) count(table string) (n int) {
	s.t.Helper()
	scan(s.t, s.db.QueryRowContext(s.t.Context(), "SELECT count(*) FROM "+table), &n)
	return n
}

// fencing is that of the delivery with the token.
func fencing(token int64) execution.Fencing {
	return execution.Fencing{Key: "hf-charge", Token: token, Namespace: "default", ExecutionID: "order-42", Step: "charge"}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func exec(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), text)
	must(t, err)
}

func scan(t *testing.T, row *sql.Row, into any) {
	t.Helper()
	must(t, row.Scan(into))
}

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("after %v still not: %s", patience, what)
		}
	}
}
