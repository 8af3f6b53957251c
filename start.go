package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/start"
)

// starts is what starts executions and waits for their ends.
type starts interface {
	Start(ctx context.Context, req start.Request) (start.Answer, error)
	Started(ctx context.Context, step execution.StepID) (start.Answer, bool, error)
	Ended(ctx context.Context, target start.Answer) (outcome *execution.Outcome, seen int64, err error)
	Await(ctx context.Context, w start.Waiting) (start.Ending, error)
}

// Start starts an execution of another workflow, or of the same, and does not wait for
// it. The step, whose name shares the names of [Step], starts one execution, whatever
// dies in between and however often it is replayed: the execution and a record of its
// start appear together. It belongs to nobody: it goes on when this one ends or is
// cancelled. [Started.Await] waits for what it comes to. To fan out, start all, then
// wait for each in a loop.
//
// A start that is refused is the step's recorded failure, a [*StepError] with one of
// the codes of package start: the input can't be encoded, or has more than 640 KiB
// (INVALID_START_PARAMETERS); the step has started something else, before its worker
// died (START_REQUEST_MISMATCH); the id that [WithID] gives belongs to an execution that
// this step has not started, whatever that is (START_ID_TAKEN).
//
// Start returns [ErrSuspended] where the delivery ends: return it.
func Start[In, Out any](ctx Context, step string, w *Workflow[In, Out], in In, opts ...StartOption) (Started[Out], error) {
	r := runOf(ctx)
	s, misuse := newSpawn(w, in, opts)
	var out Started[Out]
	_, err := r.Do(replay.Site(), replay.Call{
		Name: step, Kind: "start", Misuse: misuse,
		Run: func(ctx context.Context, earlier replay.Earlier) (replay.Answer, error) {
			if earlier.Wait != nil {
				return replay.Answer{}, errOtherWait
			}
			a, err := s.run(ctx, r, step)
			if err != nil {
				return replay.Answer{}, durable(err)
			}
			raw, err := json.Marshal(Started[Out]{id: a.ID, incarnation: a.Incarnation})
			return replay.Answer{Result: raw}, err
		},
		Accept: func(raw json.RawMessage) error {
			out = Started[Out]{}
			err := json.Unmarshal(raw, &out)
			if err == nil && out.id == "" {
				err = errors.New("it names no execution that was started")
			}
			return err
		},
	})
	if err != nil {
		return Started[Out]{}, err
	}
	return out, nil
}

// Child starts an execution as [Start] does, waits for its end, and returns its result.
// While it waits the execution of this workflow is suspended: it holds no goroutine and
// no lease, and is delivered again when the child has ended. What the child came to is
// recorded, also if it failed or was cancelled: then Child returns a [*FailedError] with
// its code, now and on every replay. A child that was deleted before that is the step's
// failure, with the code START_TARGET_DELETED.
//
// The child belongs to nobody, as what Start starts. To run several at once, start them
// all and then wait for each: see [Started.Await].
func Child[In, Out any](ctx Context, step string, w *Workflow[In, Out], in In, opts ...StartOption) (Out, error) {
	r := runOf(ctx)
	s, misuse := newSpawn(w, in, opts)
	return await[Out](r, replay.Site(), step, "child", misuse, func(ctx context.Context, earlier replay.Earlier) (start.Answer, error) {
		if earlier.Wait == nil {
			return s.run(ctx, r, step)
		}
		// The wait is recorded, and with it that the start was accepted.
		a, found, err := r.engine.starts.Started(ctx, r.stepID(step))
		if err == nil && !found {
			err = errOtherWait
		}
		return a, err
	})
}

// A Started refers to an execution that a workflow has started, whose result is an Out.
// It is plain data: it may be copied, travels as JSON, and can be part of what steps
// return and runs are given.
type Started[Out any] struct {
	id          execution.ID
	incarnation int64
}

// ID returns the execution's id.
func (s Started[Out]) ID() string { return string(s.id) }

// Await waits for the end of the execution and returns its result, as [Child] does, as
// a step of the given name. It may be called in another run, or by another workflow,
// than Start was, and several times under several names.
func (s Started[Out]) Await(ctx Context, step string) (Out, error) {
	var misuse error
	if s.id == "" {
		misuse = errors.New("nothing was started; call the Await of what Start returned")
	}
	return await[Out](runOf(ctx), replay.Site(), step, "execution wait", misuse, func(context.Context, replay.Earlier) (start.Answer, error) {
		return start.Answer{ID: s.id, Incarnation: s.incarnation}, nil
	})
}

// startedJSON is the recorded form of a Started. Frozen.
type startedJSON struct {
	ID          execution.ID `json:"executionId"`
	Incarnation int64        `json:"incarnation"`
}

// MarshalJSON renders the reference; one to nothing is null.
func (s Started[Out]) MarshalJSON() ([]byte, error) {
	if s.id == "" {
		return []byte("null"), nil
	}
	return json.Marshal(startedJSON{s.id, s.incarnation})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Started[Out]) UnmarshalJSON(raw []byte) error {
	var in startedJSON
	if string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	if in.ID == "" || in.Incarnation == 0 {
		return fmt.Errorf("%.64q names no execution that was started", raw)
	}
	*s = Started[Out]{id: in.ID, incarnation: in.Incarnation}
	return nil
}

// A spawn is a start that a workflow asks for.
type spawn struct {
	workflow, queue string
	cfg             startConfig
	params          func() ([]byte, error)
}

// newSpawn returns the start, and what is wrong with the call.
func newSpawn[In, Out any](w *Workflow[In, Out], in In, opts []StartOption) (spawn, error) {
	if err := w.check(); err != nil {
		return spawn{}, err
	}
	cfg, err := newStartConfig(opts)
	return spawn{workflow: w.name, queue: w.queue, cfg: cfg, params: func() ([]byte, error) { return json.Marshal(in) }}, err
}

// run starts the execution on behalf of the step.
func (s *spawn) run(ctx context.Context, r *run, step string) (start.Answer, error) {
	params, err := s.params()
	if err != nil {
		return start.Answer{}, &start.RejectedError{
			Workflow: s.workflow, Why: start.CodeInvalidParameters, Reason: "the input can't be encoded as JSON: " + err.Error(),
		}
	}
	return r.engine.starts.Start(ctx, start.Request{
		Caller: r.stepID(step), Epoch: r.lease.Epoch, ID: s.cfg.id, Workflow: s.workflow, Queue: s.queue,
		Due: s.cfg.due, Timeout: s.cfg.timeout, Params: params, ParamsPresent: true,
	})
}

// stepID names a step of this run.
func (r *run) stepID(step string) execution.StepID {
	return execution.StepID{Execution: r.lease.ID, Incarnation: r.lease.Incarnation, Run: r.lease.Run, Step: step}
}

// An ending is the recorded form of what an execution came to. Frozen.
type ending struct {
	ID execution.ID `json:"executionId"`
	execution.Outcome
}

// await makes the call that waits for the end of what target returns. The wait is
// recorded before it is registered, so that no registration is left behind that no
// record tells of: the engine makes the call, records the wait and makes it once more.
func await[Out any](r *run, site uintptr, step, kind string, misuse error, target func(context.Context, replay.Earlier) (start.Answer, error)) (Out, error) {
	var out, zero Out
	var failed error
	var looked *start.Waiting // for which this delivery has the wait recorded
	_, err := r.Do(site, replay.Call{
		Name: step, Kind: kind, Misuse: misuse,
		Run: func(ctx context.Context, earlier replay.Earlier) (replay.Answer, error) {
			w := looked
			looked = nil
			if w == nil || earlier.Wait == nil {
				a, err := target(ctx, earlier)
				if err != nil {
					return replay.Answer{}, durable(err)
				}
				w = &start.Waiting{Target: a, Step: r.stepID(step), Epoch: r.lease.Epoch, Workflow: r.workflow}
			}
			if earlier.Wait != nil {
				return r.registerAtEnd(ctx, w, earlier)
			}
			outcome, seen, err := r.engine.starts.Ended(ctx, w.Target)
			switch {
			case err != nil:
				return replay.Answer{}, durable(err)
			case outcome != nil:
				return ended(w.Target, outcome)
			}
			w.Seen, looked = seen, w
			return replay.Answer{Wait: &replay.Wait{Store: start.EndOf(w.Target.ID)}}, nil
		},
		Accept: func(raw json.RawMessage) (err error) {
			out, failed, err = outcomeAs[Out](raw)
			return err
		},
	})
	switch {
	case err != nil:
		return zero, err
	case failed != nil:
		return zero, failed
	}
	return out, nil
}

// registerAtEnd answers a call, whose wait is recorded, with the end of an execution, or
// waits for that.
func (r *run) registerAtEnd(ctx context.Context, w *start.Waiting, earlier replay.Earlier) (replay.Answer, error) {
	if earlier.Wait.Store != start.EndOf(w.Target.ID) || !earlier.Wait.Until.IsZero() {
		return replay.Answer{}, errOtherWait
	}
	w.Attempt = earlier.Attempt
	e, err := r.engine.starts.Await(ctx, *w)
	switch {
	case err != nil:
		return replay.Answer{}, durable(err)
	case e.Armed:
		return replay.Answer{Wait: earlier.Wait}, nil
	case e.Resolved: // what is recorded already is what the call comes to
		return replay.Answer{}, nil
	}
	return ended(w.Target, e.Outcome)
}

// ended answers a call with what an execution came to.
func ended(a start.Answer, outcome *execution.Outcome) (replay.Answer, error) {
	raw, err := json.Marshal(ending{ID: a.ID, Outcome: *outcome})
	return replay.Answer{Result: raw}, err
}

// outcomeAs reads what is recorded of an end: a result, or the failure.
func outcomeAs[Out any](raw json.RawMessage) (out Out, failed, err error) {
	var e ending
	if err := json.Unmarshal(raw, &e); err != nil {
		return out, nil, err
	}
	if e.ID == "" || e.Kind != execution.Completed && e.Kind != execution.Failed {
		return out, nil, errors.New("it is not what an execution came to")
	}
	out, err = result[Out](e.ID, e.Outcome)
	if of, is := errors.AsType[*FailedError](err); is {
		return out, of, nil
	}
	return out, nil, err
}

// errOtherWait says that the step's name was another call's. Another release may have
// the call that fits, so the delivery is tried again.
var errOtherWait = errors.New("recorded as another wait: a name must keep its meaning while executions that recorded it are alive")

// durable marks an error that the call would come to again.
func durable(err error) error {
	_, rejected := errors.AsType[*start.RejectedError](err)
	_, deleted := errors.AsType[*start.DeletedError](err)
	_, invalid := errors.AsType[*execution.InvalidError](err)
	if rejected || deleted || invalid {
		return replay.Refuse(err)
	}
	return err
}
