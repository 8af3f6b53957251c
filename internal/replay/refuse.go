package replay

import "errors"

// A refusal marks an error as a durable answer.
type refusal struct{ err error }

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// Refuse marks an error of a call's Run as what the call has durably come to: it is
// recorded, with its message and the code of an error in its chain with a method
// Code() string, and Do returns it as a *holdfast.StepError, now and on every replay.
// Refuse(nil) is nil.
func Refuse(err error) error {
	if err == nil {
		return nil
	}
	return &refusal{err: err}
}

// Refused says whether err, or an error that it wraps, was marked by [Refuse].
func Refused(err error) bool {
	_, marked := errors.AsType[*refusal](err)
	return marked
}
