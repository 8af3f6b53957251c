package holdfast

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// steps is where the step records are.
type steps interface {
	WriteStep(ctx context.Context, lease execution.Lease, w execution.StepWrite) (execution.Step, error)
	Read(ctx context.Context, lease execution.Lease) ([]execution.Step, error)
}

// A definition is a workflow, its types erased.
type definition interface {
	Name() string
	queueName() string
	check() error
	call(ctx Context, params json.RawMessage) (json.RawMessage, error)
}

// An engine runs deliveries: it replays a workflow's function over the recorded
// steps and says what the delivery came to.
type engine struct {
	steps       steps
	stores      *store.Client // what workflows find on their contexts; nil: none
	starts      starts
	events      events
	definitions map[string]definition
	namespace   string
	logger      *zap.Logger
	observer    execution.Observer
	writeBound  time.Duration // of a write that outlives its delivery's context
	around      door.Around   // nil: a step's function is called as it is
}

// deliver runs one delivery. It returns when the workflow's function and every
// step in flight have ended and are recorded. At the execution's deadline their contexts
// end, and nothing is recorded any more.
func (e *engine) deliver(ctx context.Context, d execution.Delivery, drain <-chan struct{}) verdict {
	def, found := e.definitions[d.Workflow]
	if !found {
		return verdict{retry: fmt.Errorf("workflow %q is not registered with this worker", d.Workflow)}
	}
	if !d.Deadline.IsZero() {
		if !time.Now().Before(d.Deadline) {
			return verdict{outcome: new(execution.TimeoutAt(d.Deadline))}
		}
		timed, stop := context.WithDeadlineCause(ctx, d.Deadline, execution.ErrTimeout)
		defer stop()
		ctx = timed
	}
	work, cancel := context.WithCancel(stores.NewContext(ctx, e.stores))
	defer cancel()
	r := &run{
		engine: e, lease: d.Lease, workflow: d.Workflow, deadline: d.Deadline,
		ctx: ctx, work: work, drain: drain, used: map[string]bool{}, places: map[string]place{}, versions: map[string]int{}, inboxes: map[string]*inbox{},
	}
	if err := r.load(d.First); err != nil {
		_ = r.unwritten(err)
		return r.latch.verdict()
	}
	a := r.call(def, d.Params)
	r.close()
	return r.judge(a)
}

// load reads the recorded steps; a first delivery has none.
func (r *run) load(first bool) error {
	if first {
		return nil
	}
	recs, err := r.engine.steps.Read(r.ctx, r.lease)
	if err != nil {
		return err
	}
	r.recorded = make(map[string]execution.Step, len(recs))
	for _, rec := range recs {
		if old, found := r.recorded[rec.Key]; !found || rec.Attempt > old.Attempt {
			r.recorded[rec.Key] = rec
		}
	}
	return nil
}

// An answer is what the workflow's function made of the delivery.
type answer struct {
	result    json.RawMessage
	next      json.RawMessage // it ended its run: the next one's params
	failure   *execution.Error
	suspended bool  // it returned ErrSuspended, wrapped or not
	unread    error // the params do not fit: it was not called
	panicked  bool
}

// call runs the workflow's function, in a goroutine of its own: one that is left
// by runtime.Goexit must not take the dispatcher's along.
func (r *run) call(def definition, params json.RawMessage) answer {
	a := answer{panicked: true}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.guard(fmt.Sprintf("workflow %q", def.Name()), func() {
			result, err := def.call(&deliveryContext{Context: r.work, run: r}, params)
			a = read(def.Name(), result, err)
		})
	}()
	<-done
	return a
}

// read sorts what the function returned. It calls methods of the user's error.
func read(workflow string, result json.RawMessage, err error) answer {
	if unread, is := errors.AsType[*paramsError](err); is {
		return answer{unread: unread}
	}
	if over, is := errors.AsType[*turnoverError](err); is {
		return answer{next: over.params}
	}
	if err == nil && len(result) <= execution.MaxPayloadBytes {
		return answer{result: result}
	}
	if err == nil {
		err = fmt.Errorf("result of workflow %q is too large: %d bytes, the limit is %d", workflow, len(result), execution.MaxPayloadBytes)
	}
	return answer{failure: recordedError(err), suspended: errors.Is(err, ErrSuspended)}
}

// close waits for the steps in flight; those that begin now run nothing.
func (r *run) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.inFlight.Wait()
}

// judge says what the delivery came to. A latch that was set overrules the
// function; so does the execution's deadline, and a token that is proven lost overrules
// all.
func (r *run) judge(a answer) verdict {
	r.forfeited()
	// A function that failed because its context ended has not failed.
	if a.failure != nil && !a.suspended {
		r.interrupted()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.latch.set():
		if r.left && r.latch.waiting() && r.latch.wake.IsZero() {
			r.latch.suspend(time.Now().Add(comeback))
		}
		if r.site != 0 && !a.suspended && !a.panicked {
			r.swallowed()
		}
		return r.latch.verdict()
	case a.unread != nil:
		return verdict{retry: a.unread}
	case a.suspended:
		return verdict{retry: fmt.Errorf("workflow %q returned ErrSuspended, but no step of this delivery did", r.workflow)}
	case a.failure != nil:
		return verdict{outcome: &execution.Outcome{Kind: execution.Failed, Error: a.failure}}
	case a.next != nil:
		return verdict{outcome: &execution.Outcome{Kind: execution.Continued, Params: a.next}}
	}
	return verdict{outcome: &execution.Outcome{Kind: execution.Completed, Result: a.result}}
}

// swallowed reports a function that went on after ErrSuspended. It changes
// nothing; what the function did outside of steps is its own affair.
func (r *run) swallowed() {
	caller := fileLine(r.site)
	r.log().Warn("workflow did not return ErrSuspended; the execution goes on in a later delivery all the same",
		zap.String("caller", caller))
	r.engine.observer.Tell(execution.Event{
		Kind: execution.EventSwallowed, ID: r.lease.ID, Token: r.lease.Token,
		Workflow: r.workflow, Operation: caller,
	})
}
