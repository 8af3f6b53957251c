package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// settleBound is how long a settlement may go on once its delivery has ended: what the
// provider has said is worth keeping.
const settleBound = 10 * time.Second

// A job is one call of Run.
type job struct {
	client   *Client
	step     execution.StepID
	workflow string

	// unknown is what this delivery has heard from the provider, if it knows no result and
	// the step has yet to be registered.
	unknown *asked
}

func newJob(ctx replay.Context, step string) *job {
	protocol, err := stores.FromContext(ctx)
	lease := ctx.Delivery().Lease()
	return &job{
		client:   &Client{protocol: protocol, bad: err},
		step:     execution.StepID{Execution: lease.ID, Incarnation: lease.Incarnation, Run: lease.Run, Step: step},
		workflow: ctx.Delivery().Workflow(),
	}
}

// An asked is what the provider has said: a result, or nil and why it is not known.
type asked struct {
	result *Result
	why    string
}

// drive brings the effect as far as it gets: to its result, or to a wait. (RFC 004, the
// driver.) That the step waits is recorded before it is registered, so that no
// registration is left behind of which no record tells: the engine records the wait and
// calls once more.
func (e *Effect[In, Out]) drive(ctx context.Context, j *job, earlier replay.Earlier) (replay.Answer, error) {
	req, err := e.request(ctx, j)
	if err != nil {
		return replay.Answer{}, err
	}
	at := storeOf(req.ID)
	if w := earlier.Wait; w != nil && (w.Store != at || !w.Until.IsZero()) {
		return replay.Answer{}, fmt.Errorf("recorded as a wait for %q, not for effect %q: a name must keep its meaning, and an effect its id, while executions that recorded them are alive", w.Store.String(), req.ID)
	}
	for {
		said := j.unknown
		if said == nil {
			answer, heard, err := e.attempt(ctx, j, req, earlier.Wait != nil)
			if err != nil || heard == nil {
				return answer, err
			}
			said = heard
		}
		if j.unknown = nil; earlier.Wait == nil {
			j.unknown = said
			return replay.Answer{Wait: &replay.Wait{Store: at}}, nil
		}
		out, err := j.client.enroll(ctx, Waiting{
			Effect: req.ID, Step: j.step, Attempt: earlier.Attempt, Workflow: j.workflow,
			WakeAt: time.Now().Add(e.retryIn()), Reason: said.why,
		})
		switch {
		case err != nil:
			return replay.Answer{}, odd(req.ID, err)
		case out.Resolved: // what is recorded already is what the call comes to
			return replay.Answer{}, nil
		case !out.Settled:
			return replay.Answer{Wait: &replay.Wait{Store: at, Wake: out.WakeAt}}, nil
		}
	}
}

// attempt begins the effect, or finds out how far it is, and asks the provider if it is
// not settled. It returns the call's answer or, if nobody knows that, what was heard.
// waited: the step may be registered.
func (e *Effect[In, Out]) attempt(ctx context.Context, j *job, req Request, waited bool) (replay.Answer, *asked, error) {
	begun, err := j.client.Begin(ctx, req)
	if err != nil {
		return replay.Answer{}, nil, odd(req.ID, err)
	}
	if begun.Result == nil {
		said, err := e.ask(ctx, begun.New, req.ID)
		if err != nil || said.result == nil {
			return replay.Answer{}, &said, err
		}
		result, err := j.settle(ctx, req.ID, *said.result, waited)
		if err != nil {
			return replay.Answer{}, nil, err
		}
		begun.Result = &result
	}
	answer, err := e.answer(req.ID, *begun.Result)
	return answer, nil, err
}

// request returns what is asked for.
func (e *Effect[In, Out]) request(ctx context.Context, j *job) (Request, error) {
	req := Request{Step: j.step, ID: e.ID, Operation: e.Operation}
	if req.ID == "" {
		req.ID = execution.FencingOf(ctx).Key
	}
	refuse := func(reason string) (Request, error) {
		return req, &Error{Effect: req.ID, Why: CodeInvalidRequest, Reason: reason}
	}
	if e.RetryIn < 0 {
		return refuse(fmt.Sprintf("RetryIn is %v, which is negative", e.RetryIn))
	}
	var err error
	if req.Input, err = json.Marshal(e.Input); err != nil {
		return refuse("the input can't be encoded as JSON: " + err.Error())
	}
	_, err = req.validate() // a wait may be recorded under its name
	return req, err
}

func (e *Effect[In, Out]) retryIn() time.Duration {
	if e.RetryIn == 0 {
		return DefaultRetryIn
	}
	return e.RetryIn
}

// ask asks the provider: what has become of the effect, unless nobody has acted yet, and
// if nothing has, to do it.
func (e *Effect[In, Out]) ask(ctx context.Context, fresh bool, id string) (asked, error) {
	if !fresh {
		found, err := e.Lookup(ctx, e.Input, id)
		if err == nil && found.Status == Settled {
			return e.result(id, found.Result)
		}
		if err != nil || found.Status != NotFound {
			return unsettled(ctx, id, "Lookup", found.Status, err)
		}
	}
	out, err := e.Perform(ctx, e.Input, id)
	if err != nil {
		return unsettled(ctx, id, "Perform", Unknown, err)
	}
	return e.result(id, out)
}

// unsettled is what a callback has said that brought no value.
func unsettled(ctx context.Context, id, callback string, status Status, err error) (asked, error) {
	declined, refused := errors.AsType[*DeclinedError](err)
	switch {
	case refused:
		return asked{result: new(refusalOf(declined.Err))}, nil
	case err != nil && ctx.Err() != nil || lost(ctx, err): // the delivery ends; the error may be of that
		return asked{}, err
	case err != nil:
		return asked{why: callback + ": " + err.Error()}, nil //nolint:nilerr // it is why nobody knows
	case status != Unknown:
		return asked{}, &Error{Effect: id, Why: CodeHandlerInvalid, Reason: fmt.Sprintf("%s returned status %d, which there is not", callback, status)}
	}
	return asked{why: callback + ": unknown"}, nil
}

// lost says whether the error is a proof that the delivery's own token is not current: a
// system outside has refused it.
func lost(ctx context.Context, err error) bool {
	refused, is := errors.AsType[*execution.LostError](err)
	own := execution.FencingOf(ctx)
	return is && string(refused.ID) == own.ExecutionID && int64(refused.Carried) == own.Token
}

// result validates a value: it must survive its JSON.
func (e *Effect[In, Out]) result(id string, out Out) (asked, error) {
	r, err := resultOf(out)
	if err == nil {
		err = fits[Out](r)
	}
	if err != nil {
		return asked{}, &Error{Effect: id, Why: CodeHandlerInvalid, Reason: "the result " + err.Error()}
	}
	return asked{result: &r}, nil
}

func fits[Out any](r Result) error {
	if err := json.Unmarshal(r.Value, new(Out)); err != nil {
		return fmt.Errorf("is no %v: %w", reflect.TypeFor[Out](), err)
	}
	return nil
}

// settle settles the effect and returns the result that counts. It goes on for a while
// when the delivery has ended.
func (j *job) settle(ctx context.Context, id string, r Result, waited bool) (Result, error) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(settleBound, cancel) })()
	if waited {
		_ = j.client.withdraw(longer, id, j.step) // it saves a delivery, no more
	}
	err := j.client.SettleAs(longer, j.step, id, r)
	if conflict, is := errors.AsType[*ConflictError](err); is {
		return conflict.Result, nil
	}
	return r, odd(id, err)
}

// answer is what the call comes to by the result.
func (e *Effect[In, Out]) answer(id string, r Result) (replay.Answer, error) {
	if r.Declined != nil {
		return replay.Answer{}, replay.Refuse(&refusedError{*r.Declined})
	}
	if err := fits[Out](r); err != nil {
		return replay.Answer{}, &Error{Effect: id, Why: CodeHandlerInvalid, Reason: "what it is settled with " + err.Error()}
	}
	return replay.Answer{Result: r.Value}, nil
}
