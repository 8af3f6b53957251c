// Package conformance is the suite that a backend of executions must pass. It
// asserts what a caller can observe and imports the domain's words only, so that
// it runs over any implementation for which somebody writes a [Harness].
//
// Each case is the subtest <group>/<slug>; the slugs are frozen. A case gets a
// harness, and with it a namespace, of its own. Nothing waits for a lease to run
// out, except the one case about just that: the harness ends leases at once. Due
// times are not waited for either, where a case can say what time it is. Whatever
// else takes its time is polled, bounded generously; no case asserts that
// something happens quickly.
package conformance

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Executions admits, reads and wakes executions.
type Executions interface {
	Admit(context.Context, execution.AdmitRequest) (execution.Admission, error)
	Get(context.Context, execution.ID) (execution.Record, error)
	List(context.Context, execution.ListRequest) (execution.Page, error)
	RequestWake(ctx context.Context, id execution.ID, at time.Time) error
}

// Leases claims executions and ends their deliveries.
type Leases interface {
	ClaimDue(context.Context, execution.ClaimRequest) ([]execution.Delivery, error)
	Renew(ctx context.Context, lease execution.Lease, duration time.Duration) (execution.Lease, error)
	Release(ctx context.Context, lease execution.Lease, why string) error
	Acknowledge(ctx context.Context, lease execution.Lease, outcome execution.Outcome) error
}

// Operator acts on executions from outside.
type Operator interface {
	Wait(context.Context, execution.ID) (execution.Outcome, error)
	Cancel(ctx context.Context, id execution.ID, why string) error
	Fence(ctx context.Context, id execution.ID, why string) error
}

// Steps records and reads steps.
type Steps interface {
	WriteStep(context.Context, execution.Lease, execution.StepWrite) (execution.Step, error)
	Read(context.Context, execution.Lease) ([]execution.Step, error)
}

// Receipted makes changes that are not fenced: each is made once for its step, whoever
// holds the execution.
type Receipted interface {
	// StartWorkflow starts an execution on behalf of the step, and returns the id of the
	// one that the step has started.
	StartWorkflow(ctx context.Context, lease execution.Lease, step string, req execution.AdmitRequest) (execution.ID, error)
	// UpdateStore changes the state of a store on behalf of the step, and returns the
	// state that the step's change has made. A store that does not exist has the state
	// null. change may be called more than once.
	UpdateStore(ctx context.Context, lease execution.Lease, id execution.StoreID, step string, change func(json.RawMessage) json.RawMessage) (json.RawMessage, error)
	// ReadStore returns the state of a store.
	ReadStore(ctx context.Context, id execution.StoreID) (json.RawMessage, error)
}

// A Client is all that a caller can do.
type Client interface {
	Executions
	Leases
	Operator
	Steps
	Receipted
}

// A Reply is what a handler makes of a delivery; exactly one field is set.
type Reply struct {
	Outcome *execution.Outcome // acknowledge
	Retry   error              // release
	Lost    bool               // stop silently: somebody else has it
}

// A Handler does the work of a delivery. drain closes when its dispatcher begins
// to shut down.
type Handler func(ctx context.Context, d execution.Delivery, drain <-chan struct{}) Reply

// A DispatcherConfig describes a dispatcher.
type DispatcherConfig struct {
	Name          string        // the holder, as in an execution's deliveries
	Concurrency   int           // deliveries at once
	LeaseDuration time.Duration // default: the harness's choice
	Workflows     []string      // those that it has; default: the suite's
	Handler       Handler
}

// A Dispatcher runs until it is stopped or killed; either may be called again.
type Dispatcher interface {
	// Stop drains and waits for the end.
	Stop()
	// Kill crashes it: from now on nothing that it does reaches the backend, neither
	// writes nor renewals. Its lease stays until the harness ends it.
	Kill()
}

// A Process is a runtime process of its own with one dispatcher, whose handler is
// that of [ProcessHandler].
type Process interface {
	// Lines is what its handler says; it closes when the process has ended.
	Lines() <-chan string
	// Tell sends its handler a line.
	Tell(line string)
	// Kill sends SIGKILL and waits until the process is gone.
	Kill()
	// Pause stops it as it is (SIGSTOP); Resume lets it go on.
	Pause()
	Resume()
}

// A Feature is something that not every backend can offer.
type Feature string

// Processes is supported where several processes can share the backend.
const Processes Feature = "processes"

// A Harness is a backend with one namespace, for one case. When the case ends, its
// factory verifies the namespace's invariants.
type Harness interface {
	// Client is a caller; Peer is another one that shares nothing but the backend,
	// and at each call a new one.
	Client() Client
	Peer() Client

	// StartDispatcher starts a dispatcher, which the factory stops after the case.
	StartDispatcher(DispatcherConfig) Dispatcher
	// StartProcess starts a process whose handler has the role. Asked for only where
	// Processes is supported.
	StartProcess(name, role string) Process

	// EndLease lets a lease run out now, and those that were claimed by the same
	// dispatcher with it.
	EndLease(execution.Lease)
	// ShortestLease is the shortest duration that a lease can have.
	ShortestLease() time.Duration

	// Dump returns the execution's state and steps as the backend stores them: equal
	// if and only if nothing was written in between.
	Dump(execution.ID) string

	Supports(Feature) bool
}

// A Factory makes the harness of a case.
type Factory func(t *testing.T) Harness
