// Package execution holds the domain's words: what an execution, a lease, a
// fencing token and an outcome are. It imports the standard library only and
// does nothing by itself; the packages leasing, heap and dispatch act on it.
//
// An execution is a durable run of a workflow. A claim of a due execution yields
// a [Lease] and with it a delivery: one claim's worth of work. A delivery ends by
// an acknowledgement with an [Outcome], by a release, or by the expiry of its
// lease. The lease decides when somebody else may take over, and only that. The
// fencing [Token] decides whose writes count: each claim's token is greater than
// every earlier one of that execution, and a write is accepted only while its
// token is current, whatever any clock says.
package execution
