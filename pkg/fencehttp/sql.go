package fencehttp

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

// A SQL is a [TokenStore] in the tables of package fencesql, for a service of many
// processes, or one that must not forget. Each request costs one short transaction.
type SQL struct {
	db      *sql.DB
	guarded *fencesql.DB
}

// NewSQL returns a store in the database, whose tables [fencesql.DB.Migrate] has
// created.
func NewSQL(db *sql.DB, guarded *fencesql.DB) (*SQL, error) {
	if db == nil || guarded == nil {
		return nil, errors.New("fencehttp: the database of the store is nil")
	}
	return &SQL{db: db, guarded: guarded}, nil
}

// Raise runs a transaction of its own.
func (s *SQL) Raise(ctx context.Context, r Resource, token execution.Token) (execution.Token, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("remember a token: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // it has ended, or what failed is returned
	f := execution.Fencing{Token: int64(token), Namespace: r.Namespace, ExecutionID: r.ExecutionID}
	var stale *fencesql.StaleError
	switch err := s.guarded.Guard(ctx, tx, r.Name, f); {
	case errors.As(err, &stale):
		return stale.Seen, nil
	case err != nil:
		return 0, fmt.Errorf("remember a token: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return 0, fmt.Errorf("remember a token: %w", err)
	}
	return token, nil
}
