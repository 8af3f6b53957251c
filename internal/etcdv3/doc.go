// Package etcdv3 runs the engine on a real etcd, through etcd's own client.
//
// It guarantees that an error for which [etcd.IsDefinite] holds was etcd's
// refusal of the request, and that everything else, from a lost connection to
// "etcdserver: request timed out", is not one: its outcome is unknown, and an
// error of the context is found in it by errors.Is.
//
// It does not retry writes. Who sends one twice is the caller, who can tell what
// became of the first. Etcd's client keeps to that with two exceptions, in its
// retry_interceptor.go. It sends a write again that was refused before it
// began, because no connection was there or because the auth token had expired:
// harmless. And it sends any request again, up to a hundred times, that the
// server answered with Canceled or DeadlineExceeded while the caller's context
// lives, which a server or a proxy that goes away may do after it has passed the
// write on. Clients made by [Dial] do not (see sendOnce); with a client that came
// from elsewhere, a compare that fails may have failed because of the
// transaction's own first sending. A reader of the result who looks for its
// nonce or token before it says anything is right in either case.
//
// No clock takes part, apart from the pause between two tries of a keepalive.
package etcdv3
