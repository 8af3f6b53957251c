package execution

import (
	"context"
	"strconv"
)

// A Fencing is what a step can pass on to an external system, so that it refuses
// to do one thing twice, and refuses a holder that comes late.
type Fencing struct {
	// Key is an idempotency key: the same on every attempt of the step, after
	// retries and takeovers too, and another one for every other step, run,
	// execution and namespace. It is ASCII and fits in a header: "hf-" and 32
	// hexadecimal digits.
	Key string
	// Token is the fencing token of this delivery. It grows with each claim of the
	// execution: a system that remembers the greatest one can refuse a holder that
	// was frozen and comes back late. Tokens of two executions say nothing about
	// each other: a later claim of one ends no delivery of the other.
	Token int64
	// Namespace, ExecutionID and Step say whose work it is.
	Namespace   string
	ExecutionID string
	Step        string
}

// Validate returns an [*InvalidError] unless the fencing says whose work it is and
// under which token, as one that came from a step's context does. The key and the
// step may be empty: a check of the token needs neither.
func (f Fencing) Validate() error {
	if f == (Fencing{}) {
		return &InvalidError{What: "fencing", Reason: "is empty; take it from the context that the step's function was given"}
	}
	if f.Token <= 0 {
		return &InvalidError{What: "fencing token", Value: strconv.FormatInt(f.Token, 10), Reason: "is not a token: they are greater than 0"}
	}
	if err := ValidateName("fencing namespace", f.Namespace); err != nil {
		return err
	}
	if f.Key != "" {
		if err := ValidateName("idempotency key", f.Key); err != nil {
			return err
		}
	}
	if f.Step != "" {
		if err := ValidateName("step name", f.Step); err != nil {
			return err
		}
	}
	return ID(f.ExecutionID).Validate()
}

// Lost returns the error by which a step's function says that a system outside has
// refused its token, having seen a greater one: the engine ends the delivery as lost
// and records nothing. It is for guards other than those of packages fencesql and
// fencehttp. operation names what was refused.
func (f Fencing) Lost(operation string, seen int64) *LostError {
	return &LostError{
		ID: ID(f.ExecutionID), Operation: operation, Carried: Token(f.Token), Current: Token(seen),
		Reason: "by a system outside of etcd",
	}
}

type fencingKey struct{}

// WithFencing returns a context that carries the fencing: the engine's for a step's
// function, and a service's for the handler of a request that came from one.
func WithFencing(ctx context.Context, f Fencing) context.Context {
	return context.WithValue(ctx, fencingKey{}, f)
}

// FencingOf returns the fencing that the context carries, or the zero Fencing.
func FencingOf(ctx context.Context) Fencing {
	f, _ := ctx.Value(fencingKey{}).(Fencing)
	return f
}
