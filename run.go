package holdfast

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// comeback is when an execution that only waits for events is delivered again where
// something has not begun: no event would be for that.
const comeback = time.Minute

// The outcomes of EventStep.
const (
	outcomeRan      = "ran"
	outcomeReplayed = "replayed"
	outcomeFailed   = "failed"
	outcomeRetried  = "retried"
	outcomeWaiting  = "waiting" // recorded: the call waits
)

// A run is one delivery's replay of a workflow. It is what other packages know as a
// [replay.Delivery].
type run struct {
	engine   *engine
	lease    execution.Lease
	workflow string
	// ctx is the dispatcher's; its cause says why a delivery was cut short. work is
	// what user code gets: ctx, ended with the delivery.
	ctx, work context.Context //nolint:containedctx // both end with the delivery, as the run does
	drain     <-chan struct{}
	deadline  time.Time                 // of the execution; zero: none
	recorded  map[string]execution.Step // the latest attempt of each key; read only

	inFlight sync.WaitGroup // calls of Step, Sleep and Do; Add only under mu while !closed

	mu       sync.Mutex
	used     map[string]bool  // names of this replay
	places   map[string]place // of those
	versions map[string]int   // that the function was told
	replayed int              // how many of the recorded calls were made
	answers  int64            // how many calls have come to an answer
	underWay int              // how many have begun and are not over
	moved    chan struct{}    // unless nil: closed when the replay comes further
	inboxes  map[string]*inbox
	latch    latch
	late     bool    // a call has come to its answer after the latch was set
	left     bool    // a call has not begun, since the latch was set
	closed   bool    // the workflow's function has returned: nothing begins any more
	site     uintptr // of the first call that returned ErrSuspended
}

// Lease returns the lease.
func (r *run) Lease() execution.Lease { return r.lease }

// Workflow returns the workflow's name.
func (r *run) Workflow() string { return r.workflow }

// unit runs one call of Step, Sleep or Do, made at the site, unless it is misused or
// the delivery has ended.
func (r *run) unit(site uintptr, name string, misuse error, fn func() error) error {
	err := r.begin(name, misuse)
	if err == nil {
		defer r.inFlight.Done()
		err = fn()
		r.over(!errors.Is(err, ErrSuspended))
	}
	if errors.Is(err, ErrSuspended) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.site == 0 {
			r.site = site
		}
	}
	return err
}

// begin admits a call. If it returns nil the caller owes an inFlight.Done.
func (r *run) begin(name string, misuse error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrSuspended
	}
	if r.latch.set() && !r.rejoinsLocked(name, misuse) {
		return ErrSuspended
	}
	if misuse == nil {
		misuse = execution.ValidateName("step name", name)
	}
	if misuse == nil && r.used[name] {
		misuse = fmt.Errorf("step %q: %w", name, ErrDuplicateStep)
	}
	if misuse != nil {
		r.latch.misuse(misuse)
		return misuse
	}
	r.noteLocked(name)
	r.inFlight.Add(1)
	return nil
}

// rejoinsLocked says whether a call that comes after the delivery has ended goes on.
//
// If it just ended because a call waits, one that is recorded does: it began in an
// earlier delivery, so that nothing before it waits, but another goroutine does. It is
// replayed, its time is waited for, and an event that it waits for is not missed: the
// wake that led to this delivery may have been for that.
//
// One that is not recorded runs nothing: the function may have swallowed the
// suspension. If a call that was in flight has come to an answer meanwhile, this one
// may follow it, and the wake is at once. (A wake at once in any case would spin, as
// long as the call that ends the delivery comes first. Each such answer is new.)
func (r *run) rejoinsLocked(name string, misuse error) bool {
	_, recorded := r.recorded[name]
	switch {
	case r.used[name]:
		return false
	case recorded && misuse == nil:
		return r.latch.waiting()
	case r.late:
		r.latch.suspend(time.Now())
	}
	r.left = true
	return false
}

// mayRun is the step boundary: it says whether a function may be run now, and
// ends the delivery if its worker is shutting down or its context has ended.
func (r *run) mayRun() bool {
	if r.interrupted() {
		return false
	}
	select {
	case <-r.drain:
		_ = r.handOver()
		return false
	default:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.latch.hard()
}

// interrupted says whether the delivery's context has ended, and ends the
// delivery by its cause.
func (r *run) interrupted() bool {
	if r.ctx.Err() == nil {
		return false
	}
	switch cause := context.Cause(r.ctx); {
	case errors.Is(cause, execution.ErrLost):
		_ = r.lose()
	case errors.Is(cause, execution.ErrTimeout):
		_ = r.timeOut()
	case errors.Is(cause, execution.ErrDraining):
		_ = r.handOver()
	default:
		_ = r.breakOff(fmt.Errorf("delivery was cut short: %w", cause))
	}
	return true
}

// forfeited says whether what a call has come to must not be recorded, and ends the
// delivery if so: its token is proven lost, or its execution has come to its deadline.
func (r *run) forfeited() bool {
	switch cause := context.Cause(r.ctx); {
	case errors.Is(cause, execution.ErrLost):
		_ = r.lose()
	case errors.Is(cause, execution.ErrTimeout):
		_ = r.timeOut()
	default:
		return false
	}
	return true
}

// nested says whether the error of a call's function is the end of this delivery,
// passed on by a call inside it, and so not an error of its own.
func (r *run) nested(err error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.latch.set() && errors.Is(err, ErrSuspended)
}

// The ways in which a call ends the delivery. Each returns ErrSuspended, which is
// what the caller returns.

func (r *run) suspend(wake time.Time) error { return r.end(func(l *latch) { l.suspend(wake) }) }
func (r *run) handOver() error              { return r.end((*latch).handOver) }
func (r *run) breakOff(err error) error     { return r.end(func(l *latch) { l.breakOff(err) }) }
func (r *run) timeOut() error               { return r.end(func(l *latch) { l.timeOut(r.deadline) }) }
func (r *run) lose() error                  { return r.end((*latch).lose) }

// unwritten ends the delivery by the error of a write, unless the call may go on.
func (r *run) unwritten(err error) error {
	switch {
	case errors.Is(err, execution.ErrLost):
		return r.lose()
	case r.interrupted():
		return ErrSuspended
	case errors.Is(err, execution.ErrEventGone):
		return err
	}
	return r.breakOff(err)
}

func (r *run) end(how func(*latch)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	how(&r.latch)
	return ErrSuspended
}

// mistaken ends the delivery since the call, named by what, was recorded as another
// one.
func (r *run) mistaken(what string, resp response) error {
	return r.breakOff(fmt.Errorf("%s was recorded as %s: a name must keep its meaning while executions that recorded it are alive", what, resp.noun()))
}

// record writes and tells what it means. An error ends the delivery.
func (r *run) record(w execution.StepWrite, outcome string) (execution.Step, error) {
	rec, err := r.write(w)
	if err != nil {
		return rec, r.unwritten(err)
	}
	r.written(w, outcome)
	return rec, nil
}

// written notes that the record is there, and tells what it means.
func (r *run) written(w execution.StepWrite, outcome string) {
	r.mu.Lock()
	r.late = r.late || w.Done && r.latch.set()
	r.mu.Unlock()
	r.tell(w.Key, outcome)
}

// write offers the record to etcd, which decides, also if the delivery's context
// has ended meanwhile: an unconfirmed renewal is not a lost token, and refusing a
// finished step would only repeat its side effects.
func (r *run) write(w execution.StepWrite) (execution.Step, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	defer cancel()
	defer context.AfterFunc(r.ctx, func() {
		late := time.NewTimer(r.engine.writeBound)
		defer late.Stop()
		select {
		case <-late.C:
			cancel()
		case <-ctx.Done():
		}
	})()
	r.mu.Lock()
	w.Place = r.places[w.Key]
	r.mu.Unlock()
	return r.engine.steps.WriteStep(ctx, r.lease, w)
}

func fileLine(site uintptr) string {
	f, _ := runtime.CallersFrames([]uintptr{site}).Next()
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

func (r *run) tell(step, outcome string) {
	r.engine.observer.Tell(execution.Event{
		Kind: execution.EventStep, ID: r.lease.ID, Token: r.lease.Token,
		Workflow: r.workflow, Operation: step, Outcome: outcome,
	})
}

func (r *run) log() *zap.Logger {
	return r.engine.logger.With(zap.String("execution", string(r.lease.ID)),
		zap.Int64("token", int64(r.lease.Token)), zap.String("workflow", r.workflow))
}
