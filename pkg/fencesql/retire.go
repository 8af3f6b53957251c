package fencesql

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// minAge is the least age of rows that Prune deletes.
const minAge = time.Hour

// Reset forgets every token of the namespace, and returns how many rows that were.
// It is for one case: etcd was restored from a backup without raising its revisions,
// so that new tokens are smaller than those that were seen, and every delivery is
// refused. First make sure that no worker from before the restore is alive, a frozen
// one least of all: its token would be the greatest again. Keys of steps are kept,
// so what was committed before the restore is not committed again.
func (d *DB) Reset(ctx context.Context, namespace string) (int64, error) {
	if err := execution.ValidateName("namespace", namespace); err != nil {
		return 0, fmt.Errorf("reset: %w", err)
	}
	n, err := d.remove(ctx, d.sql.reset, namespace)
	if err != nil {
		return 0, fmt.Errorf("reset %q: %w", namespace, err)
	}
	return n, nil
}

// Prune deletes the tokens and keys that nobody has written for the age, at least an
// hour, by the database's clock, and returns how many rows that were. What is gone
// protects no more: the age must be longer than a worker can stay frozen, and than
// an execution can wait between a commit and the next delivery, which is long where
// one was parked. Months are cheap.
func (d *DB) Prune(ctx context.Context, age time.Duration) (int64, error) {
	if age < minAge {
		return 0, fmt.Errorf("prune: %w", &execution.InvalidError{What: "age", Value: age.String(), Reason: "is less than " + minAge.String()})
	}
	var total int64
	for _, s := range []string{d.sql.pruneTokens, d.sql.pruneSteps} {
		n, err := d.remove(ctx, s, int64(age/time.Second))
		if err != nil {
			return total, fmt.Errorf("prune: %w", err)
		}
		total += n
	}
	return total, nil
}

func (d *DB) remove(ctx context.Context, text string, arg any) (int64, error) {
	var n int64
	err := d.inTx(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, text, arg)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}
