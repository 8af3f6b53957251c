package effect

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/canonical"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Request asks for an effect, for who drives one without [Run].
type Request struct {
	Step      execution.StepID // that asks
	ID        string
	Operation string
	Input     json.RawMessage // at most MaxInputBytes in canonical form
}

// A Begun is how far an effect is.
type Begun struct {
	New    bool    // this call has begun it: nobody has acted yet
	Result *Result // it is settled; nil: it is pending
}

// Begin keeps what is asked for, unless it is kept already, and says how far the effect
// is. (RFC 004, begin.) An id that belongs to an effect with another operation or input
// gives an [*Error] with [CodeMismatch], a request that can't be kept one with
// [CodeInvalidRequest], before anything is read; a step whose execution was deleted, or
// whose run has ended, an [execution.ErrLost].
func (c *Client) Begin(ctx context.Context, req Request) (Begun, error) {
	if c.bad != nil {
		return Begun{}, c.bad
	}
	input, err := req.validate()
	if err != nil {
		return Begun{}, err
	}
	first := state{V: version, Operation: req.Operation, Input: input, Status: pending, Begun: markOf(req.Step)}
	doc, err := encode(first)
	if err != nil {
		return Begun{}, &Error{Effect: req.ID, Why: CodeInvalidRequest, Err: err}
	}
	now, founder, err := c.protocol.Found(ctx, storeOf(req.ID), req.Step, doc)
	if err != nil {
		return Begun{}, kept(req.ID, err)
	}
	s, err := decodeState(req.ID, now.State)
	switch {
	case err != nil:
		return Begun{}, err
	case s.Operation != req.Operation:
		return Begun{}, mismatch(req.ID, fmt.Sprintf("of operation %q", s.Operation))
	case !bytes.Equal(s.Input, input):
		return Begun{}, mismatch(req.ID, "with another input")
	}
	return Begun{New: founder && s.Status == pending, Result: s.Result}, nil
}

func mismatch(id, how string) error {
	return &Error{Effect: id, Why: CodeMismatch, Reason: "it was begun before, " + how}
}

// validate returns the input in canonical form.
func (r *Request) validate() (json.RawMessage, error) {
	refuse := func(reason string) (json.RawMessage, error) {
		return nil, &Error{Effect: r.ID, Why: CodeInvalidRequest, Reason: reason}
	}
	if err := r.Step.Validate(); err != nil {
		return refuse(err.Error())
	}
	if err := execution.ValidateName("effect id", r.ID); err != nil {
		return refuse(err.Error())
	}
	if err := execution.ValidateName("operation", r.Operation); err != nil {
		return refuse(err.Error())
	}
	input, err := canonical.JSON(r.Input)
	switch {
	case err != nil:
		return refuse("the input has no canonical form: " + err.Error())
	case len(input) > MaxInputBytes:
		return refuse(fmt.Sprintf("the input is too large: %d bytes, the limit is %d", len(input), MaxInputBytes))
	case stores.Depth(input) > maxDepth:
		return refuse(fmt.Sprintf("the input is nested deeper than %d levels", maxDepth))
	}
	return input, nil
}
