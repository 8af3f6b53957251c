// Package fencehttp hands a step's idempotency key and fencing token on to a service
// over HTTP, and lets a service refuse a holder that was frozen and comes back late.
//
// A step's client sends requests through a [Transport], or sets the headers by
// [Apply]:
//
//	Idempotency-Key: "hf-3d40458d03d99c12a53416ff45c7344e"
//	Holdfast-Token: 105
//	Holdfast-Namespace: default
//	Holdfast-Execution: order-42
//	Holdfast-Step: charge
//
// The service wraps its handlers in a [Guard]. It remembers, for each execution (and
// resource, where it tells them apart), the greatest token that it has seen, and
// answers a smaller one with 412 and problem details (RFC 9457), which a service in any
// language can send. The transport returns that as a [*StaleError], by which the engine
// ends the delivery as lost.
//
// # What it guarantees
//
//   - After a request with a greater token was let in, no request of that execution
//     with a smaller one is: for as long as the [TokenStore] remembers.
//   - Within one Guard, a request is handled only after all those with smaller tokens
//     are over. Their contexts are ended, so that it need not wait for long. A handler
//     that reads from a frozen client ends by the server's ReadTimeout: set one.
//   - Lost is said of the own token alone, and only by an answer that names a greater
//     one: any other 412 is a response like others.
//
// # What it does not
//
//   - Between several processes of a service that share a [SQL] store, a request that
//     was let in by one may still be handled when another one lets in a greater token.
//     What must not be so has its guard where the effect is: if that is a database, the
//     handler guards its own rows with package fencesql and the fencing of its context,
//     and [Refuse] answers.
//   - A guard does not recognise a request that was handled already. The key is for
//     that: fencesql's Once or Transact, with the fencing of the handler's context.
//   - Headers are believed. A service that strangers can reach authenticates its
//     clients first.
//   - A step that sends two requests which change something sends one key with both,
//     unless it sets one of them itself. One request for each step is simplest.
package fencehttp
