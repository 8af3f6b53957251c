package fencehttp_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencehttp"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

// postgresVariable is the environment variable that names a PostgreSQL server to run
// the stores' tests on, too, as a DSN.
const postgresVariable = "HOLDFAST_TEST_POSTGRES"

// stores are the kinds of store that there are.
func stores() map[string]func(*testing.T) fencehttp.TokenStore {
	all := map[string]func(*testing.T) fencehttp.TokenStore{
		"memory": func(t *testing.T) fencehttp.TokenStore { t.Helper(); return memory(t, 100) },
		"sqlite": func(t *testing.T) fencehttp.TokenStore { t.Helper(); return openSQLite(t) },
	}
	if os.Getenv(postgresVariable) != "" {
		all["postgres"] = func(t *testing.T) fencehttp.TokenStore { t.Helper(); return openPostgres(t) }
	}
	return all
}

func openSQLite(t *testing.T) *fencehttp.SQL {
	t.Helper()
	dsn := "file:" + filepath.Join(t.TempDir(), "tokens.db") + "?_pragma=journal_mode(wal)&_pragma=busy_timeout(30000)"
	return openStore(t, "sqlite", dsn, fencesql.Config{Dialect: fencesql.SQLite})
}

var prefixes atomic.Int64

func openPostgres(t *testing.T) *fencehttp.SQL {
	t.Helper()
	dsn, prefix := os.Getenv(postgresVariable), fmt.Sprintf("fencehttp_%d_%d_", os.Getpid(), prefixes.Add(1))
	store := openStore(t, "pgx", dsn, fencesql.Config{Dialect: fencesql.PostgreSQL, Prefix: prefix})
	t.Cleanup(func() {
		db, err := sql.Open("pgx", dsn)
		if err == nil {
			defer db.Close()
			_, err = db.ExecContext(context.Background(), "DROP TABLE "+prefix+"tokens, "+prefix+"steps")
		}
		if err != nil {
			t.Error(err)
		}
	})
	return store
}

func openStore(t *testing.T, driver, dsn string, cfg fencesql.Config) *fencehttp.SQL {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	guarded, err := fencesql.New(db, cfg)
	must(t, err)
	must(t, guarded.Migrate(t.Context()))
	store, err := fencehttp.NewSQL(db, guarded)
	must(t, err)
	return store
}

func TestStoresKeepTheGreatestToken(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			a := fencehttp.Resource{Namespace: "default", ExecutionID: "order-42", Name: "tea"}
			b, c, d := a, a, a
			b.Name, c.ExecutionID, d.Namespace = "coffee", "order-43", "tests"
			for i, x := range []struct {
				resource    fencehttp.Resource
				token, seen execution.Token
			}{
				{a, 101, 101},
				{a, 105, 105},
				{a, 101, 105},
				{a, 105, 105},
				{b, 7, 7},
				{c, 8, 8},
				{d, 9, 9},
				{a, 1 << 60, 1 << 60},
				{a, 105, 1 << 60},
			} {
				if got, err := store.Raise(t.Context(), x.resource, x.token); got != x.seen || err != nil {
					t.Errorf("case %d: got %d, %v; want %d", i, got, err, x.seen)
				}
			}
		})
	}
}

func TestStoresAreAtomic(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := open(t)
			r := fencehttp.Resource{Namespace: "default", ExecutionID: "order-42", Name: "tea"}
			var all sync.WaitGroup
			for token := range execution.Token(20) {
				all.Go(func() {
					if got, err := store.Raise(t.Context(), r, token+1); got < token+1 || err != nil {
						t.Errorf("token %d: got %d, %v", token+1, got, err)
					}
				})
			}
			all.Wait()
			if got, err := store.Raise(t.Context(), r, 1); got != 20 || err != nil {
				t.Errorf("the greatest is %d, %v", got, err)
			}
		})
	}
}

func TestMemoryForgetsTheLeastRecent(t *testing.T) {
	t.Parallel()
	m := memory(t, 2)
	raise := func(name string, token, want execution.Token) {
		t.Helper()
		if got, err := m.Raise(t.Context(), fencehttp.Resource{Name: name}, token); got != want || err != nil {
			t.Errorf("%s: got %d, %v; want %d", name, got, err, want)
		}
	}
	raise("a", 105, 105)
	raise("b", 105, 105)
	raise("a", 101, 105)
	raise("c", 105, 105) // b is forgotten
	raise("a", 101, 105)
	raise("b", 101, 101)
	raise("c", 101, 101) // which has forgotten c
	for _, limit := range []int{0, -1} {
		var invalid *execution.InvalidError
		if _, err := fencehttp.NewMemory(limit); !errors.As(err, &invalid) {
			t.Errorf("a limit of %d: %v", limit, err)
		}
	}
}

func TestSQLStoreFails(t *testing.T) {
	t.Parallel()
	if _, err := fencehttp.NewSQL(nil, nil); err == nil {
		t.Error("a store without a database was accepted")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := fencehttp.Resource{Namespace: "default", ExecutionID: "order-42", Name: "tea"}
	store := openSQLite(t)
	if _, err := store.Raise(ctx, r, 105); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "remember a token") {
		t.Errorf("a context that has ended: %v", err)
	}
	var invalid *execution.InvalidError
	if _, err := store.Raise(t.Context(), fencehttp.Resource{}, 105); !errors.As(err, &invalid) {
		t.Errorf("no resource: %v", err)
	}
	if got, err := store.Raise(t.Context(), r, 101); got != 101 || err != nil {
		t.Errorf("what failed left %d, %v", got, err)
	}
}
