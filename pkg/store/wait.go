package store

import (
	"context"
	"encoding/json"
	"errors"
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

// A lookFunc looks at the store, of which current is known if it is not nil. over: the
// deadline has passed.
type lookFunc[T any] func(ctx context.Context, a *act[T], current *stores.Snapshot, over bool) (look, error)

// look returns the function that looks whether the selector matches; render makes the
// result of what was selected.
func (q query[T, S]) look(render func(json.RawMessage) any) lookFunc[T] {
	return func(ctx context.Context, a *act[T], current *stores.Snapshot, _ bool) (l look, err error) {
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
		l.result, err = frame(a.key, render(raw))
		return l, err
	}
}

// A wait says when a call that waits gives up.
type wait struct {
	timed    bool         // it does
	deadline time.Time    // at which time
	recorded *replay.Wait // nil: it is not recorded
}

// await makes the call. A wait is recorded before it is registered at the store, so that
// no registration is left behind that no record tells of: the engine makes the call,
// records the miss and makes it once more, to go on from there.
func await[R, T any](ctx replay.Context, c call[T], w wait, see lookFunc[T]) (R, error) {
	c.waits = true
	workflow := ctx.Delivery().Workflow()
	var missed *look // for which this delivery has the wait recorded
	return record[R](ctx, c, func(ctx context.Context, a *act[T], earlier replay.Earlier) (replay.Answer, error) {
		if earlier.Wait == nil {
			over := w.over()
			l, err := see(ctx, a, nil, over)
			answer, answered := judge(l, over)
			if err != nil || answered {
				return answer, err
			}
			missed = &l
			return replay.Answer{Wait: &replay.Wait{Store: a.key, Until: w.deadline}}, nil
		}
		if err := w.fits(*earlier.Wait, a.key); err != nil {
			return replay.Answer{}, err
		}
		// The first deadline counts.
		w := wait{timed: w.timed, deadline: earlier.Wait.Until, recorded: earlier.Wait}
		last := missed
		missed = nil
		return w.run(last, func(now *stores.Snapshot, over bool) (look, error) { return see(ctx, a, now, over) }, func(l look) (stores.Arming, error) {
			return a.client.Arm(ctx, stores.Waiter{
				Store: a.key, Step: *a.step, Workflow: workflow,
				Instance: l.seen.Instance, Since: l.seen.Version, Reads: l.reads,
			}, earlier.Attempt)
		})
	})
}

// over says whether the deadline has passed.
func (w wait) over() bool { return w.timed && !time.Now().Before(w.deadline) }

// timeout is what a call comes to whose deadline has passed.
const timeout = `{"matched":false}`

// judge says whether the call is answered by what it has seen, or by the time: over says
// whether the deadline had passed before it looked.
func judge(l look, over bool) (answer replay.Answer, answered bool) {
	switch {
	case l.result != nil:
		return replay.Answer{Result: l.result}, true
	case over:
		return replay.Answer{Result: json.RawMessage(timeout)}, true
	}
	return replay.Answer{}, false
}

// run looks until the call is answered, or is registered as of what the last look has
// seen. It begins with registering if there was one already.
func (w wait) run(last *look, see func(*stores.Snapshot, bool) (look, error), arm func(look) (stores.Arming, error)) (replay.Answer, error) {
	var now *stores.Snapshot
	for {
		if last == nil {
			over := w.over()
			l, err := see(now, over)
			answer, answered := judge(l, over)
			if err != nil || answered {
				return answer, err
			}
			last = &l
		}
		armed, err := arm(*last)
		_, deleted := errors.AsType[*stores.NotFoundError](err)
		switch {
		case deleted: // a look finds the receipt of this step first, if there is one
			now = nil
		case err != nil:
			return replay.Answer{}, err
		case armed.Armed:
			return replay.Answer{Wait: w.recorded}, nil
		case armed.Resolved: // what is recorded already is what the call comes to
			return replay.Answer{}, nil
		default:
			now = &armed.Current
		}
		last = nil
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
