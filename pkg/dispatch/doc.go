// Package dispatch runs many deliveries at once: it claims what is due, calls a
// handler for each, renews their leases while the process lives, and ends each
// delivery as its handler replies.
//
// # What it guarantees
//
//   - At most Concurrency deliveries run at once; new ones are claimed without
//     waiting for earlier ones. (RFC 002, Delivery concurrency.)
//   - Leases are renewed in a lane of their own. A delivery whose lease could not
//     be renewed in time has its context cancelled, with the cause
//     [execution.ErrUnconfirmed], before the lease can end; one that somebody else
//     has taken, with [execution.ErrLost].
//   - A delivery is acknowledged, released or given up, exactly one of them; the
//     handler's reply to a lost one is ignored.
//   - A drain counts nothing against anybody: see [Dispatcher.Run].
//
// # What it does not guarantee
//
// A cancelled context is a request. A handler that ignores it goes on, its writes
// are refused once somebody else has claimed, and its slot is taken until it
// returns.
//
// # Clocks
//
// Renewals and the watchdog run on the monotonic clock. The wall clock decides
// when a claim is tried; it is looked at again every 30 seconds at the latest, so a
// clock that jumps delays work by no more than that.
//
// The package knows no etcd: it sees leases through [Holder].
package dispatch
