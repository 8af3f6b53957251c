package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Once records in the transaction that the step has been here, and says whether a
// transaction that did so has been committed already: by an earlier attempt whose
// worker died, or lost the answer, before the step was recorded. If so, change
// nothing more and return what the step returned then. ([Transact] does all this.)
//
// One step is one transaction: two of the same step would share the key. Call
// [DB.Guard] first: Once by itself refuses nobody. Whatever the error, Once has
// rolled the transaction back.
func (d *DB) Once(ctx context.Context, tx *sql.Tx, f execution.Fencing) (already bool, err error) {
	if tx == nil {
		return false, fmt.Errorf("once: %w", errNoTx)
	}
	already, err = d.once(ctx, tx, f)
	if err != nil {
		return false, undo(tx, fmt.Errorf("once for step %q: %w", f.Step, err))
	}
	return already, nil
}

func (d *DB) once(ctx context.Context, tx *sql.Tx, f execution.Fencing) (already bool, err error) {
	if err := validateStep(f); err != nil {
		return false, err
	}
	res, err := tx.ExecContext(ctx, d.sql.once, f.Key, f.Namespace, f.ExecutionID, f.Step)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n == 0, err
}

// validateStep demands what only a step's own fencing has.
func validateStep(f execution.Fencing) error {
	if err := f.Validate(); err != nil {
		return err
	}
	return errors.Join(execution.ValidateName("idempotency key", f.Key), execution.ValidateName("step name", f.Step))
}
