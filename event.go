package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/pkg/event"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Forever is no deadline, as the time of an [Await].
const Forever time.Duration = math.MaxInt64

// ErrNoEvent is what the error of an [Await] is whose deadline has passed. It is a
// [*StepError] with the code "NO_EVENT".
var ErrNoEvent = errors.New("no event has come in time")

// The codes of what an Await has failed by. Frozen: they are recorded.
const (
	codeNoEvent = "NO_EVENT"
	codeMisfit  = "EVENT_PAYLOAD"
)

// kindAwait is what a call of Await is, in messages.
const kindAwait = "event wait"

// An Event is the name of events, and the type of what they carry, which travels as
// JSON: a value of it lets the compiler check who sends and who waits. [DefineEvent]
// makes one.
type Event[T any] struct{ name string }

// DefineEvent makes an Event. The name, 1 to 512 bytes of UTF-8 without NUL, is stored
// with each event; a bad one is reported by Send and Await.
func DefineEvent[T any](name string) Event[T] { return Event[T]{name} }

// Name returns the events' name.
func (e Event[T]) Name() string { return e.name }

// Send is [Client.Send] of an event of this name.
func (e Event[T]) Send(ctx context.Context, c *Client, id string, payload T, opts ...SendOption) error {
	return c.Send(ctx, id, e.name, payload, opts...)
}

// Await is [Await] of an event of this name.
func (e Event[T]) Await(ctx Context, within time.Duration, opts ...AwaitOption) (T, error) {
	return awaitEvent[T](ctx, replay.Site(), e.name, within, opts)
}

// An AwaitOption configures one [Await].
type AwaitOption func(*awaitConfig)

type awaitConfig struct{ step string }

// AsStep gives the step its name; default: the event's. A workflow that awaits several
// events of one name gives each Await its own, in a loop with the index.
func AsStep(name string) AwaitOption {
	return func(c *awaitConfig) { c.step = name }
}

// Await waits for an event of the name that [Client.Send] has sent to this execution,
// and returns what it carries. It is a step, with the event's name unless [AsStep] gives
// it another. Each event is given to one Await: the oldest one that none has been given
// yet. It may have been sent before the workflow came here, or, by then unawaited, in an
// earlier run: see [ContinueAsNew].
//
// If none has come within that time of the first call, Await returns a [*StepError] that
// is [ErrNoEvent], now and on every replay; an event that comes later waits for the next
// Await. The deadline is recorded with the first call: another time in a later delivery,
// by other code, changes nothing. [Forever] sets none; with 0 or less only an event that
// is there already is returned.
//
// What an event carries and T can't hold is the step's recorded failure, with the code
// "EVENT_PAYLOAD"; the event is used up.
//
// While it waits the execution is suspended, and holds no goroutine and no lease: Await
// returns [ErrSuspended], and so must the workflow.
func Await[T any](ctx Context, name string, within time.Duration, opts ...AwaitOption) (T, error) {
	return awaitEvent[T](ctx, replay.Site(), name, within, opts)
}

// awaitEvent makes the call.
func awaitEvent[T any](ctx Context, site uintptr, name string, within time.Duration, opts []AwaitOption) (T, error) {
	r := runOf(ctx)
	cfg := awaitConfig{step: name}
	misuse := execution.ValidateName("event name", name)
	for _, o := range opts {
		if o == nil {
			misuse = errors.New("an option is nil")
			continue
		}
		o(&cfg)
	}
	var out, zero T
	accept := func(raw json.RawMessage) error {
		out = zero
		return json.Unmarshal(raw, &out)
	}
	w := eventWait{run: r, name: name, within: within, accept: accept}
	_, err := r.Do(site, replay.Call{Name: cfg.step, Kind: kindAwait, Misuse: misuse, Run: w.look, Accept: accept})
	if err != nil {
		return zero, err
	}
	return out, nil
}

// An eventWait is one Await.
type eventWait struct {
	run    *run
	name   string
	within time.Duration
	accept func(json.RawMessage) error
}

// look answers with the oldest event that no call has been given, or by a wait for one.
func (w *eventWait) look(ctx context.Context, earlier replay.Earlier) (replay.Answer, error) {
	until := w.until(time.Now())
	if earlier.Wait != nil {
		if earlier.Wait.Store != (execution.StoreID{}) {
			return replay.Answer{}, errOtherWait
		}
		until = earlier.Wait.Until // the first one counts
	}
	e, found, err := w.run.nextEvent(ctx, w.name)
	switch {
	case err != nil:
		return replay.Answer{}, err
	case found:
		answer := replay.Answer{Result: e.Payload, Event: &e.Event}
		if err := w.accept(e.Payload); err != nil {
			return answer, replay.Refuse(&awaitError{codeMisfit, fmt.Sprintf("event %q, %q, does not fit: %v", w.name, e.Event.ID, err)})
		}
		return answer, nil
	case !until.IsZero() && !time.Now().Before(until):
		return replay.Answer{}, replay.Refuse(&awaitError{codeNoEvent, fmt.Sprintf("no event %q has come by %s", w.name, until.UTC().Format(time.RFC3339))})
	}
	return replay.Answer{Wait: &replay.Wait{Until: until}}, nil
}

// until is the deadline of a call that is made now; zero: none.
func (w *eventWait) until(now time.Time) time.Time {
	if w.within == Forever {
		return time.Time{}
	}
	return now.Add(max(w.within, 0))
}

// An awaitError is recorded with its code.
type awaitError struct{ code, message string }

func (e *awaitError) Error() string { return e.message }
func (e *awaitError) Code() string  { return e.code }

// events is where the events are that were sent to executions.
type events interface {
	List(ctx context.Context, box event.Inbox) ([]string, error)
	Read(ctx context.Context, box event.Inbox, id string) (event.Pending, bool, error)
}

// An inbox is what a delivery knows of the events of one name. Nobody else applies any
// while it lasts, and newer ones come behind those that it knows.
type inbox struct {
	waiting []string        // in the order of their arrival
	given   map[string]bool // to calls of this delivery
}

// nextEvent gives the call the oldest event that no call of this delivery was given. A
// call that can't be recorded with it ends the delivery.
func (r *run) nextEvent(ctx context.Context, name string) (event.Pending, bool, error) {
	box := event.Inbox{Execution: r.lease.ID, Incarnation: r.lease.Incarnation, Name: name}
	for {
		id, found := r.takeEvent(name, nil)
		if !found {
			ids, err := r.engine.events.List(ctx, box)
			if err != nil {
				return event.Pending{}, false, err
			}
			if id, found = r.takeEvent(name, ids); !found {
				return event.Pending{}, false, nil
			}
		}
		if e, there, err := r.engine.events.Read(ctx, box, id); there || err != nil {
			return e, there, err
		}
	}
}

// takeEvent takes the next event that is known; listed are those that were just found,
// nil: none were looked for.
func (r *run) takeEvent(name string, listed []string) (id string, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.inboxes[name]
	if in == nil {
		in = &inbox{given: map[string]bool{}}
		r.inboxes[name] = in
	}
	if listed != nil {
		in.waiting = listed
	}
	for len(in.waiting) > 0 {
		id, in.waiting = in.waiting[0], in.waiting[1:]
		if !in.given[id] {
			in.given[id] = true
			return id, true
		}
	}
	return "", false
}
