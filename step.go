package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Step runs fn once and records what it returned; a replay returns the record and
// does not run fn. The name identifies the step in its run: it must be unique
// there (in a loop, put the index in) and must not change while executions that
// recorded it are alive. The result is recorded as JSON, and what Step returns is
// always decoded from the record. Steps may run in parallel, each in a goroutine
// of its own, by an errgroup for instance. fn must not call Step.
//
// An error of fn is recorded too and returned as a [*StepError], now and on every
// replay, unless the options ask for another attempt: see [MaxAttempts] and
// [Permanent]. A result that can't be encoded, decoded or stored is such an error.
//
// Step returns [ErrSuspended] where the delivery ends: return it.
//
// fn may run more than once, if its worker dies before the result is recorded.
// [Fence] gives it what an external system needs to tell.
func Step[T any](ctx Context, name string, fn func(context.Context) (T, error), opts ...StepOption) (T, error) {
	var out, zero T
	erased := func(ctx context.Context) (any, error) { return fn(ctx) }
	if err := runOf(ctx).step(replay.Site(), name, opts, erased, &out); err != nil {
		return zero, err
	}
	return out, nil
}

// A stepFunc is a step's function, its result's type erased.
type stepFunc func(context.Context) (any, error)

// step replays the step or runs it; its result is decoded into out.
func (r *run) step(site uintptr, name string, opts []StepOption, fn stepFunc, out any) error {
	p, bad := newPolicy(opts)
	if bad != nil {
		bad = fmt.Errorf("step %q: %w", name, bad)
	}
	return r.unit(site, name, bad, func() (err error) {
		if !r.guard(fmt.Sprintf("step %q", name), func() { err = r.advance(name, p, fn, out) }) {
			return ErrSuspended
		}
		return err
	})
}

// advance goes through the step's attempts, from the latest recorded one on,
// until one is done or the delivery ends.
func (r *run) advance(name string, p policy, fn stepFunc, out any) error {
	rec, found := r.recorded[name]
	if found && rec.Done {
		r.tell(name, outcomeReplayed)
	}
	if !found {
		if err := r.caughtUp(fmt.Sprintf("step %q", name)); err != nil {
			return err
		}
	}
	for {
		next := int64(0)
		if found {
			again, err := r.settle(rec, out)
			if !again {
				return err
			}
			next = rec.Attempt + 1
		}
		if !r.mayRun() {
			return ErrSuspended
		}
		var err error
		if rec, err = r.attempt(name, next, p, fn, out); err != nil {
			return err
		}
		found = true
	}
}

// settle gives the workflow what the record holds. again: the step has not ended
// and its next attempt may run now.
func (r *run) settle(rec execution.Step, out any) (again bool, err error) {
	resp, err := decodeResponse(rec)
	switch {
	case err != nil:
		return false, r.breakOff(err)
	case resp.Kind == kindSleep || resp.Kind == kindWait:
		return false, r.mistaken(fmt.Sprintf("step %q", rec.Key), resp)
	case !rec.Done && time.Now().Before(resp.RetryAt):
		return false, r.suspend(resp.RetryAt)
	case !rec.Done:
		return true, nil
	case resp.Kind == kindError:
		return false, &StepError{
			Step: rec.Key, Attempts: rec.Attempt + 1,
			Message: resp.Error.Message, Code: resp.Error.Code, Permanent: resp.Permanent,
		}
	}
	if err := json.Unmarshal(resp.Result, out); err != nil {
		return false, r.breakOff(fmt.Errorf("recorded result of step %q does not fit %v: %w", rec.Key, reflect.TypeOf(out).Elem(), err))
	}
	return false, nil
}

// attempt runs the function once and records what it came to; the record may be
// an older one of the same attempt. An attempt that was cut short records nothing.
func (r *run) attempt(name string, n int64, p policy, fn stepFunc, out any) (execution.Step, error) {
	fenced := execution.WithFencing(r.work, fencing(r.engine.namespace, r.lease, name))
	value, err := r.engine.invoke(fenced, name, fn)
	if err != nil && (r.interrupted() || r.nested(err)) {
		return execution.Step{}, ErrSuspended
	}
	if r.forfeited() {
		return execution.Step{}, ErrSuspended
	}
	if r.refused(name, err) {
		return execution.Step{}, r.lose()
	}
	w := execution.StepWrite{Key: name, Attempt: n, Done: true}
	if err == nil {
		return r.recordResult(w, value, out)
	}
	if p.retries(n, err) {
		w.Done = false
		w.Response = retryResponse(err, p.retryAt(time.Now(), n)).encode()
		return r.record(w, outcomeRetried)
	}
	_, permanent := errors.AsType[*PermanentError](err)
	w.Response = errorResponse(err, permanent).encode()
	return r.record(w, outcomeFailed)
}

// refused says whether the error of a step's function is the answer lost, given to
// this delivery by a system outside that has seen a later one. A lost lease of
// somebody else's, or one that nobody else has been seen to have, is an error like any
// other.
func (r *run) refused(name string, err error) bool {
	lost, is := errors.AsType[*execution.LostError](err)
	if !is || lost.ID != r.lease.ID || lost.Carried != r.lease.Token || lost.Current <= lost.Carried {
		return false
	}
	r.log().Warn("a step was refused outside: a later delivery has been there", zap.String("step", name), zap.Error(err))
	return true
}

// invoke calls the function of one attempt.
func (e *engine) invoke(ctx context.Context, name string, fn stepFunc) (any, error) {
	if e.around != nil {
		return e.around(ctx, name, fn)
	}
	return fn(ctx)
}

// recordResult records a result or, if it can't be encoded or recorded, the reason
// as the step's error: another delivery could do neither.
func (r *run) recordResult(w execution.StepWrite, value, out any) (execution.Step, error) {
	raw, err := encodeResult(value, reflect.TypeOf(out).Elem())
	if err != nil {
		return r.recordError(w, err)
	}
	return r.recordJSON(w, raw)
}

// recordJSON is recordResult of one that is encoded.
func (r *run) recordJSON(w execution.StepWrite, result json.RawMessage) (execution.Step, error) {
	w.Response = resultResponse(result).encode()
	rec, err := r.write(w)
	var invalid *execution.InvalidError
	switch {
	case err == nil:
		r.written(w, outcomeRan)
		return rec, nil
	case !errors.As(err, &invalid):
		return rec, r.unwritten(err)
	}
	err = fmt.Errorf("result can't be recorded: %w", invalid)
	if invalid.Limit > 0 { // without the beginning of the user's data
		err = fmt.Errorf("result is too large: %d bytes as recorded, the limit is %d", invalid.Size, invalid.Limit)
	}
	return r.recordError(w, err)
}

// recordError records that the step has failed and is not to be retried.
func (r *run) recordError(w execution.StepWrite, err error) (execution.Step, error) {
	w.Response = errorResponse(err, true).encode()
	return r.record(w, outcomeFailed)
}

// encodeResult renders the value as JSON that can be decoded as t again.
func encodeResult(value any, t reflect.Type) (json.RawMessage, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("result can't be encoded as JSON: %w", err)
	}
	if err := json.Unmarshal(raw, reflect.New(t).Interface()); err != nil {
		return nil, fmt.Errorf("result can't be decoded from its own JSON: %w", err)
	}
	return raw, nil
}
