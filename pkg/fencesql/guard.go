package fencesql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// errNoTx refuses a call without a transaction.
var errNoTx = errors.New("the transaction is nil; begin one")

// Guard lets the transaction go on if no later delivery of the same execution has
// been at the resource. From then on until the transaction ends every other one that
// guards the resource waits. Call it before anything else in the transaction: what
// was read before may be old.
//
// The resource is any name, 1 to 512 bytes, of what the transaction changes: an
// account, a table, or the whole database. Each execution has rows of its own, so
// that equal names of two executions are two resources; the package's doc says why.
// Parallel steps that name the same resource run one after the other.
//
// A token that is older than one that was seen is refused with a [*StaleError].
// Whatever the error, Guard has rolled the transaction back: one that it did not
// accept can't be committed.
func (d *DB) Guard(ctx context.Context, tx *sql.Tx, resource string, f execution.Fencing) error {
	if tx == nil {
		return fmt.Errorf("guard %q: %w", resource, errNoTx)
	}
	err := d.guard(ctx, tx, resource, f)
	if err == nil {
		return nil
	}
	if _, stale := errors.AsType[*StaleError](err); !stale {
		err = fmt.Errorf("guard %q: %w", resource, err)
	}
	return undo(tx, err)
}

func (d *DB) guard(ctx context.Context, tx *sql.Tx, resource string, f execution.Fencing) error {
	if err := execution.ValidateName("resource", resource); err != nil {
		return err
	}
	if err := f.Validate(); err != nil {
		return err
	}
	var seen int64
	if err := tx.QueryRowContext(ctx, d.sql.guard, f.Namespace, f.ExecutionID, resource, f.Token).Scan(&seen); err != nil {
		return err
	}
	if seen > f.Token {
		return &StaleError{
			Namespace: f.Namespace, ExecutionID: f.ExecutionID, Resource: resource,
			Carried: execution.Token(f.Token), Seen: execution.Token(seen),
		}
	}
	return nil
}
