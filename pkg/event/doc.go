// Package event sends events to executions, and finds those that wait to be applied: it
// is what holdfast.Await and holdfast.Client.Send are made of.
//
// # Guarantees
//
//   - An event that was acknowledged is there until a step applies it, and each is applied
//     once (I10): the record of that step puts the event's receipt in its place, in one
//     transaction, which package heap makes. The receipt stays until the execution is
//     deleted, so that an event that is sent again is not applied again.
//   - The execution is delivered after it (I9): the wake is asked for in the transaction
//     that puts the event.
//   - The events of an execution are ordered by their arrival, that is, by the revision at
//     which they were put. Those of a sender who waits for each answer are in its order.
//   - Nothing is put for an execution that has ended, or is not there.
//
// It does not guarantee that a sender learns what became of its event. Nothing here
// depends on a clock; the times in records are information.
package event
