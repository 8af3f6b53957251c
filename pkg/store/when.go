package store

import (
	"encoding/json"
	"time"

	"github.com/holdfast-io/holdfast/internal/replay"
)

// When waits until pick matches the state of the store, and returns what it selected.
// That is recorded under the name of the step, which shares the names of
// holdfast.Step. While nothing matches the execution is suspended: it holds no
// goroutine and no lease, and is delivered again when the store has changed. No change
// is missed, also none between looking and being suspended. pick may be called many
// times, and does nothing but look at the state, a copy of its own.
//
// When changes nothing, so that many may see the same: to claim something use [Take].
// A state that matches for a moment only may be gone before anybody looks. The store
// must exist, or the step fails with the code [CodeNotFound]; who waits for a store
// that is deleted then is not woken by that, and not when it is created again.
//
// When returns holdfast.ErrSuspended where the delivery ends, which is where it waits:
// return it.
func When[T, S any](ctx replay.Context, step string, ref Ref[T], pick func(T) (S, bool), opts ...WaitOption) (S, error) {
	q, misuse := newQuery(pick, opts)
	c := call[T]{site: replay.Site(), kind: "store wait", step: step, ref: ref, misuse: misuse}
	return await[S](ctx, c, wait{}, q.look(func(selected json.RawMessage) any { return selected }))
}

// A timed is what a WhenUntil has come to, as it is recorded.
type timed[S any] struct {
	Matched bool `json:"matched"`
	Value   S    `json:"value,omitzero"`
}

// WhenUntil is [When] with a deadline. It returns false once the deadline has passed
// and nothing matches. A match counts whenever it is seen, also after the deadline, and
// so does one that comes with it, if it is seen first; whichever is recorded first
// stays. The deadline counts that the step was first called with, in whole
// milliseconds, rounded up: a replay may pass another. One past the year 9999 can't be
// recorded: a wait for it is the step's recorded failure.
func WhenUntil[T, S any](ctx replay.Context, step string, ref Ref[T], deadline time.Time, pick func(T) (S, bool), opts ...WaitOption) (S, bool, error) {
	q, misuse := newQuery(pick, opts)
	c := call[T]{site: replay.Site(), kind: "store wait", step: step, ref: ref, misuse: misuse}
	out, err := await[timed[S]](ctx, c, wait{timed: true, deadline: deadline}, q.look(func(selected json.RawMessage) any {
		return timed[json.RawMessage]{Matched: true, Value: selected}
	}))
	return out.Value, out.Matched, err
}
