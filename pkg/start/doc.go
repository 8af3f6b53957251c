// Package start starts executions on behalf of steps, and waits for their ends: it is
// what holdfast.Start and holdfast.Child are made of. (RFC 003, WorkflowStartClient.)
//
// # Guarantees
//
//   - I10: a step starts one execution, whoever asks for it and however often. The start
//     leaves a record, in the transaction that admits what it starts, and that record is
//     looked at before all else. It stays when what was started has ended, or is deleted,
//     and goes with the execution or the run that the step belongs to.
//   - A request that is repeated is compared with the record: another workflow or other
//     params are refused. Params are compared in the form of internal/canonical, and
//     omitted ones are something else than any others.
//   - An id that the caller chooses is used only if it is free. An execution that another
//     step has started is never answered as one's own, not even where it looks the same.
//   - No end is missed by who waits. A registration compares the state of what it waits
//     for as one that has not ended, and whatever ends it looks for registrations in its
//     own transaction.
//
// It does not guarantee that a wake comes once. What was started belongs to nobody: it
// goes on when its starter ends, is cancelled or is deleted.
//
// Nothing here depends on a clock. Starts are not fenced, as RFC 002 has it: a stale
// holder's start counts, once, and the current holder is given what it has started.
package start
