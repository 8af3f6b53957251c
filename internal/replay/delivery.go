package replay

import (
	"context"
	"encoding/json"
	"runtime"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Context is what a workflow's function is given: a context.Context that knows its
// delivery. Only the engine makes one. It ends with the delivery.
type Context interface {
	context.Context
	// Delivery returns the delivery that runs the workflow's function.
	Delivery() Delivery
}

// A Delivery is one replay of a workflow's function. Its methods may be called from
// many goroutines at once.
type Delivery interface {
	// Lease returns the lease under which the delivery writes.
	Lease() execution.Lease

	// Workflow returns the workflow's name.
	Workflow() string

	// Do makes one durable call, made by the user at the site: see [Site]. It
	// returns the recorded result, or
	//
	//   - a *holdfast.StepError: what the call came to, by [Refuse], and comes to on
	//     every replay;
	//   - holdfast.ErrSuspended: the delivery ends here;
	//   - the call's misuse, by which the execution fails.
	//
	// The caller returns each of these errors as it is.
	Do(site uintptr, call Call) (json.RawMessage, error)
}

// Site returns where the function was called that calls Site: an exported function
// calls it, to know its user.
func Site() uintptr {
	var pc [1]uintptr
	runtime.Callers(3, pc[:])
	return pc[0]
}
