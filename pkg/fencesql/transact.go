package fencesql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Transact runs fn in a transaction that is committed once for the step, whatever
// happens to workers: it is guarded by [DB.Guard] and marked by [DB.Once], and what
// fn returned is kept in the same transaction, as JSON of at most 1 MiB. A step that
// is repeated after its transaction was committed runs fn no more and is given what
// was kept. Where the answer to a commit is lost, Transact finds out.
//
// The isolation level is the database's default. fn must not end the transaction; its
// error rolls everything back and is returned as it is.
func Transact[T any](ctx context.Context, d *DB, resource string, f execution.Fencing, fn func(*sql.Tx) (T, error)) (T, error) {
	var out, zero T
	raw, err := d.transact(ctx, resource, f, func(tx *sql.Tx) (json.RawMessage, error) {
		v, err := fn(tx)
		if err != nil {
			return nil, err
		}
		return encode(v)
	})
	if unanswered, is := errors.AsType[*commitError](err); is {
		raw, err = d.find(ctx, resource, f, unanswered)
	}
	if err != nil {
		return zero, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return zero, fmt.Errorf("transact %q: the result that was kept does not fit %T: %w", resource, out, err)
	}
	return out, nil
}

func encode(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("result can't be encoded as JSON: %w", err)
	}
	return raw, execution.ValidateSize("result", raw, execution.MaxPayloadBytes)
}

// A commitError is the error of a commit, which says nothing about what became of it.
type commitError struct {
	resource string
	err      error
}

func (e *commitError) Error() string {
	return fmt.Sprintf("transact %q: commit: %v", e.resource, e.err)
}
func (e *commitError) Unwrap() error { return e.err }

// find returns the result that the transaction kept whose commit was not answered,
// or the error if nothing was committed. The guard has waited for its end, so that
// nothing of it can come later.
func (d *DB) find(ctx context.Context, resource string, f execution.Fencing, unanswered error) (json.RawMessage, error) {
	raw, err := d.transact(ctx, resource, f, func(*sql.Tx) (json.RawMessage, error) { return nil, unanswered })
	if err != nil && !errors.Is(err, unanswered) {
		return nil, fmt.Errorf("%w; whether it was committed is not known, run the step again: %w", unanswered, err)
	}
	return raw, err
}

// transact runs fn and keeps what it returned, or returns what was kept.
func (d *DB) transact(ctx context.Context, resource string, f execution.Fencing, fn func(*sql.Tx) (json.RawMessage, error)) (json.RawMessage, error) {
	tx, err := d.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("transact %q: begin: %w", resource, err)
	}
	defer tx.Rollback() //nolint:errcheck // it has ended, or what failed is returned
	if err := d.Guard(ctx, tx, resource, f); err != nil {
		return nil, err
	}
	already, err := d.Once(ctx, tx, f)
	if err != nil {
		return nil, err
	}
	var raw json.RawMessage
	if already {
		raw, err = d.recall(ctx, tx, f)
	} else {
		raw, err = d.run(ctx, tx, f, fn)
	}
	if err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		return nil, &commitError{resource, err}
	}
	return raw, nil
}

func (d *DB) run(ctx context.Context, tx *sql.Tx, f execution.Fencing, fn func(*sql.Tx) (json.RawMessage, error)) (json.RawMessage, error) {
	raw, err := fn(tx)
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, d.sql.keep, string(raw), f.Key); err != nil {
		return nil, fmt.Errorf("keep the result of step %q: %w", f.Step, err)
	}
	return raw, nil
}

func (d *DB) recall(ctx context.Context, tx *sql.Tx, f execution.Fencing) (json.RawMessage, error) {
	var kept sql.NullString
	if err := tx.QueryRowContext(ctx, d.sql.recall, f.Key).Scan(&kept); err != nil {
		return nil, fmt.Errorf("recall the result of step %q: %w", f.Step, err)
	}
	if !kept.Valid {
		return nil, fmt.Errorf("step %q was marked by Once, which keeps no result: one step is one transaction", f.Step)
	}
	return json.RawMessage(kept.String), nil
}
