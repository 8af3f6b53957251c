package holdfasttest

// White-box: the tests plant what users can't, and read what a failing test of
// theirs would be told.

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/etcd"
)

// A report stands for a test of a user's, which may fail.
type report struct {
	*testing.T
	lines    []string
	cleanups []func()
}

func (r *report) Errorf(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *report) Fatal(args ...any) {
	r.lines = append(r.lines, fmt.Sprint(args...))
	runtime.Goexit()
}

func (r *report) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// run runs f as a test of its own, and returns what it is told.
func run(t *testing.T, f func(r *report)) []string {
	t.Helper()
	r := &report{T: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	for _, f := range r.cleanups {
		f()
	}
	return r.lines
}

func wantLine(t *testing.T, lines []string, want string) {
	t.Helper()
	if len(lines) != 1 || !strings.Contains(lines[0], want) {
		t.Errorf("the test was told %q, want %q", lines, want)
	}
}

func TestNewOutsideOfABubble(t *testing.T) {
	wantLine(t, run(t, func(r *report) { New(r) }), "use Run")
}

func TestAnOrderThatIsNotCarriedOutFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := run(t, func(r *report) { New(r).AfterStep("charge", (*Worker).Crash) })
		wantLine(t, lines, `AfterStep "charge"`)
	})
}

func TestAViolationFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lines := run(t, func(r *report) {
			e := New(r)
			_, err := e.server.Client("", nil).Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: e.space.Wake("nobody")}}})
			if err != nil {
				t.Error(err)
			}
		})
		if len(lines) == 0 || !strings.Contains(lines[0], "a bug of Holdfast") {
			t.Errorf("the test was told %q", lines)
		}
	})
}

func TestABadWorkerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wantLine(t, run(t, func(r *report) { New(r).Worker() }), "no workflow is given")
	})
}

// A step that ignores its context holds up the end of the test, and is named.
func TestAStepThatDoesNotReturnFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		lines := run(t, func(r *report) {
			e := New(r)
			deaf := holdfast.Define("deaf", func(ctx holdfast.Context, _ string) (string, error) {
				return holdfast.Step(ctx, "listen", func(context.Context) (string, error) {
					<-released
					return "", nil
				})
			})
			e.Worker(deaf)
			if _, err := deaf.Start(e.Context(), e.Client(), "in"); err != nil {
				t.Error(err)
			}
			e.Advance(time.Second)
		})
		close(released)
		time.Sleep(time.Minute) // it gives up its record, too
		wantLine(t, lines, `["listen"] do not return`)
	})
}

// Who waits in vain is told so, and soon.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(t)
		w := holdfast.Define("nobody", func(holdfast.Context, string) (string, error) { return "", nil })
		other := holdfast.Define("other", func(holdfast.Context, string) (string, error) { return "", nil })
		e.Worker(other)
		if _, err := w.Handle(e.Client(), "unknown").Result(e.Context()); err == nil {
			t.Error("an unknown execution has a result")
		}
		<-e.Context().Done()
		if err := context.Cause(e.Context()); err == nil || !strings.Contains(err.Error(), "2160h") {
			t.Errorf("got %v", err)
		}
	})
}
