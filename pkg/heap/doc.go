// Package heap keeps the step records of executions: what each step of a run
// came to, so that a replay skips it. (It is not a priority heap.)
//
// A record, once there, never changes (I5). Writing one is one fenced
// transaction: it compares the execution's state record with the lease's token
// and the absence of the record. So a stale holder's write is refused and changes
// nothing (I3, I4), and the current holder may write a step twice: the second
// time it is given the recorded one, and goes on with that. (RFC 002, Fencing.)
//
// A step that waits at a store is recorded with the store's name, and the record of
// its answer deletes its registration there in the same transaction. The record of a
// step that applies an event puts that event's receipt in its place, so that each event
// is applied once (I10).
//
// The package depends on no clock; the time in a record is information.
package heap
