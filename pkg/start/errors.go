package start

import (
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The codes of a [*RejectedError] and a [*DeletedError]. Frozen: they are recorded.
const (
	// CodeInvalidParameters: the params can't be stored, or have no canonical form.
	CodeInvalidParameters = "INVALID_START_PARAMETERS"
	// CodeMismatch: the step has started another workflow before, or with other params.
	CodeMismatch = "START_REQUEST_MISMATCH"
	// CodeIDTaken: the chosen id belongs to an execution that the step has not started.
	CodeIDTaken = "START_ID_TAKEN"
	// CodeDeleted: what was started is not there any more.
	CodeDeleted = "START_TARGET_DELETED"
)

// A RejectedError refuses a start for good: the same request will be refused again.
// Nothing was stored.
type RejectedError struct {
	Workflow string // that was to be started
	Why      string // one of the codes
	Reason   string
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("start workflow %q: %s: %s", e.Workflow, e.Why, e.Reason)
}

// Code returns what the error is recorded with.
func (e *RejectedError) Code() string { return e.Why }

// A DeletedError says that an execution whose end is waited for does not exist any
// more, and with it what it came to. It wraps [execution.ErrNotFound].
type DeletedError struct{ ID execution.ID }

func (e *DeletedError) Error() string {
	return fmt.Sprintf("wait for execution %q: it was deleted, and with it what it came to", string(e.ID))
}

// Unwrap returns [execution.ErrNotFound].
func (e *DeletedError) Unwrap() error { return execution.ErrNotFound }

// Code returns [CodeDeleted].
func (e *DeletedError) Code() string { return CodeDeleted }

// lost is the error of a step whose execution, or run, is not there any more: nothing
// of it is applied.
func lost(op string, step execution.StepID, why string) error {
	return &execution.LostError{ID: step.Execution, Operation: op, Reason: why}
}

// restored says that the namespace is not the one of the caller's lease any more.
const restored = "the namespace was restored from a backup"
