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

// The outcomes of EventStep.
const (
	outcomeRan      = "ran"
	outcomeReplayed = "replayed"
	outcomeFailed   = "failed"
	outcomeRetried  = "retried"
)

// A run is one delivery's replay of a workflow.
type run struct {
	engine   *engine
	lease    execution.Lease
	workflow string
	// ctx is the dispatcher's; its cause says why a delivery was cut short. work is
	// what user code gets: ctx, ended with the delivery.
	ctx, work context.Context //nolint:containedctx // both end with the delivery, as the run does
	drain     <-chan struct{}
	recorded  map[string]execution.Step // the latest attempt of each key; read only

	inFlight sync.WaitGroup // calls of Step and Sleep; Add only under mu while !closed

	mu     sync.Mutex
	used   map[string]bool // names of this replay
	latch  latch
	closed bool    // the workflow's function has returned: nothing begins any more
	site   uintptr // of the first call of Step or Sleep that returned ErrSuspended
}

// unit runs one call of Step or Sleep, made at the site, unless it is misused or
// the delivery has ended.
func (r *run) unit(site uintptr, name string, misuse error, fn func() error) error {
	err := r.begin(name, misuse)
	if err == nil {
		defer r.inFlight.Done()
		err = fn()
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

// begin admits a call. If it returns nil the caller owes an inFlight.Done. A call
// that comes after the delivery has ended runs nothing; if its record waits for a
// time that is yet to come, the execution's wake will not be later. (One whose time
// has come waits for that wake too: asking for one at once would spin, as long as
// the call that ended the delivery comes first.)
func (r *run) begin(name string, misuse error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrSuspended
	}
	if r.latch.set() {
		if rec, found := r.recorded[name]; found {
			resp, err := decodeResponse(rec)
			if at := resp.wake(); err == nil && at.After(time.Now()) {
				r.latch.suspend(at)
			}
		}
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
	r.used[name] = true
	r.inFlight.Add(1)
	return nil
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
	case errors.Is(cause, execution.ErrDraining):
		_ = r.handOver()
	default:
		_ = r.breakOff(fmt.Errorf("delivery was cut short: %w", cause))
	}
	return true
}

// nested says whether the error of a step's function is the end of this delivery,
// passed on by a call of Step inside it, and so not an error of its own.
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
func (r *run) lose() error                  { return r.end((*latch).lose) }

// unwritten ends the delivery by the error of a write.
func (r *run) unwritten(err error) error {
	switch {
	case errors.Is(err, execution.ErrLost):
		return r.lose()
	case r.interrupted():
		return ErrSuspended
	}
	return r.breakOff(err)
}

func (r *run) end(how func(*latch)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	how(&r.latch)
	return ErrSuspended
}

// record writes and tells what it means. An error ends the delivery.
func (r *run) record(w execution.StepWrite, outcome string) (execution.Step, error) {
	rec, err := r.write(w)
	if err != nil {
		return rec, r.unwritten(err)
	}
	r.tell(w.Key, outcome)
	return rec, nil
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
	return r.engine.steps.WriteStep(ctx, r.lease, w)
}

// callSite returns where the exported function was called that calls this.
func callSite() uintptr {
	var pc [1]uintptr
	runtime.Callers(3, pc[:])
	return pc[0]
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
