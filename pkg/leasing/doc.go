// Package leasing claims executions for holders: it admits, claims, renews,
// releases, acknowledges and reaps. It implements the ExecutionClient of RFC 002.
//
// # What it guarantees
//
// The execution's state record is the lock, the fence and the truth. A claim
// rewrites it, and the revision of that claim is the fencing token. Whatever takes
// an execution away from its holder does so by writing the record.
//
//	I1  tokens of one execution strictly rise with each claim
//	I2  at most one holder is current at any revision; live exists if and only if
//	    the state is claimed, and names its token
//	I3  a fenced write with token t is accepted only if no write to the state
//	    record has a revision greater than t
//	I4  a refused fenced write changes no key; one answered as lost was never applied
//	I5  an acknowledged outcome never changes
//	I6  exactly one due entry if the execution is unclaimed and due, or claimed and
//	    reaped; otherwise none
//	I7  unacknowledgedDeliveries is the number of deliveries that ended without
//	    acknowledgement since the last acknowledgement
//	I8  no claim before not-before of what it claims, by that claim's now
//	I9  a wake that was requested and answered leads to a delivery that began after
//	    the request, unless the execution is terminal
//
// # What it does not guarantee
//
// Fencing does not make user code run exactly once: a stale holder may still act
// on the world before its write is refused. An expiry alone refuses nothing: the
// holder's writes count until somebody claims, since refusing them earlier would
// only repeat their side effects. Nothing is promised about order among due
// executions.
//
// # Clocks
//
// No decision about whose write counts depends on a clock. Clocks decide when a
// delivery may begin: etcd's (when an etcd lease ends) and the writer's (due times
// and redelivery delays).
//
// # Holders
//
// A dispatcher process makes one [Holder], whose many leases hang on one etcd
// lease: the key proc/<P>. A direct caller of [Client.ClaimDue] gets an etcd lease
// for each claim, since renewing one must not renew another.
package leasing
