package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// DefaultPrefix begins the names of the tables.
const DefaultPrefix = "holdfast_"

// maxPrefixBytes leaves room for the tables' own names: PostgreSQL cuts a name
// after 63 bytes.
const maxPrefixBytes = 48

// Config says what a database is.
type Config struct {
	Dialect Dialect // required
	// Prefix begins the names of the two tables, tokens and steps; default
	// "holdfast_". It is 1 to 48 lower-case letters, digits and underscores, and may
	// name a schema: "billing.holdfast_". Executions of different etcd clusters need
	// different tables, or namespaces with different names: their tokens are not
	// comparable.
	Prefix string
}

// A DB is a user's database, with the tables that remember which tokens and which
// steps have been there. It may be used by many goroutines at once.
type DB struct {
	db      *sql.DB
	dialect Dialect
	prefix  string
	sql     statements
}

// New returns the database with its tables, which [DB.Migrate] creates. It refuses a
// bad config and sends no statement.
func New(db *sql.DB, cfg Config) (*DB, error) {
	if cfg.Prefix == "" {
		cfg.Prefix = DefaultPrefix
	}
	switch {
	case db == nil:
		return nil, errors.New("fencesql: the database is nil")
	case !cfg.Dialect.known():
		return nil, fmt.Errorf("fencesql: %v is not a dialect; name PostgreSQL or SQLite", cfg.Dialect)
	case len(cfg.Prefix) > maxPrefixBytes || !unquoted(cfg.Prefix):
		return nil, fmt.Errorf("fencesql: %w", &execution.InvalidError{
			What: "table prefix", Value: cfg.Prefix,
			Reason: fmt.Sprintf("is not 1 to %d lower-case letters, digits and underscores, with a schema and a dot or without", maxPrefixBytes),
		})
	}
	return &DB{db: db, dialect: cfg.Dialect, prefix: cfg.Prefix, sql: newStatements(cfg.Dialect, cfg.Prefix)}, nil
}

// unquoted says whether the prefix means the same with and without quotes.
func unquoted(prefix string) bool {
	return regexp.MustCompile(`^(?:[a-z_][a-z0-9_]*\.)?[a-z_][a-z0-9_]*$`).MatchString(prefix)
}

// Schema returns the statements that create the tables, for those who create theirs
// with a tool of their own. A table that exists is left as it is.
func (d *DB) Schema() string {
	return strings.Join(d.sql.create, ";\n\n") + ";\n"
}

// Migrate creates the tables where they do not exist yet. Any number of processes
// may call it at once.
func (d *DB) Migrate(ctx context.Context) error {
	err := d.inTx(ctx, func(tx *sql.Tx) error {
		if d.dialect == PostgreSQL {
			// There CREATE TABLE IF NOT EXISTS fails where two do it at once.
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", d.lock()); err != nil {
				return err
			}
		}
		for _, s := range d.sql.create {
			if _, err := tx.ExecContext(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("create the tables %stokens and %ssteps: %w", d.prefix, d.prefix, err)
	}
	return nil
}

// lock is the number of the lock by which migrations take turns.
func (d *DB) lock() int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("holdfast fencesql " + d.prefix)) // a hash refuses nothing
	return int64(h.Sum64())
}

// inTx runs do in a transaction of its own.
func (d *DB) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return undo(tx, err)
	}
	return tx.Commit()
}

// undo rolls the transaction back because of the error, which it returns.
func undo(tx *sql.Tx, err error) error {
	if undone := tx.Rollback(); undone != nil && !errors.Is(undone, sql.ErrTxDone) {
		return errors.Join(err, fmt.Errorf("roll back: %w", undone))
	}
	return err
}
