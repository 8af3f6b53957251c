// Package holdfast runs durable executions on etcd: functions that survive the
// death of their process, because each step's result is recorded and a replay
// skips what is recorded.
//
// [Define] makes a workflow of a Go function; its value is the registration for
// [NewWorker] and the typed stub by which callers start executions. Inside, [Step]
// runs and records one unit of work, [Sleep] and [Await] wait, for a time and for an
// event, without holding anything, [Start] and [Child] start other workflows, and wait
// for them in the same way, and [Fence] gives a step the idempotency key and the fencing
// token to pass on.
//
// # What it guarantees
//
//   - A started execution is delivered until it completes or fails, over crashes,
//     restarts and rolling releases.
//   - A recorded step is not run again. What Step returns is always decoded from
//     the record, so that the first run and a replay see the same.
//   - Of two workers that believe they hold one execution, only the current one's
//     writes are accepted: etcd compares the fencing token in the transaction that
//     writes. A worker that was frozen can record nothing and ends.
//   - A waiting execution holds no goroutine and no lease.
//   - A step that starts another execution starts one, whatever dies in between.
//   - An event that [Client.Send] has sent is given to one [Await], in the order of
//     arrival.
//
// # What it does not guarantee
//
//   - A step is not run exactly once: a worker may die between the step's effect
//     and its record. Pass [Fence]'s key to systems that honour idempotency keys.
//   - Side effects outside of steps are repeated by every delivery.
//   - A panic in a goroutine of the user's own, outside of Step, ends the process,
//     as in any Go program.
//   - A delivery ends at its first wait. Parallel steps and waits that are in flight
//     then, or have begun in an earlier delivery, go on. What has not begun does so
//     when the earliest wait is over, or at once if a step was completed meanwhile
//     that it may follow.
//
// # Clocks
//
// Clocks decide when a delivery may begin: when a sleep or a backoff is over, when
// a dead worker's lease has expired; and when an execution with a [Timeout] fails. No clock decides whose write counts.
//
// # How a delivery ends
//
// Where an execution must wait, Step and Sleep return [ErrSuspended]. The function
// returns it like any error; the engine has latched the end of the delivery
// already, so that a function which does not is harmless: its later steps run
// nothing, and its answer does not count. Test an error by [Failed] before
// compensating for it.
//
// What the function then returns decides: a result completes the execution, an
// error fails it, and neither ever changes. A panic, or an error of etcd or of a
// record that can't be read, counts as a failed delivery: the execution is
// delivered again after a delay that grows, and its record shows it.
//
// The library is silent unless given a [Logger] or [Slog], starts no goroutine but
// in [Worker.Run] and in the connections that [Open] makes, and needs no global
// state.
package holdfast
