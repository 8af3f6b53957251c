package execution

import (
	"encoding/json"
	"time"
)

// A Token is a fencing token: the etcd revision of the claim. Tokens of one
// execution strictly rise with each claim.
type Token int64

// A Lease is a holder's claim on one execution. (RFC 002, Runtime API.) It is
// plain data and may be handed to another process; the fencing token, not the
// possession of this value, decides whether a write is accepted.
type Lease struct {
	ID    ID    `json:"executionId"`
	Token Token `json:"token"`
	// ExpiresAt is when the lease ends unless renewed, by the claimer's clock. It
	// informs; no decision about a write depends on it.
	ExpiresAt time.Time `json:"expiresAt"`
	// Incarnation and Run say which history the holder writes: an id that is
	// admitted again after its deletion has another incarnation.
	Incarnation int64 `json:"incarnation"`
	Run         int64 `json:"run"`
	// Epoch is the namespace's epoch at the claim; a restore from a backup changes
	// it and so refuses every lease from before.
	Epoch string `json:"epoch"`
}

// A Delivery is one claim's worth of work on an execution.
type Delivery struct {
	Lease
	Workflow string          `json:"workflow"`
	Queue    string          `json:"queue"`
	Params   json.RawMessage `json:"params"` // of the lease's run
	// Deadline is when the execution fails unless it has ended; zero: never.
	Deadline time.Time `json:"deadline,omitzero"`
	// First: no earlier delivery exists, so no step can be recorded yet.
	First bool `json:"first"`
	// UnacknowledgedDeliveries at the claim, this one not included.
	UnacknowledgedDeliveries int64 `json:"unacknowledgedDeliveries"`
	// Takeover: the delivery before this one ended by expiry.
	Takeover bool `json:"takeover"`
}

// An OutcomeKind says how a delivery is acknowledged.
type OutcomeKind string

// The kinds of outcome. (RFC 002, acknowledge.)
const (
	Completed OutcomeKind = "completed"
	Failed    OutcomeKind = "failed"
	Suspended OutcomeKind = "suspended"
	// Continued ends a run: the execution goes on as the next one, with Params and
	// without the steps of the one that ended.
	Continued OutcomeKind = "continued"
)

// CodeCancelled is the error code of an execution that was cancelled.
const CodeCancelled = "cancelled"

// CodeTimeout is the error code of an execution that has come to its deadline.
const CodeTimeout = "timeout"

// An Outcome is what a delivery is acknowledged with, or what an execution came to.
type Outcome struct {
	Kind   OutcomeKind     `json:"kind"`
	Result json.RawMessage `json:"result,omitempty"` // Completed
	Error  *Error          `json:"error,omitempty"`  // Failed
	// Params, with Continued, are the next run's; JSON; default: null; at most 1 MiB.
	Params json.RawMessage `json:"params,omitempty"`
	// Wake asks, with Suspended, for a delivery at this time, as a requestWake made
	// during the delivery would. Zero: none.
	Wake time.Time `json:"wake,omitzero"`
	// Handover, with Suspended, asks for a delivery at once: the holder is
	// shutting down.
	Handover bool `json:"handover,omitempty"`
}

// An Error is the recorded form of an error.
type Error struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Stack   string `json:"stack,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// TimeoutAt is the outcome of an execution that has come to its deadline.
func TimeoutAt(deadline time.Time) Outcome {
	at := deadline.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return Outcome{Kind: Failed, Error: &Error{Message: "the execution has timed out: its deadline was " + at, Code: CodeTimeout}}
}

// Cancelled says whether the outcome is that of a cancelled execution.
func (o Outcome) Cancelled() bool {
	return o.Kind == Failed && o.Error != nil && o.Error.Code == CodeCancelled
}

// TimedOut says whether the outcome is that of an execution that came to its deadline.
func (o Outcome) TimedOut() bool {
	return o.Kind == Failed && o.Error != nil && o.Error.Code == CodeTimeout
}
