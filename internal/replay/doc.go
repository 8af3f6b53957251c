// Package replay is what packages beside the door may ask of a delivery: to make a
// durable call as holdfast.Step makes one, under the same rules of names, replay and
// the end of the delivery, with a wait in the middle if need be. Package holdfast
// implements it, and is the only one that makes a [Context].
//
// It guarantees nothing by itself and starts nothing. The only clock that plays a part
// is the one by which a [Wait] is over.
package replay
