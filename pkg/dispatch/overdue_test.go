package dispatch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/pkg/dispatch"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A handler that has not replied soon after its execution's deadline is not waited for:
// the execution fails. Until the handler returns it keeps its slot.
func TestHandlerThatIgnoresTheDeadline(t *testing.T) {
	f := newFake("deaf", "quick", "endless")
	var release chan struct{}
	var causes chan error
	handler := func(ctx context.Context, d execution.Delivery, _ <-chan struct{}) dispatch.Reply {
		switch d.ID {
		case "deaf":
			<-release
			causes <- context.Cause(ctx)
			return done
		case "endless": // has no deadline
			<-release
			return done
		}
		return done
	}
	config := func() dispatch.Config {
		release, causes = make(chan struct{}), make(chan error, 1)
		f.deadline = map[execution.ID]time.Time{
			"deaf": time.Now().Add(time.Minute), "quick": time.Now().Add(time.Minute), "far": time.Now().Add(1 << 62),
		}
		return dispatch.Config{Handler: handler, Concurrency: 3}
	}
	run(t, f, config, func(t *testing.T, stop context.CancelFunc) {
		time.Sleep(time.Minute + 4*time.Second) // virtual
		if how := f.how("deaf"); how != "" || f.how("quick") != "completed" {
			t.Errorf("soon after the deadline: %q, %q", how, f.how("quick"))
		}
		time.Sleep(2 * time.Second) // virtual
		synctest.Wait()
		if how := f.how("deaf"); how != "failed" {
			t.Errorf("after that: %q", how)
		}
		f.set(func() { f.queue = append(f.queue, "far", "next") })
		f.due(time.Now())
		time.Sleep(time.Minute) // virtual
		if f.how("far") != "completed" || f.how("next") != "completed" || f.how("endless") != "" {
			t.Errorf("beside it: %q, %q, %q", f.how("far"), f.how("next"), f.how("endless"))
		}
		close(release)
		if cause := <-causes; !errors.Is(cause, execution.ErrTimeout) {
			t.Errorf("cause %v", cause)
		}
		synctest.Wait()
		if how := f.how("deaf"); how != "failed" || f.how("endless") != "completed" {
			t.Errorf("in the end: %q, %q", how, f.how("endless"))
		}
		stop()
	})
}
