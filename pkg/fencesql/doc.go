// Package fencesql guards a user's own rows in the user's own database: inside a
// database/sql transaction it refuses a holder that was frozen and comes back late,
// and it recognises a step that has been committed already. The databases are
// PostgreSQL and SQLite, with any driver.
//
// A step that writes to a database does so in one transaction, most simply by
// [Transact]; by hand it is
//
//	tx, err := db.BeginTx(ctx, nil)
//	defer tx.Rollback()
//	err = d.Guard(ctx, tx, "accounts", holdfast.Fence(ctx)) // first
//	already, err := d.Once(ctx, tx, holdfast.Fence(ctx))
//	…                                                       // unless already: the user's statements
//	err = tx.Commit()                                       // in either case
//
// with every error returned from the step's function. The refusal is a [*StaleError],
// by which the engine ends the delivery as lost. The two tables are created by
// [DB.Migrate].
//
// # What it guarantees
//
//   - Once a delivery's guarded transaction was committed, no transaction of an
//     earlier delivery of that execution that guards the same resource can be. The
//     token that it carries is compared in one statement, inside the transaction.
//   - Guarded transactions of one execution and resource run one after the other: the
//     guard holds its row until the transaction ends. So what the current holder
//     reads after its guard includes whatever an earlier holder committed.
//   - A transaction that [DB.Guard] did not accept is rolled back and can't be
//     committed, also where its error is overlooked.
//   - With [DB.Once] or [Transact] a step's transaction is committed at most once.
//   - No clock takes part. [DB.Prune] alone reads the database's.
//
// # What it does not
//
//   - It does not keep two executions apart. A token is the revision of a claim, and
//     a later claim of one execution says nothing about the holder of another; were
//     their tokens compared, each would go on refusing the other. Therefore every row
//     belongs to one execution of one namespace, and no call can change that. Rows
//     that several executions write are kept apart by the database, as they would be
//     without Holdfast; or one execution owns them, and the others ask it.
//   - It refuses nobody before the current holder's first guarded transaction. An
//     older one that commits before that is in order: it was first.
//   - It does not guard statements outside of the transaction, or before the guard.
//
// # A holder that freezes inside the transaction
//
// Before its guard: the current holder commits meanwhile, and the frozen one is
// refused when it wakes up.
//
// After its guard it holds the row, and the current holder waits. PostgreSQL ends the
// frozen session where idle_in_transaction_session_timeout is set, which by default it
// is not: set it, well below the lease's duration. The current holder goes on, and
// the frozen one's next statement or its commit fails. SQLite ends nobody: the file
// stays locked until the process wakes up or dies, and the current holder's guard
// fails after busy_timeout; give its step retries. One that wakes up commits, before
// the current holder and not after it.
//
// # Isolation and locks
//
// In PostgreSQL read committed suffices. From repeatable read on, a guard whose row
// has changed since the transaction's first statement fails with a serialization
// failure (SQLSTATE 40001), stale or not; the next try is answered properly. A guard
// within a savepoint loses its row if that is rolled back. lock_timeout bounds how
// long a guard waits.
//
// In SQLite a transaction that has read before its guard may be refused with
// SQLITE_BUSY at once: guard first, or begin with BEGIN IMMEDIATE (the drivers'
// _txlock=immediate). Set busy_timeout; by default many drivers do not wait at all.
//
// # After a restore of etcd
//
// Tokens are revisions of etcd, and a restore from a backup takes revisions back:
// every new token is then smaller than the greatest that was seen, and every guard
// refuses. Restore with etcdutl snapshot restore --bump-revision and
// --mark-compacted, by more revisions than were lost, and there is nothing to do. If
// that was not done, see [DB.Reset].
package fencesql
