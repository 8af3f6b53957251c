package effect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast/internal/canonical"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The greatest input and result, as canonical JSON. A result is recorded once more as
// the step's, where a byte may take six.
const (
	MaxInputBytes  = 256 << 10
	MaxResultBytes = 160 << 10
)

// maxDepth bounds how many lists and objects are inside each other in either: what is
// kept is around it.
const maxDepth = stores.MaxDepth - 10

// maxMessageBytes bounds the message of a refusal.
const maxMessageBytes = 8 << 10

// A Result is what an effect has durably come to: a value, or a refusal. The recorded
// form is frozen.
type Result struct {
	Value    json.RawMessage `json:"value,omitempty"` // canonical JSON
	Declined *Refusal        `json:"declined,omitempty"`
}

// A Refusal is what became of a [Decline].
type Refusal struct {
	Message string `json:"message"`
	Code    string `json:"code"` // never empty
}

// A refusedError is a refusal as a workflow's call returns it.
type refusedError struct{ Refusal }

func (e *refusedError) Error() string { return e.Message }

// Code returns what the error is recorded with.
func (e *refusedError) Code() string { return e.Refusal.Code }

// resultOf encodes a value. The error says what is wrong with it.
func resultOf(value any) (Result, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return Result{}, fmt.Errorf("can't be encoded as JSON: %w", err)
	}
	doc, err := canonical.JSON(raw)
	switch {
	case err != nil:
		return Result{}, fmt.Errorf("has no canonical form: %w", err)
	case len(doc) > MaxResultBytes:
		return Result{}, fmt.Errorf("is too large: %d bytes, the limit is %d", len(doc), MaxResultBytes)
	case stores.Depth(doc) > maxDepth:
		return Result{}, fmt.Errorf("is nested deeper than %d levels", maxDepth)
	}
	return Result{Value: doc}, nil
}

// refusalOf makes the result of what declines.
func refusalOf(why error) Result {
	msg := strings.ToValidUTF8(why.Error(), "�")
	if len(msg) > maxMessageBytes {
		msg = strings.ToValidUTF8(msg[:maxMessageBytes], "") + "…"
	}
	code := ""
	var coder interface{ Code() string }
	if errors.As(why, &coder) {
		code = coder.Code()
		code = strings.ToValidUTF8(code[:min(len(code), execution.MaxNameBytes)], "")
	}
	if code == "" {
		code = CodeDeclined
	}
	return Result{Declined: &Refusal{Message: msg, Code: code}}
}

// equal says whether both say the same.
func (r Result) equal(other Result) bool {
	if r.Declined != nil && other.Declined != nil {
		return *r.Declined == *other.Declined
	}
	return r.Declined == nil && other.Declined == nil && bytes.Equal(r.Value, other.Value)
}

// valid says whether it is one of the two.
func (r Result) valid() bool { return (r.Declined == nil) != (r.Value == nil) }
