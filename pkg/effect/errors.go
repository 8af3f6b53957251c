package effect

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The codes of errors. The first three are recorded, and workflows see them. The others
// end a delivery, which is redelivered after a delay; nothing is recorded.
const (
	// CodeInvalidRequest: the effect's id, operation, input or RetryIn can't be used.
	CodeInvalidRequest = "INVALID_EFFECT_REQUEST"
	// CodeMismatch: the id belongs to an effect with another operation or input.
	CodeMismatch = "EFFECT_REQUEST_MISMATCH"
	// CodeDeclined: it was not done, and will not be; of a [Decline] without a code.
	CodeDeclined = "EFFECT_DECLINED"

	// CodeUnavailable: etcd did not do what it was asked for.
	CodeUnavailable = "EFFECT_CLIENT_UNAVAILABLE"
	// CodeHandlerInvalid: what Perform or Lookup returned can't be stored, or is no Out.
	CodeHandlerInvalid = "EFFECT_HANDLER_INVALID"
	// CodeInvariant: what is kept of the effect can't be.
	CodeInvariant = "EFFECT_RUNTIME_INVARIANT"
	// CodeWaiterMismatch: the step waits already, for somebody else.
	CodeWaiterMismatch = "EFFECT_WAITER_MISMATCH"
)

// An Error says why something could not be done with an effect. Nothing was changed by
// it, but for CodeUnavailable: there the change may have been made, and the same call
// comes to the same again.
type Error struct {
	Effect string // its id
	Why    string // one of the codes
	Reason string
	Err    error // what was met; may be nil
}

func (e *Error) Error() string {
	s := fmt.Sprintf("effect %q: %s", e.Effect, e.Why)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns what was met.
func (e *Error) Unwrap() error { return e.Err }

// Code returns the code.
func (e *Error) Code() string { return e.Why }

// A ConflictError says that an effect is settled with another result, which stays. What
// was to be settled is reported: see [Client.Conflicts]. Find out whether it was done
// twice.
type ConflictError struct {
	Effect      string // its id
	Result      Result // what counts
	Conflicting Result // what was to be settled
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("effect %q is settled with another result already, which stays; this one is reported as a conflict", e.Effect)
}

// A DeclinedError marks an error as what an effect has come to. [Decline] makes it.
type DeclinedError struct{ Err error }

func (e *DeclinedError) Error() string { return e.Err.Error() }

// Unwrap returns the marked error.
func (e *DeclinedError) Unwrap() error { return e.Err }

// Decline marks an error of Perform or Lookup as what the effect has durably come to: the
// provider has refused, so that it was not done and will not be. The effect is settled
// with it, and [Run] returns it as a *holdfast.StepError, with the message, and the code
// of an error in the chain with a method Code() string. Decline(nil) is nil.
func Decline(err error) error {
	if err == nil {
		return nil
	}
	return &DeclinedError{Err: err}
}

// kept returns an error of the stores as callers of this package are given it.
func kept(id string, err error) error {
	_, own := errors.AsType[*Error](err)
	_, invalid := errors.AsType[*execution.InvalidError](err)
	_, missing := errors.AsType[*stores.NotFoundError](err)
	switch {
	case err == nil, own, invalid, errors.Is(err, execution.ErrLost):
		return err
	case missing:
		return fmt.Errorf("effect %q: %w", id, execution.ErrNotFound)
	}
	return &Error{Effect: id, Why: CodeUnavailable, Err: err}
}

// durable returns an error as it ends a workflow's call: marked, where the call would
// come to the same again. Everything else is tried again by another delivery.
func durable(err error) error {
	own, is := errors.AsType[*Error](err)
	if is && (own.Why == CodeInvalidRequest || own.Why == CodeMismatch) && !errors.Is(err, execution.ErrLost) {
		return replay.Refuse(err)
	}
	return err
}

// odd returns an error that can't be where the driver has got so far.
func odd(id string, err error) error {
	_, own := errors.AsType[*Error](err)
	if err == nil || own || errors.Is(err, execution.ErrLost) || errors.Is(err, context.Canceled) {
		return err
	}
	return &Error{Effect: id, Why: CodeInvariant, Err: err}
}
