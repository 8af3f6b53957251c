package holdfast

import (
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The errors that workflow code tells apart by errors.Is.
var (
	// ErrSuspended is what [Step], [Sleep] and the durable calls of other packages
	// return when the delivery ends here: the execution waits for a time or an event,
	// moves to another worker, or is redelivered.
	// Return it, wrapped or not; the next delivery comes back to this place with
	// the recorded steps. It is not a failure: see [Failed].
	ErrSuspended = errors.New("delivery ends here; the execution goes on in a later one")

	// ErrDuplicateStep: two calls of [Step], [Sleep] or another package in one run
	// have the same name. The execution fails, since a replay could not tell them apart and a
	// retry would not help. Give each its own name, in a loop with the index.
	ErrDuplicateStep = errors.New("step name is used twice in one run")
)

var errNoClient = errors.New("the client is nil; make one with Open")

// Failed says whether err is a failure: false for nil, for a suspension and for what
// [ContinueAsNew] returns. Ask it before a compensation, so that a mere wait refunds
// nothing.
func Failed(err error) bool {
	_, over := errors.AsType[*nextRunError](err)
	return err != nil && !over && !errors.Is(err, ErrSuspended)
}

// A StepError is a step's recorded failure. It holds what was recorded and
// nothing else, so that it is the same on the first run and on every replay.
type StepError struct {
	Step      string
	Attempts  int64 // how many times the step's function was run; 1 of other packages' calls
	Message   string
	Code      string // of an error in the chain with a method Code() string
	Permanent bool   // the error was not to be retried, whatever the policy
}

func (e *StepError) Error() string {
	if e.Attempts > 1 {
		return fmt.Sprintf("step %q failed after %d attempts: %s", e.Step, e.Attempts, e.Message)
	}
	return fmt.Sprintf("step %q failed: %s", e.Step, e.Message)
}

// Is says whether the failure is [ErrNoEvent], or that a store does not exist, which is
// the ErrNotFound of package store.
func (e *StepError) Is(target error) bool {
	return target == ErrNoEvent && e.Code == codeNoEvent || target == execution.ErrNotFound && e.Code == stores.CodeNotFound
}

// A FailedError says that an execution came to the outcome failed, which never
// changes.
type FailedError struct {
	ID      string
	Message string
	Code    string
	Stack   string
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("execution %q failed: %s", e.ID, e.Message)
}

// Cancelled says whether the execution failed because somebody cancelled it.
func (e *FailedError) Cancelled() bool { return e.Code == execution.CodeCancelled }

// TimedOut says whether the execution failed since it came to its deadline: see
// [Timeout].
func (e *FailedError) TimedOut() bool { return e.Code == execution.CodeTimeout }

// A PermanentError marks an error as one that no retry can mend. [Permanent]
// makes it.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap returns the marked error.
func (e *PermanentError) Unwrap() error { return e.Err }

// Permanent marks the error of a step's function as one that no retry can mend:
// the step fails at once, whatever its [MaxAttempts]. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &PermanentError{Err: err}
}

// maxMessageBytes bounds the recorded message of an error.
const maxMessageBytes = 16 << 10

// recordedError is err as it is recorded.
func recordedError(err error) *execution.Error {
	msg := strings.ToValidUTF8(err.Error(), "�")
	if len(msg) > maxMessageBytes {
		msg = strings.ToValidUTF8(msg[:maxMessageBytes], "") + "…"
	}
	code := codeOf(err)
	code = strings.ToValidUTF8(code[:min(len(code), execution.MaxNameBytes)], "")
	return &execution.Error{Message: msg, Code: code}
}

// codeOf returns the code that the error carries, if any.
func codeOf(err error) string {
	var coder interface{ Code() string }
	if errors.As(err, &coder) {
		return coder.Code()
	}
	if step, is := errors.AsType[*StepError](err); is {
		return step.Code
	}
	if failed, is := errors.AsType[*FailedError](err); is {
		return failed.Code
	}
	return ""
}
