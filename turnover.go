package holdfast

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// ContinueAsNew returns an error with which a workflow's function ends its run: the
// execution goes on at once, under the same id, from the top of the function with in as
// its input and without a recorded step. A workflow that would otherwise record steps
// without end, or outgrow its input, returns it now and then:
//
//	return out, holdfast.ContinueAsNew(next)
//
// out is ignored. in must be assignable to the workflow's input type and have at most
// 1 MiB as JSON; if not, the execution fails and says so.
//
// It counts as any outcome does: if a call of the delivery has returned [ErrSuspended],
// the execution is suspended all the same; steps that are in flight are completed
// first. What the run has recorded is deleted then, and its names of steps are free
// again; a wait that an earlier delivery of it began, and that this one did not come to,
// is given up. Whoever waits for the execution's result waits for that of the last run.
// It is not a failure: see [Failed]. A step's function must not return it.
func ContinueAsNew(in any) error { return &nextRunError{in} }

// A nextRunError is what ContinueAsNew returns.
type nextRunError struct{ in any }

// Error is what is recorded if the error ends up where it does nothing.
func (*nextRunError) Error() string {
	return "continue as new: the workflow's function returns this, and nothing else can"
}

// A turnoverError is the end of a run, with the next one's params.
type turnoverError struct{ params json.RawMessage }

func (*turnoverError) Error() string { return "the execution goes on as another run" }

// ended reads the error of the workflow's function: a [*turnoverError] in the place of a
// nextRunError, or why that can't be.
func (w *Workflow[In, Out]) ended(err error) error {
	next, is := errors.AsType[*nextRunError](err)
	if !is {
		return err
	}
	want := reflect.TypeFor[In]()
	fail := func(err error) error { return fmt.Errorf("workflow %q can't continue as new: %w", w.name, err) }
	if got := reflect.TypeOf(next.in); got == nil && !nilable(want) || got != nil && !got.AssignableTo(want) {
		return fail(fmt.Errorf("the given input is a %v where the workflow's is a %v", got, want))
	}
	params, err := json.Marshal(next.in)
	if err != nil {
		return fail(fmt.Errorf("input can't be encoded as JSON: %w", err))
	}
	if err := json.Unmarshal(params, new(In)); err != nil {
		return fail(fmt.Errorf("input can't be decoded from its own JSON: %w", err))
	}
	if len(params) > execution.MaxPayloadBytes {
		return fail(fmt.Errorf("input is too large: %d bytes, the limit is %d", len(params), execution.MaxPayloadBytes))
	}
	return &turnoverError{params}
}

// nilable says whether nil is a value of the type.
func nilable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Map, reflect.Slice:
		return true
	default: // channels and functions have no JSON
		return false
	}
}
