package execution

import (
	"errors"
	"fmt"
)

// The errors that callers tell apart by errors.Is.
var (
	// ErrLost: the lease's token is not current (any more). It is a proven fact,
	// never a guess about an answer that did not come. The holder stops: it makes
	// no further fenced write and does not acknowledge. (RFC 002, Leases, Fencing.)
	ErrLost = errors.New("lease lost")

	// ErrConflict: the id belongs to an execution of another workflow or with
	// other params. Choose another id, or read the existing execution.
	ErrConflict = errors.New("conflict")

	// ErrNotFound: no execution has this id. Check the id and the namespace.
	ErrNotFound = errors.New("not found")

	// ErrTerminal: the execution has completed or failed, which never changes.
	ErrTerminal = errors.New("execution is terminal")

	// ErrNotTerminal: the execution has not ended, and only one that has can be
	// deleted. Cancel it first.
	ErrNotTerminal = errors.New("execution is not terminal")

	// ErrEventGone: the event that a step was to be recorded with is not there, and
	// neither is the step. Nothing was changed; look for another event.
	ErrEventGone = errors.New("event is gone")
	// ErrTimeout is the cancellation cause of a delivery whose execution has come to
	// its deadline: it fails, with the code CodeTimeout.
	ErrTimeout = errors.New("execution has timed out")
	// ErrDraining is the cancellation cause of deliveries that were cut short by a
	// shutdown; they were handed over and will be delivered elsewhere.
	ErrDraining = errors.New("dispatcher is draining")

	// ErrUnconfirmed is the cancellation cause of deliveries whose lease could not
	// be renewed in time. The token may still be current: a result that arrives is
	// offered to etcd once, and etcd decides.
	ErrUnconfirmed = errors.New("lease renewal was not confirmed in time")
)

// A LostError says which write was refused and why. It wraps [ErrLost].
type LostError struct {
	ID        ID
	Operation string // "writeStep", "acknowledge", "renew", "release", ...
	Carried   Token  // the token that the refused call carried
	// Current is the current token: the latest claim's or, where the delivery was
	// ended without a later claim, the revision that ended it. Zero: the record is
	// gone or the namespace was restored from a backup.
	Current Token
	Reason  string // why, where it was not simply claimed by another holder
}

func (e *LostError) Error() string {
	s := fmt.Sprintf("%s %q: %v: carried token %d, current token %d", e.Operation, string(e.ID), ErrLost, e.Carried, e.Current)
	if e.Reason != "" {
		s += " (" + e.Reason + ")"
	}
	return s
}

// Unwrap returns [ErrLost].
func (e *LostError) Unwrap() error { return ErrLost }

// An InvalidError refuses an input before anything was stored.
type InvalidError struct {
	What   string // which input
	Value  string // its value
	Size   int    // its size in bytes and the limit, where that is the fault
	Limit  int
	Reason string
}

func (e *InvalidError) Error() string {
	v := e.Value
	if len(v) > 64 {
		v = v[:64] + "…"
	}
	s := fmt.Sprintf("%s %q %s", e.What, v, e.Reason)
	if e.Limit > 0 {
		s += fmt.Sprintf(": %d bytes, the limit is %d", e.Size, e.Limit)
	}
	return s
}
