package store

import (
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// ErrNotFound says that a store does not exist: create it by GetOrCreate, or check its
// id. It is [execution.ErrNotFound]. The functions of workflows return what is recorded
// of it: a *holdfast.StepError with [CodeNotFound], of which errors.Is says the same.
var ErrNotFound = execution.ErrNotFound

// The codes by which errors of this package are recorded.
const (
	CodeNotFound     = stores.CodeNotFound
	CodeInvalidState = "STORE_INVALID_STATE"
)

// An InvalidStateError refuses a state, and nothing has changed: it can't be encoded, it
// or the result that would be recorded of it is too large or nested too deeply, or the
// store's [Validate] says so.
type InvalidStateError struct {
	Store execution.StoreID
	Err   error // what is wrong
}

func (e *InvalidStateError) Error() string {
	return fmt.Sprintf("state of %s is invalid: %v", describe(e.Store), e.Err)
}

// Unwrap returns what is wrong.
func (e *InvalidStateError) Unwrap() error { return e.Err }

// Code returns [CodeInvalidState].
func (e *InvalidStateError) Code() string { return CodeInvalidState }

// A callerError carries an error of the caller's own function through the protocol,
// to be returned as it is.
type callerError struct{ err error }

func (e *callerError) Error() string { return e.err.Error() }

func (e *callerError) Unwrap() error { return e.err }

// A misfitError says that what the store holds is no T.
type misfitError struct {
	store execution.StoreID
	into  any // of the type
	err   error
}

func (e *misfitError) Error() string {
	return fmt.Sprintf("state of %s does not fit %T: %v", describe(e.store), e.into, e.err)
}

func (e *misfitError) Unwrap() error { return e.err }

// plain returns err as the caller is given it: an error that names the store is not
// wrapped by one that names it again.
func plain(key execution.StoreID, err error) error {
	if own, is := errors.AsType[*callerError](err); is {
		return own.err
	}
	if state, is := errors.AsType[*InvalidStateError](err); is {
		return state
	}
	if misfit, is := errors.AsType[*misfitError](err); is {
		return misfit
	}
	if missing, is := errors.AsType[*stores.NotFoundError](err); is {
		return missing
	}
	if bad, is := errors.AsType[*execution.InvalidError](err); is && bad.Limit > 0 && (bad.What == "state" || bad.What == "result") {
		// Without the beginning of the user's data.
		return &InvalidStateError{Store: key, Err: fmt.Errorf("%s %s: %d bytes, the limit is %d", bad.What, bad.Reason, bad.Size, bad.Limit)}
	}
	return err
}

// durable returns err as it ends a workflow's call: marked, where the call would come
// to the same again. Everything else is tried again by another delivery. An error of the
// caller's own is marked whatever it wraps.
func durable(key execution.StoreID, err error) error {
	_, caller := errors.AsType[*callerError](err)
	if err == nil || !caller && errors.Is(err, execution.ErrLost) {
		return err
	}
	_, missing := errors.AsType[*stores.NotFoundError](err)
	_, state := errors.AsType[*InvalidStateError](err)
	_, input := errors.AsType[*execution.InvalidError](err)
	if caller || missing || state || input {
		return replay.Refuse(plain(key, err))
	}
	return plain(key, err)
}

// describe names a store in an error.
func describe(key execution.StoreID) string {
	return fmt.Sprintf("store %q with id %q", key.Name, key.ID)
}
