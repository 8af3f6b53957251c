package effect

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-io/holdfast/internal/replay"
)

// DefaultRetryIn is the RetryIn of an effect that names none.
const DefaultRetryIn = 30 * time.Second

// An Effect is something to be done once, outside: its request is an In, and what it
// comes to is an Out. Both travel as JSON.
type Effect[In, Out any] struct {
	// Operation names what is done: "charge-card". Required; 1 to 512 bytes of UTF-8
	// without NUL. It is part of the request, so it must not change while executions use
	// the effect.
	Operation string

	// ID names the effect in its namespace, and is the key that the provider is given.
	// It must be the same on each replay. Executions that use the same id mean the same
	// effect, which is then done once for all of them. Default: the idempotency key of
	// the step, as holdfast.Fence has it, which no other step shares.
	ID string

	// Input is the request. Its JSON, at most [MaxInputBytes], must be the same each time
	// that the effect is asked for.
	Input In

	// Perform asks the provider to do it, under the key, and returns what that came to.
	// Required. An error says that nobody knows whether it was done, and it is looked up
	// later; one that [Decline] has made says that it was not and will not be. Perform
	// may be called again, by another worker at the same time too, and must not call
	// holdfast.Step.
	Perform func(ctx context.Context, in In, key string) (Out, error)

	// Lookup asks the provider what has become of the key. Required; [Idempotent] is for
	// providers that can't be asked. An error means [Unknown], but for one that Decline
	// has made.
	Lookup func(ctx context.Context, in In, key string) (Found[Out], error)

	// RetryIn is how long to wait before looking again where nobody knows what has become
	// of the effect. Default: [DefaultRetryIn].
	RetryIn time.Duration
}

// A Status says what a lookup has found.
type Status int

// What a lookup can find. The zero Status is the one that does no harm.
const (
	// Unknown: the provider can't say, now. Nothing is done, and it is asked again.
	Unknown Status = iota
	// NotFound: the provider has not done it, and will not unless it is asked again.
	NotFound
	// Settled: it is done.
	Settled
)

// String returns the status as one word.
func (s Status) String() string {
	switch s {
	case Unknown:
		return "unknown"
	case NotFound:
		return "not-found"
	case Settled:
		return "settled"
	}
	return "invalid"
}

// A Found is what a lookup has found.
type Found[Out any] struct {
	Status Status
	Result Out // where it is Settled
}

// Idempotent is the Lookup of a provider that has none, and that answers each request
// with a key by what the first one came to: it is simply asked again. Mind how long the
// provider remembers keys: one that forgets them while the effect is pending acts twice.
func Idempotent[In, Out any](context.Context, In, string) (Found[Out], error) {
	return Found[Out]{Status: NotFound}, nil
}

// Run does the effect, once, and returns what it came to, which is recorded under the
// name of the step; steps and effects share names. A replay returns the record.
//
// If nobody knows whether it was done, since Perform or its worker failed in the middle,
// it is looked up before anything is done again. Until somebody knows, the execution is
// suspended: it holds no goroutine and no lease.
//
// An error that Run returns is recorded as well, as a *holdfast.StepError: what
// [Decline] was given, with its code or [CodeDeclined]; [CodeInvalidRequest] for a
// request that can't be stored, before anything was done; [CodeMismatch] where the id
// belongs to an effect with another operation or input. A result that can't be stored,
// or is no Out, ends the delivery to be tried again, visibly in the execution's
// unacknowledged deliveries: the effect was done, and a mended release can look it up.
//
// Run returns holdfast.ErrSuspended where the delivery ends, which is where it waits:
// return it.
func Run[In, Out any](ctx replay.Context, step string, e Effect[In, Out]) (Out, error) {
	var out, zero Out
	j := newJob(ctx, step)
	_, err := ctx.Delivery().Do(replay.Site(), replay.Call{
		Name: step, Kind: "effect", Misuse: e.misuse(),
		Run: func(work context.Context, earlier replay.Earlier) (replay.Answer, error) {
			answer, err := e.drive(work, j, earlier)
			return answer, durable(err)
		},
		Accept: func(result json.RawMessage) error {
			out = zero
			return json.Unmarshal(result, &out)
		},
	})
	if err != nil {
		return zero, err
	}
	return out, nil
}

// misuse says what of the effect no replay would mend.
func (e *Effect[In, Out]) misuse() error {
	switch {
	case e.Perform == nil:
		return errors.New("no Perform is given")
	case e.Lookup == nil:
		return errors.New("no Lookup is given; use Idempotent if the provider answers each request with a key by what the first one came to")
	}
	return nil
}
