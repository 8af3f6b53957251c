package replay

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Call describes a durable call.
type Call struct {
	// Name is the step's, unique in the run; all calls, steps and sleeps share names.
	Name string

	// Kind says what it is, in messages: "store update".
	Kind string

	// Misuse is a fault of the call itself, known before it is made: the execution
	// fails by it, since a replay would come to it again. Default: none.
	Misuse error

	// Run does the work, unless the call's answer is recorded; required. ctx ends with
	// the delivery, and carries the call's [execution.Fencing], as of a step. An error
	// that [Refuse] has marked is recorded and returned, now and on every replay. An
	// [execution.ErrLost] ends the delivery as lost, and any other error ends it to
	// be redelivered, with nothing recorded. A result that arrives after ctx has ended
	// is offered to etcd; an error that does is not, since that is what it may be of.
	//
	// Run may be called more than once, in one delivery and in many. Those calls come
	// one after the other.
	Run func(ctx context.Context, earlier Earlier) (Answer, error)

	// Accept decodes the result as it is recorded, before Do returns. An error says
	// that it does not fit: the delivery is retried, for another release may be able
	// to read it. Default: any result fits.
	Accept func(result json.RawMessage) error
}

// An Earlier is what is known of a call from earlier deliveries.
type Earlier struct {
	// Wait is what the call waits for, as it was recorded; nil: nothing is recorded.
	Wait *Wait

	// Attempt is the number with which the call's answer will be recorded: 0, or 1
	// where a wait is recorded.
	Attempt int64
}

// An Answer is what a call has come to: a result, or a wait.
type Answer struct {
	// Result is recorded, and Do returns it; default: null. It must be JSON. If it is
	// too large to be recorded, that is the call's durable answer.
	Result json.RawMessage

	// Wait, unless nil, says that there is no result yet. It is recorded, unless an
	// earlier one is, and the delivery is suspended. But the first one that names a
	// store is recorded, and then Run is called again at once, to register there. Before
	// that it must not: what ends an execution, or a run, finds the registrations by the
	// records, and one that no record tells of would be left behind.
	Wait *Wait

	// Event is applied with the result, or with the error beside which Run returns the
	// answer: see [execution.StepWrite]. If it is gone by then, Run is called again.
	// Default: none.
	Event *execution.AppliedEvent
}

// A Wait is what a call waits for. Whoever returns one that is recorded already, or that
// names no store, has seen to it that the execution is woken when it may be over; the
// engine sees to its times alone.
type Wait struct {
	// Until is when the execution is to be delivered at the latest; zero: the wait has
	// no time of its own. It is recorded in whole milliseconds, rounded up, and once:
	// a later one of the same call changes nothing.
	Until time.Time

	// Wake, unless zero, is when the execution is to be delivered at the latest, too. It
	// is not recorded: each delivery that comes to wait names its own.
	Wake time.Time

	// Store is where the call is registered once the wait is recorded; zero: nowhere.
	// The registration is deleted in the transaction that records the call's answer.
	Store execution.StoreID
}
