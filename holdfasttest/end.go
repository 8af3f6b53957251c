package holdfasttest

import (
	"context"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/internal/audit"
)

// How long the end of a test waits, in virtual time, for the functions of steps
// whose contexts have ended, and how often it looks.
const (
	leftBound = time.Hour
	leftPause = time.Second
)

// end ends the workers and verifies what they left behind.
func (e *Env) end() {
	e.t.Helper()
	<-e.pace.done
	for _, w := range e.workers {
		if w.gate.isFrozen() {
			w.Crash()
		}
		w.stop()
	}
	for _, w := range e.workers {
		<-w.done
	}
	e.leave()
	for _, o := range e.orders.left() {
		e.t.Errorf("holdfasttest: no worker came to the moment %s %q, at which something was to be done", o.at, o.step)
	}
	e.verify()
	if err := e.client.Close(); err != nil {
		e.t.Errorf("holdfasttest: %v", err)
	}
	e.server.Close()
}

// leave waits until the workers' goroutines are gone.
func (e *Env) leave() {
	e.t.Helper()
	left := e.counts.left()
	for waited := time.Duration(0); len(left) > 0 && waited < leftBound; waited += leftPause {
		<-time.After(leftPause)
		left = e.counts.left()
	}
	if len(left) > 0 {
		e.t.Errorf("holdfasttest: the functions of steps %q do not return, although their contexts have ended", left)
	}
	synctest.Wait()
}

// verify demands that every revision kept the engine's invariants, and that nothing
// is left that should not be.
func (e *Env) verify() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store := e.server.Client("verify", nil)
	report, err := audit.Check(ctx, store, e.space)
	if err != nil {
		e.t.Errorf("holdfasttest: audit: %v", err)
	}
	violations := report.Violations
	replay, span := audit.NewReplay(e.space), e.space.All()
	for batch := range store.Watch(ctx, span.Start, span.End, 1) {
		replay.Apply(batch)
		if batch.Err != nil {
			e.t.Errorf("holdfasttest: the history can't be read: %v", batch.Err)
		}
		if replay.Revision() == e.server.Revision() {
			break
		}
	}
	for _, v := range append(violations, replay.Violations()...) {
		e.t.Errorf("holdfasttest: this is a bug of Holdfast, please report it: %v", v)
	}
}
