// Package storeapi is the store connector API: the stores of internal/stores over
// HTTP, for runtimes of other languages, whose updaters, selectors and schemas run on
// their side.
//
//	POST /v1/ns/{ns}/{op}
//
// takes a JSON object and answers one: 200 with the operation's answer, or an error
// {"error":{"code","message"}} of a [Code]. docs/store-api.md describes each operation.
//
// # Guarantees
//
//   - States, results and events are kept byte for byte as they came, and answered so.
//   - A request that is not exactly as described changes nothing: members are named
//     exactly, none is unknown, none comes twice, nothing follows the object.
//   - {ns} is the Holdfast namespace of that name: Go code and this API share its
//     stores. One that nobody has written to is empty, and reading it writes nothing.
//   - The wakes of a waiter that was registered here are pulled by pendingWakes and
//     ackWake, and never delivered by the server.
//
// It does not guarantee that a request without an answer, or with [Unavailable], changed
// nothing: with a step id it is sent again, and applied once.
//
// It knows no users. It is for the programs of one machine, or of a network whose every
// program may read and write every store; [Serve] keeps the pages of browsers out.
package storeapi
