package start_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
	"github.com/holdfast-io/holdfast/pkg/start"
)

func (w *world) startKey(step string) string {
	s := w.step(step)
	return w.space.Start(keyspace.CallKey{ID: string(s.Execution), Incarnation: s.Incarnation, Run: s.Run, Step: step})
}

func TestStartAdmits(t *testing.T) {
	w := newWorld(t)
	req := w.request("start")
	req.ID, req.Queue, req.Due = "a child", "children", time.Now().Add(time.Minute).Truncate(time.Millisecond)
	req.Timeout = time.Hour
	a := w.start(req)
	rec, err := w.executions.Get(t.Context(), "a child")
	w.must(err)
	if want := (start.Answer{ID: "a child", Incarnation: rec.Incarnation}); a != want {
		t.Errorf("answer %+v, want %+v", a, want)
	}
	if rec.Workflow != "child" || rec.Queue != "children" || string(rec.Params) != `{"a":2,"b":1}` || !rec.Due.Equal(req.Due) || !rec.Deadline.Equal(req.Due.Add(time.Hour)) || rec.Status != execution.StatusAdmitted {
		t.Errorf("record %+v", rec)
	}
	kept, found, err := w.Started(t.Context(), req.Caller)
	a.Repeated = true
	if err != nil || !found || kept != a {
		t.Errorf("started: %+v, %t, %v, want %+v", kept, found, err, a)
	}
	if kept, found, err := w.Started(t.Context(), w.step("another")); err != nil || found {
		t.Errorf("started by another step: %+v, %t, %v", kept, found, err)
	}
}

// One request decides, in the common case.
func TestStartIsOneRequest(t *testing.T) {
	w := newWorld(t)
	store, counts := testetcd.Recorder(t, w.hook.Store)
	w.hook.Store = store
	w.start(w.request("start"))
	if counts.Total() != 1 {
		t.Errorf("a start took %s, want one transaction", counts)
	}
	counts.Reset()
	w.start(w.request("start"))
	if counts.Total() != 1 {
		t.Errorf("its repetition took %s, want one transaction", counts)
	}
}

func TestOmittedParams(t *testing.T) {
	w := newWorld(t)
	omitted, null, empty := w.request("omitted"), w.request("null"), w.request("empty")
	omitted.Params, omitted.ParamsPresent = nil, false
	null.Params, empty.Params = json.RawMessage(`null`), json.RawMessage(`{}`)
	requests := []start.Request{omitted, null, empty}
	for i, first := range requests {
		a := w.start(first)
		for j, other := range requests {
			other.Caller = first.Caller
			b, err := w.Start(t.Context(), other)
			var rejected *start.RejectedError
			switch {
			case i == j && (err != nil || b.ID != a.ID):
				t.Errorf("repeated: %+v, %v", b, err)
			case i != j && (!errors.As(err, &rejected) || rejected.Code() != "START_REQUEST_MISMATCH"):
				t.Errorf("%s after %s: %+v, %v, want a mismatch", other.Params, first.Params, b, err)
			}
		}
	}
	if rec, err := w.executions.Get(t.Context(), w.start(omitted).ID); err != nil || string(rec.Params) != `null` {
		t.Errorf("params %s, %v, want null", rec.Params, err)
	}
}

func TestInvalidStarts(t *testing.T) {
	w := newWorld(t)
	big := json.RawMessage(`"` + strings.Repeat("x", start.MaxParamsBytes-1) + `"`)
	for name, c := range map[string]struct {
		edit func(*start.Request)
		says string // of an INVALID_START_PARAMETERS; otherwise an *InvalidError
	}{
		"no JSON":            {func(r *start.Request) { r.Params = json.RawMessage(`{a:1}`) }, "not JSON"},
		"NaN":                {func(r *start.Request) { r.Params = json.RawMessage(`NaN`) }, "not JSON"},
		"nothing":            {func(r *start.Request) { r.Params = nil }, "not JSON"},
		"a name twice":       {func(r *start.Request) { r.Params = json.RawMessage(`{"a":1,"a":1}`) }, `member "a" twice`},
		"no UTF-8":           {func(r *start.Request) { r.Params = json.RawMessage("\"\xff\"") }, "not valid Unicode"},
		"too large":          {func(r *start.Request) { r.Params = big }, "655361 bytes, the limit is 655360"},
		"given and omitted":  {func(r *start.Request) { r.ParamsPresent = false }, "said to be omitted"},
		"no step":            {func(r *start.Request) { r.Caller.Step = "" }, ""},
		"another runtime's":  {func(r *start.Request) { r.Caller.Incarnation = 0 }, ""},
		"no epoch":           {func(r *start.Request) { r.Epoch = "" }, ""},
		"no workflow":        {func(r *start.Request) { r.Workflow = "" }, ""},
		"a bad id":           {func(r *start.Request) { r.ID = "\x00" }, ""},
		"a bad timeout":      {func(r *start.Request) { r.Timeout = -1 }, ""},
		"a bad queue":        {func(r *start.Request) { r.Queue = "\xff" }, ""},
		"invalid altogether": {func(r *start.Request) { *r = start.Request{Params: big, ParamsPresent: true} }, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			req := w.request("start")
			c.edit(&req)
			store, counts := testetcd.Recorder(t, w.hook.Store)
			plain := w.hook.Store
			w.hook.Store = store
			defer func() { w.hook.Store = plain }()
			_, err := w.Start(t.Context(), req)
			var rejected *start.RejectedError
			if c.says != "" {
				if !errors.As(err, &rejected) || rejected.Code() != "INVALID_START_PARAMETERS" || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want a rejection that says %q", err, c.says)
				}
			} else if _, is := errors.AsType[*execution.InvalidError](err); !is {
				t.Errorf("got %v, want an *InvalidError", err)
			}
			if counts.Total() != 0 {
				t.Errorf("it took %s, want nothing read or written", counts)
			}
		})
	}
	if len(w.children()) != 0 {
		t.Errorf("started: %q", w.children())
	}
}

// The greatest params fit, together with the greatest names.
func TestGreatestStart(t *testing.T) {
	w := newWorld(t)
	req := w.request(strings.Repeat("/", execution.MaxNameBytes))
	req.Params = json.RawMessage(`"` + strings.Repeat("x", start.MaxParamsBytes-2) + `"`)
	req.ID = execution.ID(strings.Repeat("%", execution.MaxNameBytes))
	req.Queue = strings.Repeat("\x7f", execution.MaxNameBytes)
	if a := w.start(req); a.ID != req.ID {
		t.Errorf("started %+v", a)
	}
}

func TestLateStarts(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(*world)
		reason  string
	}{
		"after its execution was deleted":       {func(w *world) { w.remove("parent") }, "the execution was deleted"},
		"after its id was admitted again":       {func(w *world) { w.remove("parent"); w.admit("parent") }, "the execution was deleted"},
		"after its run has ended":               {(*world).turn, "the execution went on as another run"},
		"after the run of another one, as well": {func(w *world) { w.turn(); w.turn() }, "the execution went on as another run"},
		"after a restore":                       {(*world).restore, "the namespace was restored from a backup"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			req := w.request("start")
			c.happens(w)
			_, err := w.Start(t.Context(), req)
			var lost *execution.LostError
			if !errors.As(err, &lost) || lost.Operation != "start" || lost.Reason != c.reason {
				t.Errorf("got %v, want lost since %s", err, c.reason)
			}
			if len(w.children()) != 0 {
				t.Errorf("started: %q", w.children())
			}
		})
	}
}

// Whether the first try was applied, nothing tells any more.
func TestStartOfADeletedParentWithoutAnAnswer(t *testing.T) {
	w := newWorld(t)
	w.unanswered(w.startKey("start"), func() { w.remove("parent") })
	if _, err := w.Start(t.Context(), w.request("start")); !errors.Is(err, fencing.ErrUnknown) || errors.Is(err, execution.ErrLost) {
		t.Errorf("got %v, want that the outcome is unknown", err)
	}
}

// A later run has steps, and starts, of its own.
func TestStartsOfTwoRuns(t *testing.T) {
	w := newWorld(t)
	first := w.start(w.request("start"))
	w.turn()
	second := w.start(w.request("start"))
	if first.ID == second.ID {
		t.Errorf("both runs started %q", first.ID)
	}
	if again := w.start(w.request("start")); again.ID != second.ID || !again.Repeated {
		t.Errorf("repeated: %+v, want %q", again, second.ID)
	}
	if keys := w.keys(w.space.Starts()); !slices.Equal(keys, []string{w.startKey("start")}) {
		t.Errorf("starts %q, want the second run's only", keys)
	}
}

// The record of a start goes with the parent, and what was started stays.
func TestDeletionOfAParent(t *testing.T) {
	w := newWorld(t)
	for i := range 120 {
		w.start(w.request(strings.Repeat("s", i+1)))
	}
	w.turn()
	w.start(w.request("start"))
	w.remove("parent")
	if keys := w.keys(w.space.Starts()); len(keys) != 0 {
		t.Errorf("starts %q are left", keys)
	}
	if page, err := w.executions.List(t.Context(), execution.ListRequest{Workflow: "child", Limit: 1000}); err != nil || len(page.Records) != 121 {
		t.Errorf("%d children are left, %v, want 121", len(page.Records), err)
	}
}

// A record that can't be read is no reason to start again.
func TestUnreadableStart(t *testing.T) {
	w := newWorld(t)
	a := w.start(w.request("start"))
	key := w.startKey("start")
	w.damage(key, `{"v":2}`)
	if _, err := w.Start(t.Context(), w.request("start")); !errors.Is(err, record.ErrNewer) || !strings.Contains(err.Error(), key) {
		t.Errorf("got %v, want it to name the key", err)
	}
	if _, _, err := w.Started(t.Context(), w.step("start")); !errors.Is(err, record.ErrNewer) {
		t.Errorf("got %v", err)
	}
	if got := w.children(); !slices.Equal(got, []execution.ID{a.ID}) {
		t.Errorf("started %q, want %q", got, a.ID)
	}
}
