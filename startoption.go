package holdfast

import (
	"errors"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A StartOption configures the start of an execution, by a client or by a workflow.
type StartOption func(*startConfig)

type startConfig struct {
	id      execution.ID
	given   bool
	due     time.Time
	timeout time.Duration
	timed   bool
}

// WithID gives the execution its id: 1 to 512 bytes of UTF-8 without NUL; default:
// a random one. Starting twice with the same id and input starts one execution.
func WithID(id string) StartOption {
	return func(c *startConfig) { c.id, c.given = execution.ID(id), true }
}

// StartAt has the execution delivered for the first time at t, in whole milliseconds; a
// time that has passed, and the default, mean at once. It is there before: it can be sent
// events, which wait for that time, cancelled, or woken earlier by [Client.Wake].
func StartAt(t time.Time) StartOption {
	return func(c *startConfig) { c.due = t }
}

// Timeout has the execution fail with the code "timeout" unless it has ended d after its
// start, or after the time that [StartAt] gives it; default: never. d is more than 0, at
// most 100,000 days, and counts in whole milliseconds, rounded up; the time of all runs
// counts, see [ContinueAsNew]. An execution that exists keeps the deadline that it has.
//
// At the deadline, by the worker's clock, the contexts of the workflow and of its steps
// end, with the cause [execution.ErrTimeout], and nothing that they return is recorded.
// An execution that waits is delivered then, to fail without running the workflow. One
// that no worker can be given fails when there is one.
func Timeout(d time.Duration) StartOption {
	return func(c *startConfig) { c.timeout, c.timed = d, true }
}

// newStartConfig returns what the options say, and what is wrong with them.
func newStartConfig(opts []StartOption) (startConfig, error) {
	var c startConfig
	for _, o := range opts {
		if o == nil {
			return c, errors.New("an option is nil")
		}
		o(&c)
	}
	if c.timed && c.timeout <= 0 {
		return c, &execution.InvalidError{What: "timeout", Value: c.timeout.String(), Reason: "is not more than 0"}
	}
	if c.given {
		return c, c.id.Validate()
	}
	return c, nil
}
