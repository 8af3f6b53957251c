package execution

import (
	"encoding/json"
	"time"
)

// An AdmitRequest asks for a new execution.
type AdmitRequest struct {
	ID       ID              // default: a random one
	Workflow string          // required
	Params   json.RawMessage // JSON; default: null; at most 1 MiB
	Queue    string          // default: the workflow's name
	Due      time.Time       // first due time; default: now
	// Timeout is how long the execution may take, counted from its first due time;
	// then it fails with the code CodeTimeout. In whole milliseconds, rounded up, at
	// least 1 ms; default: for ever.
	Timeout time.Duration
}

// An Admission answers an AdmitRequest. Existing: an execution of the same
// workflow and params had the id already; nothing was changed.
type Admission struct {
	ID       ID
	Existing bool
}

// A ClaimRequest asks for due executions. (RFC 002, claimDue.)
type ClaimRequest struct {
	Now      time.Time     // bounds the due times; default: the clock's
	Limit    int           // at most so many leases, at least 1
	Duration time.Duration // of each lease; whole seconds, rounded up; etcd has a minimum

	Queues    []string // default: every queue of the namespace
	Workflows []string // only these; default: every workflow
}

// A ListRequest selects executions; zero fields select all.
type ListRequest struct {
	Status            Status
	Workflow          string
	Queue             string
	IDPrefix          string
	MinUnacknowledged int64  // unacknowledgedDeliveries at least so many
	Limit             int    // page size; default 100, at most 1000
	After             string // Page.Next of the page before
}

// A Page is a part of a listing. Next is empty on the last one. A page may hold
// fewer records than its limit, and none, and still have a next one.
type Page struct {
	Records []Record
	Next    string
}

// A StepWrite asks to record one attempt of a step. (RFC 002, writeStep.)
type StepWrite struct {
	Key      string
	Attempt  int64
	Done     bool
	Response json.RawMessage // at most 1 MiB unless configured otherwise
	// Waiter names the store at which this step waits. With Done false the record
	// tells of it; with Done true the step's registration there is deleted in the
	// record's own transaction. Nil: none.
	Waiter *StoreID
	// Event, with Done true, is the event that the step applies: it is deleted in the
	// record's own transaction, which leaves its receipt in its place. Nil: none.
	Event *AppliedEvent

	// Place is where the step stands in its run: the number of steps that had come to
	// their ends when it began, plus one. 0: unknown.
	Place int64
}

// A Step is a recorded attempt of a step. It never changes.
type Step struct {
	Key      string          `json:"stepKey"`
	Attempt  int64           `json:"stepAttempt"`
	Done     bool            `json:"done"`
	Response json.RawMessage `json:"stepResponse"`
	Token    Token           `json:"token"` // of the delivery that wrote it
	Written  time.Time       `json:"written"`
	Place    int64           `json:"place,omitempty"`  // as it was written
	Waiter   *StoreID        `json:"waiter,omitempty"` // where it waits; only with Done false
}
