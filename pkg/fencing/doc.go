// Package fencing holds the compare that guards a write, and the guarded
// transaction, in one place.
//
// The fencing token is the mod-revision of the execution's state record at the
// claim. While a delivery runs nobody else writes that record, so a fenced write
// is one etcd transaction that compares the record's mod-revision with the token
// (and the namespace's epoch, which a restore from a backup changes). Whatever
// takes an execution away from its holder does so by writing the record, and from
// that revision on every write of the old holder is refused. No clock takes part.
//
// # Guarantees
//
//	I3  a fenced write with token t is accepted only if no write to the state
//	    record has a revision greater than t
//	I4  a refused fenced write changes no key, and one that was answered as lost
//	    was never applied
//
// # Answers that never came
//
// A transaction whose answer was lost is sent again, the same, until etcd answers
// definitely. Its compares make the second application impossible: they name
// revisions, and revisions never come back. What then looks refused may have been
// applied by the earlier try; the nonce in the state record, or the token in the
// step record, tells. Only a proven refusal is reported as lost.
package fencing
