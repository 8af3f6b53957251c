package holdfasttest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast"
)

// A Worker is a process of its own, as far as etcd can tell.
type Worker struct {
	env  *Env
	name string
	gate *gate
	stop context.CancelFunc
	done chan struct{} // closed when it has ended
}

// newWorker returns the worker whose number, from 0, is also its calls' latency in
// microseconds, so that no two workers ever race.
func newWorker(e *Env, number int) *Worker {
	w := &Worker{env: e, name: fmt.Sprintf("worker-%d", number+1), done: make(chan struct{}), stop: func() {}}
	w.gate = newGate(e.space, time.Duration(number)*time.Microsecond, func(step string) { e.orders.reach(afterStep, step, w) })
	return w
}

// start begins to run it.
func (w *Worker) start(runner *holdfast.Worker) {
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() {
		defer close(w.done)
		for w.env.pace.await(ctx) {
			if err := w.run(ctx, runner); err != nil && !w.gate.isCrashed() {
				w.env.t.Errorf("holdfasttest: %s: %v", w.name, err)
			}
		}
	}()
}

// run runs it until the workers come to rest.
func (w *Worker) run(ctx context.Context, runner *holdfast.Worker) error {
	ctx, rest := context.WithCancel(ctx)
	var resting sync.WaitGroup
	resting.Go(func() {
		defer rest()
		w.tire(ctx)
	})
	defer resting.Wait()
	defer rest()
	return runner.Run(ctx)
}

// tire returns when the worker should rest. A frozen one does not, which would be to
// lose what it has yet to write: that goes first.
func (w *Worker) tire(ctx context.Context) {
	for ctx.Err() == nil {
		period := w.env.pace.current()
		switch {
		case period != nil:
			await(ctx, period.Done())
		case !w.gate.isFrozen():
			return
		case w.gate.stand(ctx, false, nil) == nil: // it was thawed
			after, stop := context.WithTimeout(ctx, idleAfter)
			await(ctx, after.Done())
			stop()
		}
	}
}

func await(ctx context.Context, done <-chan struct{}) {
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// Name returns the worker's name.
func (w *Worker) Name() string { return w.name }

// Stop lets the worker drain, as a release of a new version does, and returns when it
// has ended. It must not be called by a function that was given to [Env.BeforeStep]
// or its like: the drain would wait for it.
func (w *Worker) Stop() {
	w.stop()
	<-w.done
}

// Crash ends the worker's life here and now, as a power cut does: no call of it
// reaches etcd any more, no step begins, and nothing is released. Another worker takes
// its executions over when its lease has expired. The contexts of the steps that it is
// in are cancelled, since a function can't be ended from outside; whatever they come
// to, nobody learns of it.
func (w *Worker) Crash() {
	w.gate.crash()
	w.stop()
}

// Freeze lets the worker stand still, as a suspended machine does, until [Worker.Thaw]:
// its calls to etcd and their answers wait, no step begins, and what a step returns
// is not recorded. Renewals wait too, so that another worker takes over when the
// lease has expired. What a step's function is doing goes on, and its context is
// cancelled once the renewals are overdue.
func (w *Worker) Freeze() { w.gate.hold() }

// Thaw ends a freeze. Let a second pass, by [Env.Advance], to see what comes of it:
// the worker's late writes reach etcd, which refuses those of the executions that
// somebody else has taken over. See [Env.Refused].
func (w *Worker) Thaw() { w.gate.thaw() }

// around runs the function of a step in this worker's life.
func (w *Worker) around(ctx context.Context, step string, fn func(context.Context) (any, error)) (any, error) {
	if err := w.reach(beforeStep, step); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.gate.crashed, func() { cancel(errCrashed) })()
	value, answer := w.env.counts.call(ctx, step, fn)
	err := w.gate.pause()
	if recorded := answer == nil || ctx.Err() == nil; err == nil && recorded {
		err = w.reach(beforeRecord, step)
	}
	if err != nil {
		return nil, err
	}
	return value, answer
}

// reach comes to the moment, unless the worker has crashed by then.
func (w *Worker) reach(m moment, step string) error {
	if err := w.gate.pause(); err != nil {
		return err
	}
	w.env.orders.reach(m, step, w)
	return w.gate.pause()
}
