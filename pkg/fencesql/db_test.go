package fencesql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

func TestConfigIsValidated(t *testing.T) {
	t.Parallel()
	db := open(t, "sqlite", freshSQLite(t))
	for name, c := range map[string]struct {
		db   *sql.DB
		cfg  fencesql.Config
		want string // of the error; empty: it is accepted
	}{
		"the default":          {db, fencesql.Config{Dialect: fencesql.SQLite}, ""},
		"a prefix":             {db, fencesql.Config{Dialect: fencesql.PostgreSQL, Prefix: "shop_"}, ""},
		"a schema":             {db, fencesql.Config{Dialect: fencesql.PostgreSQL, Prefix: "billing.holdfast_"}, ""},
		"no database":          {nil, fencesql.Config{Dialect: fencesql.SQLite}, "the database is nil"},
		"no dialect":           {db, fencesql.Config{}, "Dialect(0) is not a dialect; name PostgreSQL or SQLite"},
		"an unknown dialect":   {db, fencesql.Config{Dialect: 3}, "Dialect(3) is not a dialect"},
		"an upper-case prefix": {db, fencesql.Config{Dialect: fencesql.SQLite, Prefix: "Shop_"}, `table prefix "Shop_" is not`},
		"a quote":              {db, fencesql.Config{Dialect: fencesql.SQLite, Prefix: `a"; DROP TABLE accounts; --`}, "table prefix"},
		"two dots":             {db, fencesql.Config{Dialect: fencesql.SQLite, Prefix: "a.b.c"}, "table prefix"},
		"49 bytes":             {db, fencesql.Config{Dialect: fencesql.SQLite, Prefix: strings.Repeat("a", 49)}, "table prefix"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := fencesql.New(c.db, c.cfg)
			switch {
			case c.want == "" && (err != nil || d == nil):
				t.Errorf("refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
		})
	}
}

func TestDialectsHaveNames(t *testing.T) {
	t.Parallel()
	if got := fencesql.PostgreSQL.String() + ", " + fencesql.SQLite.String(); got != "PostgreSQL, SQLite" {
		t.Errorf("the names are %s", got)
	}
}

// The schema is frozen: a table may hold what an earlier release wrote.
func TestSchemaIsFrozen(t *testing.T) {
	t.Parallel()
	const want = `CREATE TABLE IF NOT EXISTS shop_tokens (
	namespace text NOT NULL,
	execution text NOT NULL,
	resource text NOT NULL,
	token bigint NOT NULL,
	seen bigint NOT NULL,
	PRIMARY KEY (namespace, execution, resource)
);

CREATE TABLE IF NOT EXISTS shop_steps (
	idempotency_key text NOT NULL PRIMARY KEY,
	namespace text NOT NULL,
	execution text NOT NULL,
	step text NOT NULL,
	result text,
	seen bigint NOT NULL
);
`
	for _, dialect := range []fencesql.Dialect{fencesql.PostgreSQL, fencesql.SQLite} {
		d, err := fencesql.New(open(t, "sqlite", freshSQLite(t)), fencesql.Config{Dialect: dialect, Prefix: "shop_"})
		must(t, err)
		if got := d.Schema(); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", dialect, got, want)
		}
	}
}

func TestSchemaIsWhatMigrateCreates(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		d := s.tables(fencesql.Config{Dialect: s.dialect, Prefix: "by_hand_"})
		for text := range strings.SplitSeq(d.Schema(), ";\n") {
			if strings.TrimSpace(text) != "" {
				exec(t, s.db, text)
			}
		}
		must(t, d.Migrate(t.Context()))
		must(t, d.Guard(t.Context(), s.begin(), "accounts", fencing(101)))
	})
}

func TestMigrationsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		for i := range 5 {
			prefix := fmt.Sprintf("fresh%d_", i)
			d := s.tables(fencesql.Config{Dialect: s.dialect, Prefix: prefix})
			var all sync.WaitGroup
			start := make(chan struct{})
			for range 8 {
				all.Go(func() {
					<-start
					if err := d.Migrate(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			close(start)
			all.Wait()
			if n := s.count(prefix+"tokens") + s.count(prefix+"steps"); n != 0 {
				t.Errorf("new tables have %d rows", n)
			}
		}
	})
}

func TestMigrateKeepsWhatIsThere(t *testing.T) {
	onEach(t, func(t *testing.T, s *scene) {
		s.commit(fencing(105))
		must(t, s.d.Migrate(t.Context()))
		if _, err := s.guard(fencing(101)); !errors.Is(err, execution.ErrLost) {
			t.Errorf("after a second migration an older token gives %v, want lost", err)
		}
	})
}

func TestMigrateSaysWhatFailed(t *testing.T) {
	t.Parallel()
	db := open(t, "sqlite", freshSQLite(t))
	d, err := fencesql.New(db, fencesql.Config{Dialect: fencesql.SQLite, Prefix: "nowhere.x_"})
	must(t, err)
	if err := d.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "create the tables nowhere.x_tokens and nowhere.x_steps") {
		t.Errorf("got %v, want an error that names the tables", err)
	}
}
