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

// A drain lets deliveries end, at a boundary or by themselves, goes on renewing
// meanwhile and claims nothing.
func TestDrainWaits(t *testing.T) {
	f := newFake("ends", "stops")
	handler := func(_ context.Context, d execution.Delivery, drain <-chan struct{}) dispatch.Reply {
		<-drain
		if d.ID == "ends" {
			time.Sleep(2 * time.Minute) // virtual: a step of four lease periods
			return done
		}
		return dispatch.Reply{Outcome: &execution.Outcome{Kind: execution.Suspended, Handover: true}}
	}
	run(t, f, func() dispatch.Config { return dispatch.Config{Handler: handler, DrainTimeout: time.Hour} }, func(t *testing.T, stop context.CancelFunc) {
		stop()
		synctest.Wait()
		f.set(func() { f.queue = append(f.queue, "new"); f.renewals = 0 })
		f.due(time.Now())
		time.Sleep(3 * time.Minute) // virtual
		if f.how("ends") != "completed" || f.how("stops") != "handover" {
			t.Errorf("ended: %q, %q", f.how("ends"), f.how("stops"))
		}
		_, renewals, queued := f.counts()
		if queued != 1 {
			t.Error("it claimed while it drained")
		}
		if renewals < 8 {
			t.Errorf("%d renewals in two minutes", renewals)
		}
	})
}

// What is inside a step at the deadline is handed over as it is.
func TestDrainDeadlineHandsOver(t *testing.T) {
	f := newFake("x", "deaf")
	var causes chan error
	var release chan struct{}
	handler := func(ctx context.Context, d execution.Delivery, _ <-chan struct{}) dispatch.Reply {
		if d.ID == "deaf" { // ignores its context
			<-release
			return done
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return dispatch.Reply{Retry: ctx.Err()}
	}
	config := func() dispatch.Config {
		causes, release = make(chan error, 1), make(chan struct{})
		return dispatch.Config{Handler: handler, DrainTimeout: time.Minute}
	}
	run(t, f, config, func(t *testing.T, stop context.CancelFunc) {
		stop()
		if cause := <-causes; !errors.Is(cause, execution.ErrDraining) {
			t.Errorf("cause: %v", cause)
		}
		time.Sleep(10 * time.Second) // virtual: past the grace
		close(release)
		synctest.Wait()
		if f.how("x") != "handover" || f.how("deaf") != "handover" {
			t.Errorf("ended: %v", f.ended)
		}
	})
}

// What etcd does not let it end is told.
func TestDrainTellsWhatItLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake("x", "y")
		f.endErr = errSick
		handler := func(context.Context, execution.Delivery, <-chan struct{}) dispatch.Reply { return done }
		d, err := dispatch.New(dispatch.Config{Holder: f, Handler: handler, DrainTimeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		synctest.Wait()
		stop()
		if err := <-ended; !errors.Is(err, dispatch.ErrUnended) {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestRunEndsBeforeAnythingBegan(t *testing.T) {
	f := newFake()
	f.sick = true
	var causes chan error
	run(t, f, blocked(&causes), func(_ *testing.T, stop context.CancelFunc) { stop() })
}
