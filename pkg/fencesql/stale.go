package fencesql

import (
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A StaleError refuses a transaction: a later delivery of the same execution has
// been at the resource. It wraps an [*execution.LostError], and so
// [execution.ErrLost]: a step's function returns it, wrapped or not, and the engine
// ends the delivery as lost and records nothing.
type StaleError struct {
	Namespace   string
	ExecutionID string
	Resource    string
	Carried     execution.Token // the refused holder's
	Seen        execution.Token // the greatest that has been there
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("guard %q: %v: execution %q carried token %d, and token %d has been there",
		e.Resource, execution.ErrLost, e.ExecutionID, e.Carried, e.Seen)
}

// Unwrap returns what the engine understands.
func (e *StaleError) Unwrap() error {
	return &execution.LostError{
		ID: execution.ID(e.ExecutionID), Operation: "guard", Carried: e.Carried, Current: e.Seen,
		Reason: fmt.Sprintf("by a guard of %q outside of etcd", e.Resource),
	}
}
