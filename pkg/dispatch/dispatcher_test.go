package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/pkg/dispatch"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestConfigIsChecked(t *testing.T) {
	handler := func(context.Context, execution.Delivery, <-chan struct{}) dispatch.Reply { return done }
	for name, cfg := range map[string]dispatch.Config{
		"no holder":     {Handler: handler},
		"no handler":    {Holder: newFake()},
		"concurrency":   {Holder: newFake(), Handler: handler, Concurrency: -1},
		"renewal":       {Holder: newFake(), Handler: handler, RenewEvery: -1},
		"late renewals": {Holder: newFake(), Handler: handler, RenewEvery: leaseDuration},
	} {
		if _, err := dispatch.New(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestConcurrencyIsUsedAndBounded(t *testing.T) {
	f := newFake()
	for i := range 10 {
		f.queue = append(f.queue, execution.ID(fmt.Sprint(i)))
	}
	var running, most atomic.Int64
	var gate chan struct{}
	handler := func(context.Context, execution.Delivery, <-chan struct{}) dispatch.Reply {
		most.Store(max(most.Load(), running.Add(1)))
		<-gate
		running.Add(-1)
		return done
	}
	config := func() dispatch.Config {
		gate = make(chan struct{})
		return dispatch.Config{Handler: handler, Concurrency: 4}
	}
	run(t, f, config, func(t *testing.T, _ context.CancelFunc) {
		if running.Load() != 4 {
			t.Fatalf("%d run, want 4", running.Load())
		}
		gate <- struct{}{}
		synctest.Wait()
		if running.Load() != 4 {
			t.Fatalf("%d run after one ended, want 4", running.Load())
		}
		close(gate)
		synctest.Wait()
		if len(f.ended) != 10 || most.Load() != 4 {
			t.Fatalf("%d ended, at most %d at once", len(f.ended), most.Load())
		}
	})
}

func TestDueExecutionIsClaimedAtItsTime(t *testing.T) {
	f := newFake()
	var started chan time.Time
	handler := func(context.Context, execution.Delivery, <-chan struct{}) dispatch.Reply {
		started <- time.Now()
		return done
	}
	config := func() dispatch.Config {
		started = make(chan time.Time, 1)
		return dispatch.Config{Handler: handler}
	}
	run(t, f, config, func(t *testing.T, _ context.CancelFunc) {
		at := time.Now().Add(7 * time.Second)
		f.due(at.Add(time.Minute))
		f.due(at)
		time.AfterFunc(6*time.Second, func() { f.set(func() { f.queue = append(f.queue, "x") }) })
		if got := <-started; got.Before(at) || got.After(at.Add(time.Second)) {
			t.Fatalf("started at %v, due at %v", got, at)
		}
	})
}

func TestReplies(t *testing.T) {
	replies := map[execution.ID]func() dispatch.Reply{
		"completed": func() dispatch.Reply { return done },
		"retry":     func() dispatch.Reply { return dispatch.Reply{Retry: errors.New("heap is away")} },
		"lost":      func() dispatch.Reply { return dispatch.Reply{Lost: true} },
		"nothing":   func() dispatch.Reply { return dispatch.Reply{} },
		"panic":     func() dispatch.Reply { panic("boom") },
	}
	f := newFake()
	for id := range replies {
		f.queue = append(f.queue, id)
	}
	handler := func(_ context.Context, d execution.Delivery, _ <-chan struct{}) dispatch.Reply {
		return replies[d.ID]()
	}
	run(t, f, func() dispatch.Config { return dispatch.Config{Handler: handler} }, func(t *testing.T, _ context.CancelFunc) {
		for id, want := range map[execution.ID]string{
			"completed": "completed", "retry": "released: heap is away", "lost": "", "nothing": "released: the handler gave no reply",
		} {
			if got := f.how(id); got != want {
				t.Errorf("%s: %q, want %q", id, got, want)
			}
		}
		if got := f.how("panic"); !strings.Contains(got, "boom") || !strings.Contains(got, "dispatcher_test.go") {
			t.Errorf("panic: %q lacks the message or the stack", got)
		}
	})
}

// blocked configures a handler that waits for its context to end and tells why it
// did.
func blocked(causes *chan error) func() dispatch.Config {
	return func() dispatch.Config {
		*causes = make(chan error, 1)
		return dispatch.Config{Handler: func(ctx context.Context, _ execution.Delivery, _ <-chan struct{}) dispatch.Reply {
			<-ctx.Done()
			*causes <- context.Cause(ctx)
			return done
		}}
	}
}

func TestLostDeliveryStopsAndIsNotAcknowledged(t *testing.T) {
	tell := map[string]func(*fakeHolder, *execution.LostError){
		"by a renewal": func(f *fakeHolder, l *execution.LostError) {
			f.set(func() { f.lost = []*execution.LostError{l} })
		},
		"by an operator": func(f *fakeHolder, l *execution.LostError) { f.evicted(l) },
	}
	for name, lose := range tell {
		t.Run(name, func(t *testing.T) {
			var causes chan error
			f := newFake("x")
			run(t, f, blocked(&causes), func(t *testing.T, _ context.CancelFunc) {
				lose(f, &execution.LostError{ID: "x", Carried: 99}) // another delivery's token
				lose(f, &execution.LostError{ID: "x", Carried: 1, Current: 2})
				if cause := <-causes; !errors.Is(cause, execution.ErrLost) {
					t.Fatalf("cause: %v", cause)
				}
				synctest.Wait()
				if f.how("x") != "" || len(f.forgotten) != 1 {
					t.Fatalf("ended as %q, forgotten %v", f.how("x"), f.forgotten)
				}
			})
		})
	}
}

// The watchdog cancels before the lease can end; the result is offered all the same.
func TestUnconfirmedRenewalCancels(t *testing.T) {
	var causes chan error
	f := newFake("x")
	run(t, f, blocked(&causes), func(t *testing.T, _ context.CancelFunc) {
		begun := time.Now()
		f.set(func() { f.sick = true })
		if cause := <-causes; !errors.Is(cause, execution.ErrUnconfirmed) {
			t.Fatalf("cause: %v", cause)
		}
		if after := time.Since(begun); after >= leaseDuration || after < leaseDuration/2 {
			t.Fatalf("cancelled after %v of a lease of %v", after, leaseDuration)
		}
		synctest.Wait()
		if f.how("x") != "completed" {
			t.Fatalf("ended as %q", f.how("x"))
		}
		f.set(func() { f.sick = false; f.queue = append(f.queue, "y") })
		if cause := nextCause(t, f, causes); cause != nil {
			t.Fatalf("a delivery after the trouble was cancelled: %v", cause)
		}
	})
}

// nextCause waits until the next delivery runs, and returns why it was cancelled
// within two leases, or nil.
func nextCause(t *testing.T, f *fakeHolder, causes chan error) error {
	t.Helper()
	for _, _, queued := f.counts(); queued > 0; _, _, queued = f.counts() {
		time.Sleep(time.Second) // virtual
		synctest.Wait()
	}
	select {
	case cause := <-causes:
		return cause
	case <-time.After(2 * leaseDuration):
		return nil
	}
}

// Against a sick etcd the dispatcher slows down, and recovers by itself.
func TestBackoffAgainstASickEtcd(t *testing.T) {
	f := newFake()
	var ran atomic.Int64
	handler := func(context.Context, execution.Delivery, <-chan struct{}) dispatch.Reply { ran.Add(1); return done }
	run(t, f, func() dispatch.Config { return dispatch.Config{Handler: handler} }, func(t *testing.T, _ context.CancelFunc) {
		f.set(func() { f.sick = true; f.claims, f.renewals = 0, 0 })
		f.due(time.Now())
		time.Sleep(5 * time.Minute) // virtual
		if claims, renewals, _ := f.counts(); claims+renewals > 300 {
			t.Fatalf("%d claims and %d renewals in 5 minutes", claims, renewals)
		}
		f.set(func() { f.sick = false; f.queue = append(f.queue, "x") })
		for ran.Load() == 0 {
			time.Sleep(time.Second) // virtual
		}
	})
}

// An end that etcd does not answer is tried again while the lease is renewed.
func TestEndIsTriedUntilCertain(t *testing.T) {
	f := newFake("x")
	f.endErr = errSick
	handler := func(context.Context, execution.Delivery, <-chan struct{}) dispatch.Reply { return done }
	run(t, f, func() dispatch.Config { return dispatch.Config{Handler: handler} }, func(t *testing.T, _ context.CancelFunc) {
		time.Sleep(10 * time.Minute) // virtual
		f.set(func() { f.endErr = nil })
		for f.how("x") == "" {
			time.Sleep(time.Second) // virtual
		}
	})
}
