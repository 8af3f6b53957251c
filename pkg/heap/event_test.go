package heap_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

var approved = execution.AppliedEvent{Name: "approved/1", ID: "a%b", Digest: "d1"}

// event is the key of the approval of the scene's execution.
func (s *scene) event() keyspace.EventKey {
	return keyspace.EventKey{ID: "x", Incarnation: s.delivery.Incarnation, Name: approved.Name, Event: approved.ID}
}

// send puts the event.
func (s *scene) send(t *testing.T) {
	t.Helper()
	e := record.Event{Sent: 1, Digest: approved.Digest, Nonce: "n", Payload: json.RawMessage(`true`)}
	if _, err := s.hook.Store.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: s.space.Event(s.event()), Value: e.Encode()}}}); err != nil {
		t.Fatal(err)
	}
}

// found returns whether the event is there, and its receipt, nil if there is none.
func (s *scene) found(t *testing.T) (bool, *record.Applied) {
	t.Helper()
	res, err := s.hook.Store.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{
		etcd.Get{Key: s.space.Event(s.event())}, etcd.Get{Key: s.space.Applied(s.event())},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, there := res.Results[0].One()
	kv, done := res.Results[1].One()
	if !done {
		return there, nil
	}
	a, err := record.DecodeApplied(kv.Value)
	if err != nil {
		t.Fatal(err)
	}
	return there, a
}

// apply records a step that applies the event.
func (s *scene) apply(t *testing.T, step, response string) (execution.Step, error) {
	t.Helper()
	return s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{
		Key: step, Attempt: 1, Done: true, Response: json.RawMessage(response), Event: new(approved),
	})
}

func TestStepAppliesItsEvent(t *testing.T) {
	s := newScene(t)
	s.send(t)
	if st, err := s.apply(t, "k", `true`); err != nil || string(st.Response) != `true` {
		t.Fatalf("write: %+v, %v", st, err)
	}
	there, receipt := s.found(t)
	if there || receipt == nil || receipt.Digest != "d1" || receipt.Step != "k" || receipt.Token != s.delivery.Token || receipt.Run != 0 {
		t.Fatalf("the event is there: %t; receipt %+v", there, receipt)
	}
	// Written again, it is what was recorded, and the event's absence says nothing.
	if st, err := s.apply(t, "k", `false`); err != nil || string(st.Response) != `true` {
		t.Errorf("again: %+v, %v", st, err)
	}
	// Another step can't have the event.
	if st, err := s.apply(t, "other", `true`); !errors.Is(err, execution.ErrEventGone) || errors.Is(err, execution.ErrLost) {
		t.Errorf("another step: %+v, %v", st, err)
	}
	if _, now := s.found(t); now == nil || now.Step != "k" {
		t.Errorf("receipt %+v", now)
	}
	if steps, err := s.Read(t.Context(), s.delivery.Lease); err != nil || len(steps) != 1 {
		t.Errorf("steps: %+v, %v", steps, err)
	}
}

// Two steps race for one event: one has it.
func TestOneOfTwoStepsAppliesAnEvent(t *testing.T) {
	s := newScene(t)
	s.send(t)
	errs := make(chan error)
	for _, step := range []string{"a", "b"} {
		go func() {
			_, err := s.apply(t, step, `true`)
			errs <- err
		}()
	}
	gone := 0
	for range 2 {
		switch err := <-errs; {
		case errors.Is(err, execution.ErrEventGone):
			gone++
		case err != nil:
			t.Error(err)
		}
	}
	if gone != 1 {
		t.Errorf("%d of 2 were told that it is gone", gone)
	}
}

func TestEventThatIsNotApplied(t *testing.T) {
	s := newScene(t)
	s.send(t)
	bad := execution.AppliedEvent{Name: "", ID: "x"}
	for name, w := range map[string]execution.StepWrite{
		"not done": {Key: "k", Response: json.RawMessage(`1`), Event: new(approved)},
		"bad name": {Key: "k", Done: true, Response: json.RawMessage(`1`), Event: &bad},
	} {
		_, err := s.WriteStep(t.Context(), s.delivery.Lease, w)
		if _, invalid := errors.AsType[*execution.InvalidError](err); !invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.executions.Fence(t.Context(), "x", "operator"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.apply(t, "k", `true`); !errors.Is(err, execution.ErrLost) {
		t.Errorf("a stale holder: %v", err)
	}
	if there, receipt := s.found(t); !there || receipt != nil {
		t.Errorf("the event is there: %t; receipt %+v", there, receipt)
	}
}

// The answer of etcd is lost: sent again, the write finds its own record.
func TestLostAnswerOfAWriteThatAppliesAnEvent(t *testing.T) {
	s := newScene(t)
	s.send(t)
	s.hook.AfterTxn = func(*etcd.Txn, *etcd.TxnResult, error) (*etcd.TxnResult, error) {
		s.hook.AfterTxn = nil
		return nil, context.DeadlineExceeded
	}
	if st, err := s.apply(t, "k", `true`); err != nil || string(st.Response) != `true` {
		t.Fatalf("write: %+v, %v", st, err)
	}
}
