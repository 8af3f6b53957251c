package event_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/event"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
	"github.com/holdfast-io/holdfast/pkg/heap"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }

// A scene is an execution that was admitted, and clients.
type scene struct {
	*event.Client
	t          *testing.T
	hook       *testetcd.Hook
	space      keyspace.Space
	executions *leasing.Client
	steps      *heap.Client
}

const order = execution.ID("order/42")

// newScene audits the namespace when the test ends.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t, hook: &testetcd.Hook{Store: testetcd.Start(t)}, space: testetcd.Space(t)}
	var err error
	if s.executions, err = leasing.New(t.Context(), leasing.Config{Store: s.hook, Space: s.space}); err != nil {
		t.Fatal(err)
	}
	if s.steps, err = heap.New(heap.Config{Store: s.hook, Space: s.space}); err != nil {
		t.Fatal(err)
	}
	if s.Client, err = event.New(event.Config{Store: s.hook, Space: s.space, Executions: s.executions}); err != nil {
		t.Fatal(err)
	}
	s.admit()
	t.Cleanup(func() {
		report, err := audit.Check(context.Background(), s.hook.Store, s.space)
		if err != nil {
			t.Error(err)
		}
		for _, v := range report.Violations {
			t.Errorf("audit: %v", v)
		}
	})
	return s
}

func (s *scene) admit() {
	s.t.Helper()
	if _, err := s.executions.Admit(s.t.Context(), execution.AdmitRequest{ID: order, Workflow: "w"}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) claim() execution.Delivery {
	s.t.Helper()
	ds, err := s.executions.ClaimDue(s.t.Context(), execution.ClaimRequest{Limit: 1, Duration: time.Minute})
	if err != nil || len(ds) != 1 {
		s.t.Fatalf("claimed %v, %v", ds, err)
	}
	return ds[0]
}

func (s *scene) acknowledge(d execution.Delivery, o execution.Outcome) {
	s.t.Helper()
	if err := s.executions.Acknowledge(s.t.Context(), d.Lease, o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) get() execution.Record {
	s.t.Helper()
	rec, err := s.executions.Get(s.t.Context(), order)
	if err != nil {
		s.t.Fatal(err)
	}
	return rec
}

// send sends an event and fails the test if that does not work.
func (s *scene) send(name, id, payload string) event.Sent {
	s.t.Helper()
	sent, err := s.Send(s.t.Context(), event.Message{Execution: order, Name: name, ID: id, Payload: json.RawMessage(payload)})
	if err != nil {
		s.t.Fatal(err)
	}
	return sent
}

func (s *scene) box(name string) event.Inbox {
	return event.Inbox{Execution: order, Incarnation: s.get().Incarnation, Name: name}
}

// waiting lists the events of the name with their payloads, as "id payload".
func (s *scene) waiting(name string) (all []string) {
	s.t.Helper()
	ids, err := s.List(s.t.Context(), s.box(name))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, id := range ids {
		p, there, err := s.Read(s.t.Context(), s.box(name), id)
		if err != nil || !there || p.Event.Name != name || p.Event.ID != id || len(p.Event.Digest) != 32 {
			s.t.Fatalf("event %q: %+v, %t, %v", id, p, there, err)
		}
		all = append(all, id+" "+string(p.Payload))
	}
	return all
}

func (s *scene) wantWaiting(name string, want ...string) {
	s.t.Helper()
	if got := s.waiting(name); !slices.Equal(got, want) {
		s.t.Errorf("events %q: %q, want %q", name, got, want)
	}
}

// apply records a step that applies the event.
func (s *scene) apply(d execution.Delivery, name, id string) {
	s.t.Helper()
	p, there, err := s.Read(s.t.Context(), s.box(name), id)
	if err != nil || !there {
		s.t.Fatalf("event %q: %t, %v", id, there, err)
	}
	w := execution.StepWrite{Key: "await " + id, Done: true, Response: p.Payload, Event: &p.Event}
	if _, err := s.steps.WriteStep(s.t.Context(), d.Lease, w); err != nil {
		s.t.Fatal(err)
	}
}

var (
	suspended = execution.Outcome{Kind: execution.Suspended}
	completed = execution.Outcome{Kind: execution.Completed, Result: json.RawMessage(`1`)}
)

// An event does not move the first due time of an execution; once it was delivered, an
// event wakes it.
func TestSendBeforeTheFirstDueTime(t *testing.T) {
	s := newScene(t)
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	if _, err := s.executions.Admit(t.Context(), execution.AdmitRequest{ID: "later", Workflow: "w", Due: at}); err != nil {
		t.Fatal(err)
	}
	send := func() execution.Record {
		t.Helper()
		_, err := s.Send(t.Context(), event.Message{Execution: "later", Name: "n"})
		rec, getErr := s.executions.Get(t.Context(), "later")
		if err != nil || getErr != nil {
			t.Fatal(err, getErr)
		}
		return rec
	}
	if rec := send(); !rec.Due.Equal(at) || rec.PendingEvents != 1 {
		t.Errorf("due at %v, want %v; %d events", rec.Due, at, rec.PendingEvents)
	}
	s.claim() // the other one
	ds, err := s.executions.ClaimDue(t.Context(), execution.ClaimRequest{Now: at, Limit: 1, Duration: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claimed %v, %v", ds, err)
	}
	s.acknowledge(ds[0], execution.Outcome{Kind: execution.Suspended, Wake: at})
	if rec := send(); rec.Due.After(time.Now()) {
		t.Errorf("due at %v", rec.Due)
	}
}

// The order of events is that of their arrival, not of their ids, and each name has its
// own; whatever the execution is doing, it is delivered after each.
func TestSend(t *testing.T) {
	s := newScene(t)
	s.send("item", "z", `{"b":1, "a":"<&>"}`) // before the first delivery
	d := s.claim()
	s.send("item", "y", `2`) // while it runs
	s.send("other/1", "y", `null`)
	s.acknowledge(d, suspended)
	d = s.claim() // since an event came while it ran
	s.acknowledge(d, suspended)
	if rec := s.get(); !rec.Due.IsZero() || rec.PendingEvents != 3 {
		t.Errorf("due at %v, %d events", rec.Due, rec.PendingEvents)
	}
	s.send("item", "a/b", ``) // while it waits
	d = s.claim()
	s.wantWaiting("item", `z {"b":1,"a":"\u003c\u0026\u003e"}`, `y 2`, `a/b null`)
	s.wantWaiting("other/1", `y null`)
	s.wantWaiting("nobody's")
	s.apply(d, "item", "y")
	s.wantWaiting("item", `z {"b":1,"a":"\u003c\u0026\u003e"}`, `a/b null`)
	s.acknowledge(d, execution.Outcome{Kind: execution.Continued})
	d = s.claim()
	s.wantWaiting("item", `z {"b":1,"a":"\u003c\u0026\u003e"}`, `a/b null`)
	s.acknowledge(d, completed)
	s.wantWaiting("other/1", `y null`)
}

func TestSendAgain(t *testing.T) {
	s := newScene(t)
	first := s.send("item", "", `{"a":1,"b":[2]}`)
	if first.ID == "" || first.Repeated {
		t.Fatalf("sent %+v", first)
	}
	again := func(when string) {
		t.Helper()
		sent, err := s.Send(t.Context(), event.Message{Execution: order, Name: "item", ID: first.ID, Payload: json.RawMessage("{\"b\": [2],\n\"a\": 1}")})
		if err != nil || sent != (event.Sent{ID: first.ID, Repeated: true}) {
			t.Errorf("%s: %+v, %v", when, sent, err)
		}
		_, err = s.Send(t.Context(), event.Message{Execution: order, Name: "item", ID: first.ID, Payload: json.RawMessage(`{"a":1,"b":[3]}`)})
		if !errors.Is(err, execution.ErrConflict) {
			t.Errorf("%s, with another payload: %v", when, err)
		}
	}
	again("pending")
	d := s.claim()
	again("claimed")
	s.apply(d, "item", first.ID)
	again("applied")
	s.wantWaiting("item")
	s.acknowledge(d, execution.Outcome{Kind: execution.Continued})
	again("in the next run")
	s.acknowledge(s.claim(), completed)
	again("at the end")
	s.wantWaiting("item")
	// An id is one of its name.
	if _, err := s.Send(t.Context(), event.Message{Execution: order, Name: "other", ID: first.ID}); !errors.Is(err, execution.ErrTerminal) {
		t.Errorf("another name: %v", err)
	}
}

func TestSendRefuses(t *testing.T) {
	s := newScene(t)
	send := func(m event.Message) error { _, err := s.Send(t.Context(), m); return err }
	for name, m := range map[string]event.Message{
		"a bad execution id": {Execution: "\xff", Name: "n"},
		"no name":            {Execution: order},
		"a bad id":           {Execution: order, Name: "n", ID: "a\x00"},
		"no JSON":            {Execution: order, Name: "n", Payload: json.RawMessage(`{`)},
		"two documents":      {Execution: order, Name: "n", Payload: json.RawMessage(`1 2`)},
		"too large":          {Execution: order, Name: "n", Payload: json.RawMessage(`"` + strings.Repeat("x", event.MaxPayloadBytes-1) + `"`)},
		"too large, escaped": {Execution: order, Name: "n", Payload: json.RawMessage(`"` + strings.Repeat("<", event.MaxPayloadBytes/6) + `"`)},
	} {
		if _, invalid := errors.AsType[*execution.InvalidError](send(m)); !invalid {
			t.Errorf("%s: %v", name, send(m))
		}
	}
	if err := send(event.Message{Execution: "nobody", Name: "n"}); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	s.acknowledge(s.claim(), completed)
	if err := send(event.Message{Execution: order, Name: "n"}); !errors.Is(err, execution.ErrTerminal) {
		t.Errorf("ended: %v", err)
	}
	if err := s.executions.Delete(t.Context(), order); err != nil {
		t.Fatal(err)
	}
	if err := send(event.Message{Execution: order, Name: "n"}); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	s.admit()
	s.send("n", "e", `1`)
}

// The largest payload that is accepted can be recorded by a step.
func TestLargestPayload(t *testing.T) {
	s := newScene(t)
	sent := s.send("n", "", `"`+strings.Repeat("x", event.MaxPayloadBytes-2)+`"`)
	s.apply(s.claim(), "n", sent.ID)
}

// Whatever becomes of the first try, and whatever happens before the second, the event
// is there once, or was.
func TestSendWithoutAnAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		between func(s *scene)
		want    error
		pending int64
	}{
		"nothing happens": {func(*scene) {}, nil, 1},
		"it is claimed":   {func(s *scene) { s.claim() }, nil, 1},
		"it is applied":   {func(s *scene) { s.apply(s.claim(), "item", "e") }, nil, 0},
		"it ends":         {func(s *scene) { s.acknowledge(s.claim(), completed) }, nil, 1},
		"it is deleted": {func(s *scene) {
			s.acknowledge(s.claim(), completed)
			if err := s.executions.Delete(s.t.Context(), order); err != nil {
				s.t.Fatal(err)
			}
		}, fencing.ErrUnknown, -1},
		"another one has its id": {func(s *scene) {
			s.acknowledge(s.claim(), completed)
			if err := s.executions.Delete(s.t.Context(), order); err != nil {
				s.t.Fatal(err)
			}
			s.admit()
		}, fencing.ErrUnknown, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.hook.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
				if len(txn.If) == 0 {
					return res, err // the look before it
				}
				s.hook.AfterTxn = nil
				c.between(s)
				return nil, context.DeadlineExceeded
			}
			_, err := s.Send(t.Context(), event.Message{Execution: order, Name: "item", ID: "e", Payload: json.RawMessage(`1`)})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if c.pending >= 0 {
				if n := s.get().PendingEvents; n != c.pending {
					t.Errorf("%d pending, want %d", n, c.pending)
				}
			}
		})
	}
}

// An execution is claimed, released and suspended while many senders send: each event
// arrives once, in the order of its sender, and the last one is followed by a delivery.
func TestManySendersAtOnce(t *testing.T) {
	const senders, each = 10, 20
	s := newScene(t)
	var all sync.WaitGroup
	for sender := range senders {
		all.Go(func() {
			for i := range each {
				m := event.Message{Execution: order, Name: "item", Payload: json.RawMessage(fmt.Sprintf("[%d,%d]", sender, i))}
				if _, err := s.Send(t.Context(), m); err != nil {
					t.Errorf("sender %d, event %d: %v", sender, i, err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { defer close(done); all.Wait() }()
	for deliveries, over := 0, false; !over; deliveries++ {
		select {
		case <-done:
			over = true
		default:
		}
		ds, err := s.executions.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 1, Duration: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			s.acknowledge(d, suspended)
		}
	}
	got := s.waiting("item")
	if len(got) != senders*each || s.get().PendingEvents != senders*each {
		t.Fatalf("%d events, want %d", len(got), senders*each)
	}
	next := [senders]int{}
	for _, line := range got {
		_, payload, _ := strings.Cut(line, " ")
		var e [2]int
		if err := json.Unmarshal([]byte(payload), &e); err != nil {
			t.Fatal(err)
		}
		if e[1] != next[e[0]] {
			t.Errorf("event %d of sender %d came where %d was due", e[1], e[0], next[e[0]])
		}
		next[e[0]] = e[1] + 1
	}
}

// A list of many is read in pages, at one revision.
func TestListOfManyPages(t *testing.T) {
	s := newScene(t)
	const n = 4100
	box := s.box("item")
	var want []string
	for i := 0; i < n; i += 100 {
		var ops []etcd.Op
		for j := range 100 {
			id := fmt.Sprintf("%04d", n-i-j)
			want = append(want, id)
			ops = append(ops, etcd.Put{Key: s.space.Event(keyspace.EventKey{ID: string(order), Incarnation: box.Incarnation, Name: "item", Event: id}), Value: []byte(`{"v":1}`)})
		}
		if _, err := s.hook.Store.Txn(t.Context(), &etcd.Txn{Then: ops}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want[i:]) // of one revision, by their ids
	}
	reads := 0
	s.hook.BeforeGet = func(get etcd.Get) error {
		if reads++; !get.KeysOnly {
			t.Error("payloads are read")
		}
		return nil
	}
	got, err := s.List(t.Context(), box)
	if err != nil || !slices.Equal(got, want) || reads != 3 {
		t.Errorf("%d events in %d reads, %v", len(got), reads, err)
	}
	s.hook.BeforeGet = nil
	if _, there, err := s.Read(t.Context(), box, "nobody"); there || err != nil {
		t.Errorf("an event that is not there: %t, %v", there, err)
	}
}

func TestNewRefuses(t *testing.T) {
	if c, err := event.New(event.Config{}); err == nil {
		t.Errorf("got %v", c)
	}
}
