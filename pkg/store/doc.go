// Package store keeps state that many executions share, and that any other code reads
// and changes too: an inbox, an approval, a counter, the memory of an agent. Workflows
// change it exactly once a step, and wait for it without polling.
//
// [Define] makes a kind of store of a Go type, which travels as JSON; [Store.At] refers
// to one by its id. In a workflow the functions of this package act on it, each as a
// step of the given name: [Update], [When], [Take] and so on. (The replay.Context that
// they are given is a holdfast.Context, by its other name.) Everywhere else a
// [Handle] does, from [Ref.On] and the Stores of a holdfast.Client. Runtimes of other
// languages share the same stores by the worker's HTTP API.
//
// # What it guarantees
//
//   - A workflow's change is made once (I10): it leaves a receipt, in the same
//     transaction, and whoever replays the step is given the recorded result, whatever
//     died in between and whatever became of the store since. That holds for [Update],
//     [UpdateFrom], [DeleteFrom], [Take] and [TakeUntil].
//   - The changes of a store form one order; each makes its version one greater. A
//     store that is created again is another instance, and nothing that was meant for
//     the older one reaches it.
//   - No wake is lost. A change that comes between looking at a store and waiting for
//     it is seen, and one that comes later wakes the execution, also if the process
//     that made it dies at once.
//   - Of [WhenUntil] the first recorded answer stays, whichever replays meet a match or
//     the deadline later.
//   - A state is validated before it is stored, and a refused one changes nothing. What
//     functions are given and what is returned are copies: nothing that is done to them
//     later reaches the store.
//
// # What it does not guarantee
//
//   - The functions that change or look at a state are run again when somebody else
//     was faster. They do nothing but that, and in particular call no store.
//   - Changes are not fenced, on purpose: a stale holder's change may be the one that
//     counts, and the current holder is given its result.
//   - Outside of workflows there is no receipt. A change that was not answered, which is
//     an error that is a fencing.ErrUnknown, may have been made.
//   - A wait may wake in vain, and looks again. It sees states, not each change: what
//     comes and goes between two looks is not seen.
//   - The changes of one store are made one after another: spread over several ids
//     what is busy. A state may have 1 MiB, and about 600 KiB where workflows change it,
//     and 9,000 lists and objects inside each other.
//
// # Clock
//
// The deadline of a WhenUntil or TakeUntil is compared with the worker's clock. Nothing else
// depends on one.
package store
