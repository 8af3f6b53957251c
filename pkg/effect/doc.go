// Package effect does things outside of Holdfast that must not be done twice: charge a
// card, send a letter, call a tool. A step that dies after it has acted and before that
// is recorded is run again; an effect is looked up first.
//
// A workflow calls [Run] with an [Effect]: Perform asks the provider to do it, under a
// key that is the effect's id, and Lookup asks what has become of that key. What the
// effect comes to is kept with the effect, and recorded as a step. A [Client] is for
// everybody else: for operators, and for a webhook that learns a result first.
//
// # What it guarantees
//
//   - An effect has one result, for ever: the first that is settled. It stays when its
//     execution is deleted, and whoever uses the id again is given it, or refused if he
//     asks for something else.
//   - Before the provider is asked a second time, Lookup has said that it does not know
//     the key. While nobody knows, nothing is done: the execution is suspended, and asks
//     again after RetryIn, or at once when somebody settles the effect.
//   - A second, different result changes nothing. It is kept as a report that operators
//     can list, since it may mean that something was done twice: see [Client.Conflicts].
//   - No wake is lost. Whoever settles an effect leaves the wakes of all who wait for it,
//     in the same transaction, and a wait that is late sees that it is settled.
//
// # What it does not guarantee
//
//   - That the provider is asked once. A holder may freeze just before it sends the
//     request, and the next one may look it up before the request arrives. The provider
//     must answer one key by one act, and every request for it by what that came to.
//   - That settling is fenced. A result is a fact, whoever brings it, as RFC 002 has it.
//   - That RetryIn is kept to the second: an execution that is woken earlier, by anything,
//     looks up what is pending then.
//
// # Clock
//
// RetryIn is counted by the worker's clock. Nothing else depends on one.
//
// # How it is kept
//
// An effect is a store of the reserved name "holdfast:effect", under its id: the
// operation and the input in canonical form, and the result. Who waits is a waiter of
// that store. Reports of conflicts are stores of the name "holdfast:effect-conflict".
package effect
