// Package simulate runs a whole cluster of dispatchers, direct holders and
// operators on one etcd in memory, in virtual time, under a schedule that follows
// from a seed, and verifies every invariant after every revision.
//
// Every call to etcd parks before it takes effect. Once every goroutine is blocked,
// the scheduler lets one of the parked calls go, chosen by the seed from an order
// that depends on who calls, what and which keys alone; so a seed replays exactly.
// It also drops answers of calls that were applied, and calls themselves; delays
// them; freezes a node past its lease, kills and drains nodes; ends etcd leases at
// any moment, compacts under watches, and steps a node's wall clock. A call whose
// caller has gone away stays on its way, and may arrive late.
//
// After a while the faults end. Then every execution must come to an end within
// a bound, with nothing lost, nothing stuck and no garbage left.
//
// # What it is not
//
// A frozen node's calls stand still, but its timers run on: its watchdog notices.
// The direct holders have none, and play those that notice nothing. Processes,
// sockets and disks are not simulated.
package simulate
