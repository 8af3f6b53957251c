package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A look is what one look at a store has come to: a result, or a miss.
type look struct {
	result json.RawMessage // nil: a miss
	seen   stores.Snapshot // that missed
	reads  stores.Paths    // of which a change may make it match
}

// A lookFunc looks at the store, of which current is known if it is not nil.
type lookFunc[T any] func(ctx context.Context, a *act[T], current *stores.Snapshot) (look, error)

// look returns the function that looks whether the selector matches; render makes the
// result of what was selected.
func (q query[T, S]) look(render func(json.RawMessage) any) lookFunc[T] {
	return func(ctx context.Context, a *act[T], current *stores.Snapshot) (l look, err error) {
		if current != nil {
			l.seen = *current
		} else if l.seen, err = a.client.Get(ctx, a.key); err != nil {
			return l, err
		}
		selected, matched, reads, err := q.evaluate(a.key, l.seen.State)
		l.reads = reads
		if !matched || err != nil {
			return l, err
		}
		raw, err := encodeSelected(selected)
		if err != nil {
			return l, err
		}
		l.result, err = json.Marshal(render(raw))
		return l, err
	}
}

// A wait says when a call that waits gives up.
type wait struct {
	timed    bool      // it does
	deadline time.Time // at which time, as the code has it
}

// await makes the call. Whatever answers it, its registration at the store goes with
// the record.
func await[R, T any](ctx replay.Context, c call[T], w wait, see lookFunc[T]) (R, error) {
	c.waits = true
	workflow := ctx.Delivery().Workflow()
	return record[R](ctx, c, func(ctx context.Context, a *act[T], earlier replay.Earlier) (replay.Answer, error) {
		w := w
		if earlier.Wait != nil {
			if err := w.fits(*earlier.Wait, a.key); err != nil {
				return replay.Answer{}, err
			}
			w.deadline = earlier.Wait.Until // the first one counts
		}
		answer, err := w.run(func(seen *stores.Snapshot) (look, error) { return see(ctx, a, seen) }, func(l look) (stores.Arming, error) {
			return a.client.Arm(ctx, stores.Waiter{
				Store: a.key, Step: *a.step, Workflow: workflow,
				Instance: l.seen.Instance, Since: l.seen.Version, Reads: l.reads,
			}, earlier.Attempt)
		})
		answer.Waiter = &a.key
		if answer.Wait != nil {
			answer.Wait.Store = a.key
		}
		return answer, err
	})
}

// run looks until there is a result, or the deadline has passed, or the call is
// registered as of what the last look has seen.
func (w wait) run(see func(*stores.Snapshot) (look, error), arm func(look) (stores.Arming, error)) (replay.Answer, error) {
	for l, err := see(nil); ; {
		switch {
		case err != nil:
			return replay.Answer{}, err
		case l.result != nil:
			return replay.Answer{Result: l.result}, nil
		case w.timed && !time.Now().Before(w.deadline):
			return replay.Answer{Result: json.RawMessage(`{"matched":false}`)}, nil
		}
		armed, armErr := arm(l)
		switch {
		case armErr != nil:
			return replay.Answer{}, armErr
		case armed.Armed:
			return replay.Answer{Wait: &replay.Wait{Until: w.deadline}}, nil
		case armed.Resolved: // what is recorded already is what the call comes to
			return replay.Answer{}, nil
		}
		l, err = see(&armed.Current)
	}
}

// fits says whether the recorded wait can be this call's.
func (w wait) fits(earlier replay.Wait, key execution.StoreID) error {
	switch {
	case earlier.Store != key:
		return mistaken("a wait for " + describe(earlier.Store))
	case w.timed && earlier.Until.IsZero():
		return mistaken("a wait without a deadline")
	case !w.timed && !earlier.Until.IsZero():
		return mistaken("a wait with a deadline")
	}
	return nil
}
