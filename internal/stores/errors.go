package stores

import (
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// CodeNotFound is the code of a [*NotFoundError], as it is recorded.
const CodeNotFound = "STORE_NOT_FOUND"

// ErrInUse says that the namespace holds executions, whose receipts must not be dropped.
var ErrInUse = errors.New("namespace holds executions")

// A NotFoundError says that a store does not exist. It wraps
// [execution.ErrNotFound]. Create it, or check its name and id.
type NotFoundError struct{ Store execution.StoreID }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("store %q with id %q does not exist", e.Store.Name, e.Store.ID)
}

// Unwrap returns [execution.ErrNotFound].
func (e *NotFoundError) Unwrap() error { return execution.ErrNotFound }

// Code returns [CodeNotFound].
func (e *NotFoundError) Code() string { return CodeNotFound }

// A ReceiptError says that the step's receipt is of a call of another kind, so that it
// does not tell what has become of this one; nothing has changed. Give each call a step
// of its own.
type ReceiptError struct {
	Step   execution.StepID
	Kind   string // of the receipt
	Wanted string // of the call
}

func (e *ReceiptError) Error() string {
	return fmt.Sprintf("step %q of %q was used for another call, of the kind %q, and has its receipt: give this one, of the kind %q, a step of its own",
		e.Step.Step, string(e.Step.Execution), e.Kind, e.Wanted)
}

// gone is the error of a step whose execution was deleted, or whose run has ended: it
// changes nothing any more (B77).
func gone(op string, step execution.StepID, why string) error {
	return &execution.LostError{ID: step.Execution, Operation: op, Reason: why}
}

// missingInstance refuses an expected version that names no instance: it could
// match a store that was created anew.
func missingInstance() error {
	return fmt.Errorf("missing instanceId: %w", &execution.InvalidError{What: "instance", Reason: "is empty; pass the one of the snapshot"})
}
