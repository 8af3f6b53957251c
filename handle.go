package holdfast

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Handle refers to one execution whose result is an Out. It is plain data: it
// may be copied, and another process makes its own by [Workflow.Handle].
type Handle[Out any] struct {
	client   *Client
	id       execution.ID
	existing bool
}

// ID returns the execution's id.
func (h Handle[Out]) ID() string { return string(h.id) }

// Existing says whether Start met the execution instead of making it.
func (h Handle[Out]) Existing() bool { return h.existing }

// Wait blocks until the execution has completed or failed, or ctx ends, and
// returns the outcome. An unknown id gives an error that wraps
// [execution.ErrNotFound].
func (h Handle[Out]) Wait(ctx context.Context) (execution.Outcome, error) {
	if h.client == nil {
		return execution.Outcome{}, errNoClient
	}
	return h.client.executions.Wait(ctx, h.id)
}

// Result waits as Wait does and returns what the workflow returned. An execution
// that failed or was cancelled gives a [*FailedError].
func (h Handle[Out]) Result(ctx context.Context) (Out, error) {
	var zero Out
	o, err := h.Wait(ctx)
	if err != nil {
		return zero, err
	}
	return result[Out](h.id, o)
}

// result is what the terminal outcome says to the caller.
func result[Out any](id execution.ID, o execution.Outcome) (Out, error) {
	var out, zero Out
	if o.Kind != execution.Completed {
		failed := &FailedError{ID: string(id), Message: "no reason was recorded"}
		if o.Error != nil {
			failed.Message, failed.Code, failed.Stack = o.Error.Message, o.Error.Code, o.Error.Stack
		}
		return zero, failed
	}
	if err := json.Unmarshal(o.Result, &out); err != nil {
		return zero, fmt.Errorf("result of execution %q does not fit %T: %w", string(id), out, err)
	}
	return out, nil
}
