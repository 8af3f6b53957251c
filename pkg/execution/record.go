package execution

import (
	"encoding/json"
	"time"
)

// A Record is what can be read of an execution. (RFC 001, RFC 002.)
type Record struct {
	ID       ID              `json:"id"`
	Workflow string          `json:"workflow"`
	Queue    string          `json:"queue"`
	Params   json.RawMessage `json:"params,omitempty"` // of the current run; not filled in by List
	Status   Status          `json:"status"`
	// FirstParams are those of run 0, where another one is current; as Params.
	FirstParams json.RawMessage `json:"firstParams,omitempty"`
	// UnacknowledgedDeliveries counts consecutive deliveries that ended without an
	// acknowledgement. An expired one counts before anybody claims again.
	UnacknowledgedDeliveries int64 `json:"unacknowledgedDeliveries"`
	// Due is when the execution may next be claimed, NotBefore the redelivery
	// delay's bound; zero: never, none.
	Due       time.Time `json:"due,omitzero"`
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Deadline is when the execution fails unless it has ended; zero: never.
	Deadline time.Time `json:"deadline,omitzero"`
	// PendingEvents counts the events that were sent to the execution and that no step
	// has applied; not filled in by List.
	PendingEvents int64 `json:"pendingEvents,omitempty"`
	// Token is the fencing token that is current while status is running; otherwise 0.
	Token Token `json:"token,omitempty"`
	// Incarnation and Run identify the history: each turnover begins another run.
	// Claims counts every claim.
	Incarnation int64 `json:"incarnation"`
	Run         int64 `json:"run"`
	Claims      int64 `json:"claims"`
	// Outcome is set when the status is terminal.
	Outcome    *Outcome       `json:"outcome,omitempty"`
	AdmittedAt time.Time      `json:"admittedAt,omitzero"`
	Deliveries []PastDelivery `json:"deliveries,omitempty"` // the last ones, oldest first
}

// How a delivery ended.
type How string

// The ways a delivery ends; HowRunning: it has not ended.
const (
	HowRunning   How = "running"
	HowCompleted How = "completed"
	HowFailed    How = "failed"
	HowSuspended How = "suspended"
	HowContinued How = "continued" // the delivery was its run's last one
	HowReleased  How = "released"
	HowExpired   How = "expired"
	HowFenced    How = "fenced"
	HowCancelled How = "cancelled"
)

// A PastDelivery tells of one delivery of an execution.
type PastDelivery struct {
	Token   Token     `json:"token"`
	Holder  string    `json:"holder"`
	Claimed time.Time `json:"claimed"`
	Ended   time.Time `json:"ended,omitzero"`
	How     How       `json:"how"`
	Why     string    `json:"why,omitempty"`
}
