package start_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"

	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/start"
)

// child starts a child of the parent.
func (w *world) child() start.Answer {
	w.t.Helper()
	req := w.request("start")
	req.ID = "child"
	return w.start(req)
}

func (w *world) waiting(target start.Answer) start.Waiting {
	return start.Waiting{Target: target, Step: w.step("wait"), Epoch: w.lease.Epoch, Workflow: "parent"}
}

// await waits, and demands the ending.
func (w *world) await(x start.Waiting, want start.Ending) {
	w.t.Helper()
	got, err := w.Await(w.t.Context(), x)
	if err != nil || !reflect.DeepEqual(got, want) {
		w.t.Errorf("got %+v (%+v), %v, want %+v (%+v)", got, got.Outcome, err, want, want.Outcome)
	}
}

// waiterKey is where the parent's step waits.
func (w *world) waiterKey(id execution.ID) string {
	s := w.step("wait")
	return w.space.Waiter(keyspace.Ending(string(id)), keyspace.CallKey{ID: string(s.Execution), Incarnation: s.Incarnation, Run: s.Run, Step: s.Step})
}

// waiters counts the registrations and the notices of ends.
func (w *world) waiters() (waiting, notices int) {
	w.t.Helper()
	return len(w.keys(w.space.Waiters())), len(w.keys(w.space.AllChanges()))
}

func (w *world) wantWaiters(waiting, notices int) {
	w.t.Helper()
	if gotWaiting, gotNotices := w.waiters(); gotWaiting != waiting || gotNotices != notices {
		w.t.Errorf("%d wait and there are %d notices, want %d and %d", gotWaiting, gotNotices, waiting, notices)
	}
}

var armed = start.Ending{Armed: true}

func completed(result string) start.Ending {
	return start.Ending{Outcome: &execution.Outcome{Kind: execution.Completed, Result: json.RawMessage(result)}}
}

func TestAwaitOfAnEnd(t *testing.T) {
	failed := execution.Outcome{Kind: execution.Failed, Error: &execution.Error{Message: "broken", Code: "BROKEN"}}
	for name, c := range map[string]struct {
		end  func(*world)
		want start.Ending
	}{
		"completed": {func(w *world) { w.complete(w.claim("child").Lease, `{"n":1}`) }, completed(`{"n":1}`)},
		"failed": {func(w *world) {
			w.must(w.executions.Acknowledge(w.t.Context(), w.claim("child").Lease, failed))
		}, start.Ending{Outcome: &failed}},
		"cancelled": {
			func(w *world) { w.must(w.executions.Cancel(w.t.Context(), "child", "enough")) },
			start.Ending{Outcome: &execution.Outcome{Kind: execution.Failed, Error: &execution.Error{Message: "cancelled: enough", Code: "cancelled"}}},
		},
		"completed by another run": {func(w *world) {
			w.must(w.executions.Acknowledge(w.t.Context(), w.claim("child").Lease, execution.Outcome{Kind: execution.Continued}))
			w.complete(w.claim("child").Lease, `2`)
		}, completed(`2`)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.child()
			w.await(w.waiting(a), armed)
			w.await(w.waiting(a), armed)
			w.wantWaiters(1, 0)
			c.end(w)
			w.wantWaiters(1, 1)
			w.await(w.waiting(a), c.want)
			w.await(w.waiting(a), c.want)
			w.wantWaiters(1, 1)
		})
	}
}

// An end between the look and the registration is seen.
func TestAwaitBesideAnEnd(t *testing.T) {
	w := newWorld(t)
	a := w.child()
	w.before(w.waiterKey("child"), func() { w.complete(w.claim("child").Lease, `1`) })
	w.await(w.waiting(a), completed(`1`))
	w.wantWaiters(0, 0)
}

// Whatever else happens to the child meanwhile, the step is registered.
func TestAwaitBesideADelivery(t *testing.T) {
	w := newWorld(t)
	a := w.child()
	w.before(w.waiterKey("child"), func() { w.claim("child") })
	w.await(w.waiting(a), armed)
	w.wantWaiters(1, 0)
}

// The registration was made by the first try, and the child ended before the second.
func TestAwaitWithoutAnAnswer(t *testing.T) {
	w := newWorld(t)
	a := w.child()
	w.unanswered(w.waiterKey("child"), func() { w.complete(w.claim("child").Lease, `1`) })
	w.await(w.waiting(a), completed(`1`))
	w.wantWaiters(1, 1)
}

// A holder that comes late registers nothing after the step was answered, which nobody
// would remove.
func TestAwaitOfAnAnsweredStep(t *testing.T) {
	w := newWorld(t)
	a := w.child()
	x := w.waiting(a)
	for attempt := range int64(2) {
		answer := w.space.Step(keyspace.Step{ID: "parent", Incarnation: x.Step.Incarnation, Key: "wait", Attempt: attempt})
		rec := record.Step{Done: true, Token: w.lease.Token, Response: []byte(`1`)}
		x.Attempt = attempt
		if attempt == 0 {
			w.put(answer, string(rec.Encode()))
		} else {
			w.before(w.waiterKey("child"), func() { w.put(answer, string(rec.Encode())) })
		}
		w.await(x, start.Ending{Resolved: true})
	}
	w.wantWaiters(0, 0)
}

func TestAwaitOfADeletedOne(t *testing.T) {
	for name, happens := range map[string]func(*world){
		"deleted":                  func(w *world) { w.remove("child") },
		"deleted, and its id used": func(w *world) { w.remove("child"); w.admit("child") },
		"deleted, and another's child": func(w *world) {
			w.remove("child")
			req := w.request("another start")
			req.ID = "child"
			w.complete(w.claimed(w.start(req)), `"not yours"`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			a := w.child()
			happens(w)
			_, err := w.Await(t.Context(), w.waiting(a))
			var deleted *start.DeletedError
			if !errors.As(err, &deleted) || deleted.ID != "child" || deleted.Code() != "START_TARGET_DELETED" || !errors.Is(err, execution.ErrNotFound) {
				t.Errorf("got %v, want that it was deleted", err)
			}
			w.wantWaiters(0, 0)
		})
	}
}

// claimed claims what was started.
func (w *world) claimed(a start.Answer) execution.Lease {
	w.t.Helper()
	d := w.claim("child")
	if d.ID != a.ID {
		w.t.Fatalf("claimed %q, want %q", d.ID, a.ID)
	}
	return d.Lease
}

// Who waited when the child ended is woken, and learns that it was deleted since.
func TestAwaitOfOneThatWasDeletedSince(t *testing.T) {
	w := newWorld(t)
	a := w.child()
	w.await(w.waiting(a), armed)
	w.remove("child")
	w.wantWaiters(1, 1)
	var deleted *start.DeletedError
	if _, err := w.Await(t.Context(), w.waiting(a)); !errors.As(err, &deleted) {
		t.Errorf("got %v, want that it was deleted", err)
	}
}

func TestLateWaits(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*world)
		reason  string
	}{
		"after its execution was deleted": {func(w *world) { w.remove("parent") }, "the execution was deleted"},
		"after its run has ended":         {(*world).turn, "the execution went on as another run"},
		"after a restore":                 {(*world).restore, "the namespace was restored from a backup"},
	} {
		for _, when := range []string{"before the look", "after the look"} {
			t.Run(name+"/"+when, func(t *testing.T) {
				w := newWorld(t)
				x := w.waiting(w.child())
				if when == "before the look" {
					c.happens(w)
				} else {
					w.before(w.waiterKey("child"), func() { c.happens(w) })
				}
				_, err := w.Await(t.Context(), x)
				var lost *execution.LostError
				if !errors.As(err, &lost) || lost.Operation != "wait" || lost.Reason != c.reason {
					t.Errorf("got %v, want lost since %s", err, c.reason)
				}
				w.wantWaiters(0, 0)
			})
		}
	}
}

func TestAwaitRefuses(t *testing.T) {
	w := newWorld(t)
	a := w.child()
	for name, edit := range map[string]func(*start.Waiting){
		"no target": func(x *start.Waiting) { x.Target = start.Answer{} },
		"no step":   func(x *start.Waiting) { x.Step.Step = "" },
	} {
		x := w.waiting(a)
		edit(&x)
		var invalid *execution.InvalidError
		if _, err := w.Await(t.Context(), x); !errors.As(err, &invalid) {
			t.Errorf("%s: %v, want an *InvalidError", name, err)
		}
	}
}

func TestAwaitOfAnUnreadableState(t *testing.T) {
	w := newWorld(t)
	a := w.child()
	w.damage(w.space.State("child"), `{"v":2}`)
	if _, err := w.Await(t.Context(), w.waiting(a)); !errors.Is(err, record.ErrNewer) {
		t.Errorf("got %v, want that a newer release wrote it", err)
	}
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t)
	for name, cfg := range map[string]start.Config{
		"nothing":       {},
		"no store":      {Space: w.space, Executions: w.executions},
		"no space":      {Store: w.hook, Executions: w.executions},
		"no executions": {Store: w.hook, Space: w.space},
	} {
		if c, err := start.New(cfg); err == nil || c != nil {
			t.Errorf("%s: %v, %v, want an error", name, c, err)
		}
	}
	// What is left out has a default.
	c, err := start.New(start.Config{Store: w.hook, Space: w.space, Executions: w.executions})
	w.must(err)
	if a, err := c.Start(t.Context(), w.request("start")); err != nil || a.ID == "" {
		t.Errorf("started %+v, %v", a, err)
	}
	w.ids = []execution.ID{"drawn"}
	if a := w.start(w.request("another")); a.ID != "drawn" {
		t.Errorf("started %+v, want the drawn id", a)
	}
}

// Who has looked registers at once, as of what it has seen.
func TestAwaitAfterALook(t *testing.T) {
	w := newWorld(t)
	a := w.child()
	x := w.waiting(a)
	outcome, seen, err := w.Ended(t.Context(), a)
	if err != nil || outcome != nil || seen == 0 {
		t.Fatalf("got %+v at %d, %v, want that it goes on", outcome, seen, err)
	}
	x.Seen = seen
	store, counts := testetcd.Recorder(t, w.hook.Store)
	plain := w.hook.Store
	w.hook.Store = store
	w.await(x, armed)
	if w.hook.Store = plain; counts.Total() != 1 {
		t.Errorf("it took %s, want one transaction", counts)
	}
	d := w.claim("child")
	w.await(x, armed) // it has moved since, and goes on
	w.complete(d.Lease, `1`)
	w.await(x, completed(`1`))
	if outcome, _, err := w.Ended(t.Context(), a); err != nil || outcome == nil || string(outcome.Result) != `1` {
		t.Errorf("got %+v, %v", outcome, err)
	}
	w.must(w.executions.Delete(t.Context(), "child"))
	var deleted *start.DeletedError
	if _, _, err := w.Ended(t.Context(), a); !errors.As(err, &deleted) {
		t.Errorf("got %v, want that it was deleted", err)
	}
	if _, _, err := w.Ended(t.Context(), start.Answer{}); err == nil {
		t.Error("the end of nothing was looked for")
	}
}
