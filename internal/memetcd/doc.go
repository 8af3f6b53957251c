// Package memetcd is an etcd in memory: a model of what the engine uses of etcd, as
// an [etcd.Store]. A real etcd answers a sequence of calls as it does; the tests
// send both the same random ones and compare.
//
// # What is modelled
//
//   - One revision for each transaction that changes something, create- and
//     mod-revisions, reads at earlier revisions and in pages. Keys that are read
//     without values come without etcd leases.
//   - Transactions: all compares, those of nested transactions too, see the state
//     before the outermost one; the branches then run in order at one revision.
//   - What etcd refuses, with the error that internal/etcdv3 makes of it: keys that
//     are written twice (exactly where etcd notices), too many operations, requests
//     that are too large, unknown etcd leases, revisions that are compacted or yet to
//     come, empty keys and ranges.
//   - Watches of whole revisions, from earlier ones on, in batches, with compaction.
//   - Etcd leases: whole seconds, a shortest TTL, keepalive, revocation; one that
//     ends deletes its keys at a revision of its own.
//   - A quota that is used up, and the request that uses it up (see [Space]).
//
// # What is not
//
//   - Anything that a single healthy member does not do: no restarts, elections,
//     lost connections or timeouts. A [Gate] makes the calls of a client late, lost,
//     unanswered or refused, which is what a client sees of all those.
//   - Users, and etcd's own back-pressure ("too many requests").
//   - An etcd lease ends at the moment of its expiry; real ones end up to half a
//     second later, and are not renewed in between either.
//   - A live watch gets its revisions one by one, however slowly it reads.
//   - A deletion to the last key (an end of one zero byte) together with a put, in
//     one transaction: etcd accepts it, and after a compaction of that revision the
//     next read of the key ends the real server's process.
//
// # Gates
//
// Each client that [Server.Client] makes may have a gate, which sees each of its
// calls before it takes effect and after: so a scheduler can order the calls of many
// clients, drop an answer after the commit, and let a call take effect after its
// caller has given up. See [Call] and [Gate].
//
// # Clocks and goroutines
//
// Etcd leases run on the monotonic clock of package time, so that in a bubble of
// testing/synctest they run in virtual time. There is one timer, for the first
// expiry, and one goroutine for each watch and for each call that passes a gate.
// They end with [Server.Close], which waits for them. No lock is held while a gate
// is called or a channel is waited on.
package memetcd
