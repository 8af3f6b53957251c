package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// maxYear is the last one of which a record can hold a time.
const maxYear = 9999

// Do makes one durable call of another package: see [replay.Delivery].
func (r *run) Do(site uintptr, call replay.Call) (json.RawMessage, error) {
	what := fmt.Sprintf("%s %q", call.Kind, call.Name)
	misuse := call.Misuse
	if misuse != nil {
		misuse = fmt.Errorf("%s: %w", what, misuse)
	}
	var result json.RawMessage
	err := r.unit(site, call.Name, misuse, func() (err error) {
		if !r.guard(what, func() { result, err = r.do(what, call) }) {
			return ErrSuspended
		}
		return err
	})
	return result, err
}

// do goes on from what is recorded of the call until that is its answer, or the
// delivery ends.
func (r *run) do(what string, call replay.Call) (json.RawMessage, error) {
	rec, found := r.recorded[call.Name]
	if found && rec.Done {
		r.tell(call.Name, outcomeReplayed)
	}
	if !found && call.Kind != kindVersion {
		if err := r.caughtUp(what); err != nil {
			return nil, err
		}
	}
	for {
		var earlier replay.Earlier
		if found {
			resp, err := decodeResponse(rec)
			switch {
			case err != nil:
				return nil, r.breakOff(err)
			case rec.Done && resp.Kind != kindSleep:
				return r.answer(what, call, resp)
			case resp.Kind != kindWait:
				return nil, r.mistaken(what, resp)
			}
			earlier = earlierWait(rec, resp)
		}
		if !r.mayRun() {
			return nil, ErrSuspended
		}
		var err error
		rec, err = r.ask(what, call, earlier)
		if errors.Is(err, execution.ErrEventGone) {
			continue // it looks for another one
		}
		if err != nil {
			return nil, err
		}
		found = true
	}
}

// earlierWait is the recorded wait as the call is told of it.
func earlierWait(rec execution.Step, resp response) replay.Earlier {
	wait := &replay.Wait{Until: resp.Until}
	if rec.Waiter != nil {
		wait.Store = *rec.Waiter
	}
	return replay.Earlier{Wait: wait, Attempt: rec.Attempt + 1}
}

// answer gives the caller the recorded answer.
func (r *run) answer(what string, call replay.Call, resp response) (json.RawMessage, error) {
	if resp.Kind == kindError {
		// However often the call waited, it failed once.
		return nil, &StepError{
			Step: call.Name, Attempts: 1,
			Message: resp.Error.Message, Code: resp.Error.Code, Permanent: resp.Permanent,
		}
	}
	if call.Accept != nil {
		if err := call.Accept(resp.Result); err != nil {
			return nil, r.breakOff(fmt.Errorf("recorded result of %s does not fit: %w", what, err))
		}
	}
	return resp.Result, nil
}

// ask makes the call once and records what it came to; the record may be an older
// one of the same attempt. A call that was cut short records nothing.
func (r *run) ask(what string, call replay.Call, earlier replay.Earlier) (execution.Step, error) {
	fenced := execution.WithFencing(r.work, fencing(r.engine.namespace, r.lease, call.Name))
	value, err := r.engine.invoke(fenced, call.Name, func(ctx context.Context) (any, error) { return call.Run(ctx, earlier) })
	if err != nil && (r.interrupted() || r.nested(err)) {
		return execution.Step{}, ErrSuspended
	}
	if r.forfeited() {
		return execution.Step{}, ErrSuspended
	}
	answer, _ := value.(replay.Answer)
	w := execution.StepWrite{Key: call.Name, Attempt: earlier.Attempt, Done: true, Event: answer.Event}
	if earlier.Wait != nil {
		w.Waiter = where(*earlier.Wait)
	}
	switch {
	case err != nil && !replay.Refused(err): // a marked error is recorded, whatever it wraps
		return execution.Step{}, r.unwritten(fmt.Errorf("%s: %w", what, err))
	case err != nil:
		return r.recordError(w, err)
	case answer.Wait != nil:
		return r.await(w, earlier, *answer.Wait)
	case answer.Result == nil:
		answer.Result = json.RawMessage("null")
	}
	return r.recordJSON(w, answer.Result)
}

// await records the wait, unless an earlier one is, and suspends the delivery unless the
// call is to be asked again. w is the write of an answer.
func (r *run) await(w execution.StepWrite, earlier replay.Earlier, wait replay.Wait) (execution.Step, error) {
	if earlier.Wait != nil {
		_ = r.suspend(earlier.Wait.Until)
		return execution.Step{}, r.suspend(wait.Wake)
	}
	// No drain: a wait that is recorded hands over as well.
	if r.interrupted() {
		return execution.Step{}, ErrSuspended
	}
	until := wholeMillis(wait.Until)
	if until.Year() > maxYear {
		return r.recordError(w, fmt.Errorf("can't wait until %v: a year past %d can't be recorded", until.Format(time.DateOnly), maxYear))
	}
	w.Done, w.Waiter, w.Response = false, where(wait), waitResponse(until).encode()
	rec, err := r.record(w, outcomeWaiting)
	if err != nil {
		return rec, err
	}
	// A call that registers at a store does so when it is asked again: now that a record
	// says where, no registration can be left behind that nobody knows of.
	if resp, err := decodeResponse(rec); err == nil && resp.Kind == kindWait && w.Waiter == nil {
		_ = r.suspend(resp.Until)
		return rec, r.suspend(wait.Wake)
	}
	return rec, nil // or an answer was recorded before
}

// where returns the store at which the call waits, nil if it is none.
func where(wait replay.Wait) *execution.StoreID {
	if wait.Store == (execution.StoreID{}) {
		return nil
	}
	return &wait.Store
}
