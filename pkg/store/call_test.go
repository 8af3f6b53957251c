package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// A scene is a delivery of the execution "e" whose one call is made without an engine:
// what it answers is seen as it is.
type scene struct {
	context.Context
	*world
	lease   execution.Lease
	earlier replay.Earlier

	site   uintptr
	call   replay.Call
	answer replay.Answer
	err    error
}

func newScene(t *testing.T) *scene {
	t.Helper()
	w := newWorld(t)
	executions, err := leasing.New(t.Context(), leasing.Config{Store: w.etcd(), Space: w.space})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := executions.Admit(t.Context(), execution.AdmitRequest{ID: "e", Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	claimed, err := executions.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 1, Duration: time.Minute})
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %+v, %v", claimed, err)
	}
	return &scene{world: w, Context: stores.NewContext(t.Context(), w.client()), lease: claimed[0].Lease}
}

func (w *world) put(key string, value []byte) {
	w.t.Helper()
	if _, err := w.etcd().Txn(w.t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key, Value: value}}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(key, end string) []etcd.KV {
	w.t.Helper()
	res, _, err := w.etcd().Get(w.t.Context(), etcd.Get{Key: key, End: end})
	if err != nil {
		w.t.Fatal(err)
	}
	return res.KVs
}

// waiters returns the paths that are registered at the board "x".
func (s *scene) waiters() []string {
	s.t.Helper()
	var all []string
	span := s.space.WaitersOf(keyspace.StoreKey{Name: "board", ID: "x"})
	for _, kv := range s.read(span.Start, span.End) {
		rec, err := record.DecodeWaiter(kv.Value)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s since %d", rec.Paths, rec.Since))
	}
	return all
}

func (s *scene) Delivery() replay.Delivery { return s } //nolint:ireturn // as the engine's
func (s *scene) Lease() execution.Lease    { return s.lease }
func (s *scene) Workflow() string          { return "w" }

func (s *scene) Do(site uintptr, call replay.Call) (json.RawMessage, error) {
	s.site, s.call = site, call
	if call.Misuse != nil {
		return nil, call.Misuse
	}
	if err := s.again(); err != nil {
		return nil, err
	}
	if s.answer.Result == nil {
		s.answer.Result = json.RawMessage("null")
	}
	return s.answer.Result, call.Accept(s.answer.Result)
}

// again makes the last call again in the same delivery, as the engine does once it has
// recorded its wait.
func (s *scene) again() error {
	s.answer, s.err = s.call.Run(s, s.earlier)
	if s.err == nil && s.answer.Wait != nil {
		return errSuspended
	}
	return s.err
}

var errSuspended = errors.New("suspended")

// calls are all functions of workflows; each call stands on a line of its own.
var calls = map[string]func(*scene) (any, error){
	"get":    func(s *scene) (any, error) { return store.Get(s, "s", boards.At("x")) },
	"create": func(s *scene) (any, error) { return store.GetOrCreate(s, "s", boards.At("x"), board{}) },
	"update": func(s *scene) (any, error) { return store.Update(s, "s", boards.At("x"), title("new")) },
	"updateFrom": func(s *scene) (any, error) {
		return store.UpdateFrom(s, "s", boards.At("x"), s.snapshot(), title("new"))
	},
	"updateFrom old": func(s *scene) (any, error) { return store.UpdateFrom(s, "s", boards.At("x"), s.old(), title("new")) },
	"delete":         func(s *scene) (any, error) { return nil, store.Delete(s, "s", boards.At("x")) },
	"deleteFrom":     func(s *scene) (any, error) { return store.DeleteFrom(s, "s", boards.At("x"), s.snapshot()) },
	"deleteFrom old": func(s *scene) (any, error) { return store.DeleteFrom(s, "s", boards.At("x"), s.old()) },
	"take":           func(s *scene) (any, error) { return store.Take(s, "s", boards.At("x"), open, done) },
	"when":           func(s *scene) (any, error) { return store.When(s, "s", boards.At("x"), titled) },
	"takeUntil": func(s *scene) (any, error) {
		return second(store.TakeUntil(s, "s", boards.At("x"), s.deadline(), open, done))
	},
	"takeUntil late": func(s *scene) (any, error) {
		return second(store.TakeUntil(s, "s", boards.At("x"), time.Time{}, open, done))
	},
	"whenUntil": func(s *scene) (any, error) {
		return second(store.WhenUntil(s, "s", boards.At("x"), s.deadline(), titled))
	},
	"whenUntil late": func(s *scene) (any, error) { return second(store.WhenUntil(s, "s", boards.At("x"), time.Time{}, open)) },
}

func second[A, B any](a A, b B, err error) (any, error) { return fmt.Sprint(a, b), err }

func (s *scene) snapshot() store.Snapshot[board] { return s.get(boards.At("x").On(s.client())) }

func (s *scene) old() store.Snapshot[board] {
	snap := s.snapshot()
	snap.Version = 7
	return snap
}

func (s *scene) deadline() time.Time { return time.Now().Add(time.Hour) }

// TestRecordedForms: what is recorded and kept in receipts is a format. Frozen.
func TestRecordedForms(t *testing.T) {
	t.Parallel()
	const first = `{"title":"one","notes":[{"text":"a","done":true},{"text":"b"}],"owner":{"name":"","age":0}}`
	updated := strings.Replace(first, `"one"`, `"new"`, 1)
	for name, want := range map[string]string{
		"get":            `{"state":` + first + `,"instanceId":"I","version":0}`,
		"create":         `{"state":` + first + `,"instanceId":"I","version":0}`,
		"update":         `{"state":` + updated + `,"previousVersion":0,"version":1}`,
		"updateFrom":     `{"updated":true,"state":` + updated + `,"previousVersion":0,"version":1}`,
		"updateFrom old": `{"updated":false,"expectedInstanceId":"I","expectedVersion":7,"actualInstanceId":"I","actualVersion":0}`,
		"delete":         `null`,
		"deleteFrom":     `{"deleted":true}`,
		"deleteFrom old": `{"deleted":false,"reason":"conflict","expectedInstanceId":"I","expectedVersion":7,"actualInstanceId":"I","actualVersion":0}`,
		"take":           `{"matched":true,"selected":{"text":"b","done":true},"instanceId":"I","version":1}`,
		"takeUntil":      `{"matched":true,"selected":{"text":"b","done":true},"instanceId":"I","version":1}`,
		"takeUntil late": `{"matched":true,"selected":{"text":"b","done":true},"instanceId":"I","version":1}`,
		"when":           `"one"`,
		"whenUntil":      `{"matched":true,"value":"one"}`,
		"whenUntil late": `{"matched":true,"value":{"text":"b"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			h := s.make("x", board{Title: "one", Notes: []note{{"a", true}, {"b", false}}})
			instance := s.snapshot().Instance
			_, err := calls[name](s)
			recorded := string(s.answer.Result)
			if got := strings.ReplaceAll(recorded, instance, "I"); err != nil || got != want {
				t.Errorf("recorded %s, %v\n want %s", got, err, want)
			}
			if !slices.Contains([]string{"update", "updateFrom", "deleteFrom", "take", "takeUntil", "takeUntil late"}, name) {
				return
			}
			// With the receipt it comes to the same again, whatever became of the store.
			if err := h.Delete(t.Context()); err != nil {
				t.Fatal(err)
			}
			other := s.make("x", board{Title: "other"})
			_, err = calls[name](s)
			if again := string(s.answer.Result); err != nil || again != recorded {
				t.Errorf("again %s, %v\n want %s", again, err, recorded)
			}
			if got := s.get(other); got.Version != 0 || got.State.Title != "other" {
				t.Errorf("the other store became %+v", got)
			}
		})
	}
	for _, name := range []string{"whenUntil late", "takeUntil late"} {
		s := newScene(t)
		s.make("x", board{})
		if _, err := calls[name](s); err != nil || string(s.answer.Result) != `{"matched":false}` {
			t.Errorf("%s without a match: recorded %s, %v", name, s.answer.Result, err)
		}
	}
}

// TestSites: the engine is told where the user called.
func TestSites(t *testing.T) {
	t.Parallel()
	for name, call := range calls {
		s := newScene(t)
		s.make("x", board{})
		_, _ = call(s)
		frame, _ := runtime.CallersFrames([]uintptr{s.site}).Next()
		if filepath.Base(frame.File) != "call_test.go" || !strings.Contains(frame.Function, "glob..func") && !strings.Contains(frame.Function, "init.func") {
			t.Errorf("%s was called at %s:%d in %s", name, frame.File, frame.Line, frame.Function)
		}
		if s.call.Name != "s" || !strings.HasPrefix(s.call.Kind, "store ") {
			t.Errorf("%s is %q %q", name, s.call.Kind, s.call.Name)
		}
	}
}

// TestMissesAreArmed: a call that misses first has its wait recorded, with the store, and
// registers nothing before that. Made again it registers what it has read, as of what it
// has seen, whether the delivery is the same or another.
func TestMissesAreArmed(t *testing.T) {
	t.Parallel()
	key := execution.StoreID{Name: "board", ID: "x"}
	deadline := time.Now().Add(time.Hour)
	for _, c := range []struct {
		name  string
		call  func(*scene) error
		reads string
		until time.Time
	}{
		{"when", func(s *scene) error { _, err := calls["when"](s); return err }, `[[]] since 1`, time.Time{}},
		{"take", func(s *scene) error { _, err := calls["take"](s); return err }, `[[]] since 1`, time.Time{}},
		{"with reads", func(s *scene) error {
			_, err := store.When(s, "s", boards.At("x"), titled, store.Reads("title", "notes"), store.ReadsPath("owner", "age"))
			return err
		}, `[["notes"],["owner","age"],["title"]] since 1`, time.Time{}},
		{"take with reads", func(s *scene) error {
			_, err := store.Take(s, "s", boards.At("x"), open, done, store.Reads("notes"))
			return err
		}, `[["notes"]] since 1`, time.Time{}},
		{"take until", func(s *scene) error {
			_, _, err := store.TakeUntil(s, "s", boards.At("x"), deadline, open, done, store.Reads("notes"))
			return err
		}, `[["notes"]] since 1`, deadline},
		{"until", func(s *scene) error {
			_, _, err := store.WhenUntil(s, "s", boards.At("x"), deadline, titled)
			return err
		}, `[[]] since 1`, deadline},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			h := s.make("x", board{Title: "not yet"})
			change := func(fn func(*board) error) {
				if _, err := h.Update(t.Context(), fn); err != nil {
					t.Fatal(err)
				}
			}
			change(title(""))
			for _, round := range []struct {
				name string
				call func(*scene) error
				want []string
			}{
				{"at first", c.call, nil},
				{"once it is recorded", (*scene).again, []string{c.reads}},
				{"by a redelivery", c.call, []string{c.reads}},
			} {
				if err := round.call(s); err != errSuspended { //nolint:errorlint // it is passed on as it is
					t.Fatalf("%s: %v", round.name, err)
				}
				if got := s.waiters(); !slices.Equal(got, round.want) {
					t.Errorf("%s: registered %q; want %q", round.name, got, round.want)
				}
				if w := s.answer.Wait; w.Store != key || !w.Until.Equal(c.until) {
					t.Errorf("%s: waits for %+v", round.name, w)
				}
				s.earlier = replay.Earlier{Wait: s.answer.Wait, Attempt: 1}
			}
			change(func(b *board) error { b.Title, b.Notes = "one", []note{{Text: "one"}}; return nil })
			if err := c.call(s); err != nil || s.answer.Wait != nil {
				t.Errorf("answered %+v, %v", s.answer, err)
			}
		})
	}
}

// TestRecordedDeadline: the first deadline counts, and a call must be what its record
// says.
func TestRecordedWaits(t *testing.T) {
	t.Parallel()
	key := execution.StoreID{Name: "board", ID: "x"}
	past, soon := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, c := range []struct {
		name, call string
		wait       replay.Wait
		want       string // the result, or the error
	}{
		{"the deadline has passed by now", "whenUntil", replay.Wait{Until: past, Store: key}, `{"matched":false}`},
		{"the deadline has not passed", "whenUntil late", replay.Wait{Until: soon, Store: key}, "suspended"},
		{"the deadline of a take has passed by now", "takeUntil", replay.Wait{Until: past, Store: key}, `{"matched":false}`},
		{"the deadline of a take has not passed", "takeUntil late", replay.Wait{Until: soon, Store: key}, "suspended"},
		{"no deadline of a take was recorded", "takeUntil", replay.Wait{Store: key}, "recorded as a wait without a deadline"},
		{"no deadline was recorded", "whenUntil", replay.Wait{Store: key}, "recorded as a wait without a deadline: a name must keep its meaning"},
		{"a deadline was recorded", "when", replay.Wait{Until: past, Store: key}, "recorded as a wait with a deadline"},
		{"of another store", "take", replay.Wait{Store: execution.StoreID{Name: "board", ID: "y"}}, `recorded as a wait for store "board" with id "y"`},
		{"of no wait", "update", replay.Wait{Store: key}, "recorded as a wait: a name must keep its meaning"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.make("x", board{})
			s.earlier = replay.Earlier{Wait: &c.wait, Attempt: 1}
			_, err := calls[c.call](s)
			got := string(s.answer.Result)
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, c.want) || replay.Refused(s.err) {
				t.Errorf("got %s; want %s, to be tried again", got, c.want)
			}
		})
	}
}

// waited is what is recorded of a call that waits.
func (s *scene) waited(name string) replay.Earlier {
	w := replay.Wait{Store: execution.StoreID{Name: "board", ID: "x"}}
	if strings.HasSuffix(name, "Until") {
		w.Until = s.deadline()
	}
	return replay.Earlier{Wait: &w, Attempt: 1}
}

// TestAnswerOfAnotherHolder: where the step's answer is there already, nothing is
// registered, and the engine goes on to record.
func TestAnswerOfAnotherHolder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"when", "whenUntil", "take", "takeUntil"} {
		s := newScene(t)
		s.make("x", board{})
		s.earlier = s.waited(name)
		rec := record.Step{Done: true, Response: json.RawMessage(`"theirs"`)}
		s.put(s.space.Step(keyspace.Step{ID: "e", Incarnation: s.lease.Incarnation, Run: s.lease.Run, Key: "s", Attempt: 1}), rec.Encode())
		_, _ = calls[name](s)
		if s.err != nil || s.answer.Wait != nil || len(s.waiters()) != 0 {
			t.Errorf("%s: %+v, %v, registered %q", name, s.answer, s.err, s.waiters())
		}
	}
}

// TestTakenWhileItRegisters: a stale holder of the execution takes, and the store is
// deleted, before this one is registered. What was taken is its answer, and not that
// there is no such store.
func TestTakenWhileItRegisters(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"deleted", "created anew", "not taken"} {
		s := newScene(t)
		h := s.make("x", board{})
		if _, err := calls["take"](s); err != errSuspended { //nolint:errorlint // it is passed on as it is
			t.Fatal(err)
		}
		ours, want := s.call, "does not exist"
		if name != "not taken" {
			if _, err := h.Update(t.Context(), func(b *board) error { b.Notes = []note{{Text: "one"}}; return nil }); err != nil {
				t.Fatal(err)
			}
			if _, err := calls["take"](s); err != nil {
				t.Fatal(err)
			}
			want = string(s.answer.Result)
		}
		if err := h.Delete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if name == "created anew" {
			s.make("x", board{})
		}
		s.call, s.earlier = ours, s.waited("take")
		err := s.again()
		got := string(s.answer.Result)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || (err != nil) != replay.Refused(err) || len(s.waiters()) != 0 {
			t.Errorf("%s: got %s; want %s", name, got, want)
		}
	}
}

// TestErrorsThatAreTriedAgain: what another delivery may come to differently is not
// recorded, and a lost execution is lost.
func TestErrorsThatAreTriedAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"update", "updateFrom", "deleteFrom", "take", "take again", "when again", "whenUntil again", "takeUntil", "takeUntil late", "takeUntil again"} {
		s := newScene(t)
		s.make("x", board{})
		name, again := strings.CutSuffix(name, " again")
		if again { // where it would be registered
			s.earlier = s.waited(name)
		}
		if _, err := s.etcd().Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Delete{Key: s.space.State("e")}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := calls[name](s); !errors.Is(err, execution.ErrLost) || replay.Refused(err) {
			t.Errorf("%s of a deleted execution: %v", name, err)
		}
	}
	for name, call := range calls {
		s := newScene(t)
		s.make("x", board{})
		s.Context = t.Context()
		if _, err := call(s); err == nil || !strings.Contains(err.Error(), "the client is nil") || replay.Refused(err) {
			t.Errorf("%s without a client: %v", name, err)
		}
	}
}
