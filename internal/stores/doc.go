// Package stores is the protocol of stores on etcd: state that many executions
// share, as raw JSON. Package pkg/store gives it types and workflows, and
// internal/storeapi gives it to other languages.
//
// # Guarantees
//
//   - A store is named by its definition and an id. Each time that it is created it
//     is another instance, of version 0; each commit makes its version one greater.
//     The commits of an instance form one order.
//   - I10: a mutation with a step id is applied once, whoever sends it and however
//     often. Its receipt is written by the mutation's own transaction, and read before
//     anything else is looked at. It belongs to the name of the store, not to the
//     instance, and ends with its execution only.
//   - No wake is lost. A commit that finds waiters leaves a record of what it changed,
//     in its own transaction, and a registration compares the revision of the store
//     that it has seen. So a waiter either was there when the commit came, or sees
//     that it is late. Waking is done after the commit by whoever committed and, if
//     that one dies, by any worker (see [Client.Run]): at least once, in small pieces.
//
// It does not guarantee that a wake comes once, that a commit wakes nobody in vain,
// or that mutations without a step id are applied once if their caller dies.
//
// Nothing here depends on a clock. Mutations are not fenced, as RFC 002 has it: a
// stale holder's mutation counts, once, and the current holder is given its result.
//
// # Fairness
//
// Commits are optimistic: who loses a race reads what the winner wrote and tries
// again. The calls of one process for one store take turns, in the order in which
// they came, so that a store is contended for by processes and not by every call.
package stores
