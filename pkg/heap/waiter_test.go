package heap_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

var stock = execution.StoreID{Name: "stock", ID: "a/b"}

// call names the step of the scene's delivery as stores know it.
func (s *scene) call(step string) keyspace.CallKey {
	d := s.delivery
	return keyspace.CallKey{ID: string(d.ID), Incarnation: d.Incarnation, Run: d.Run, Step: step}
}

// register puts registrations at the store.
func (s *scene) register(t *testing.T, calls ...keyspace.CallKey) {
	t.Helper()
	var ops []etcd.Op
	for _, c := range calls {
		ops = append(ops, etcd.Put{Key: s.space.Waiter(keyspace.StoreKey(stock), c), Value: []byte("{}")})
	}
	if _, err := s.hook.Txn(t.Context(), &etcd.Txn{Then: ops}); err != nil {
		t.Fatal(err)
	}
}

// wantWaiters checks who is registered at the store.
func (s *scene) wantWaiters(t *testing.T, want ...keyspace.CallKey) {
	t.Helper()
	span := s.space.WaitersOf(keyspace.StoreKey(stock))
	res, _, err := s.hook.Get(t.Context(), etcd.Get{Key: span.Start, End: span.End})
	if err != nil {
		t.Fatal(err)
	}
	var got []keyspace.CallKey
	for _, kv := range res.KVs {
		k, err := s.space.Parse(kv.Key)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, k.Call)
	}
	if !slices.Equal(got, want) {
		t.Errorf("registered: %+v, want %+v", got, want)
	}
}

// A record of a wait tells where the step waits, to its writer, to a replay and to
// whoever writes it again; it leaves the registration alone.
func TestWaitTellsItsStore(t *testing.T) {
	s := newScene(t)
	s.register(t, s.call("k"))
	for i, w := range []execution.StepWrite{
		{Key: "k", Response: json.RawMessage(`{}`), Waiter: new(stock)},
		{Key: "k", Response: json.RawMessage(`{}`)}, // recorded already
	} {
		st, err := s.WriteStep(t.Context(), s.delivery.Lease, w)
		if err != nil || st.Done || st.Waiter == nil || *st.Waiter != stock {
			t.Fatalf("write %d: %+v, %v", i, st, err)
		}
	}
	steps, err := s.Read(t.Context(), s.delivery.Lease)
	if err != nil || len(steps) != 1 || steps[0].Waiter == nil || *steps[0].Waiter != stock {
		t.Fatalf("read: %+v, %v", steps, err)
	}
	s.wantWaiters(t, s.call("k"))
}

// The record of the answer takes the step's registration with it, and no other.
func TestAnswerDeletesTheRegistration(t *testing.T) {
	s := newScene(t)
	others := []keyspace.CallKey{s.call("k"), s.call("k"), s.call("k"), s.call("k/2")}
	others[0].Incarnation--
	others[1].Run++
	others[2].ID = "y"
	s.register(t, append(others, s.call("k"))...)
	st, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: "k", Attempt: 1, Done: true, Response: json.RawMessage(`1`), Waiter: new(stock)})
	if err != nil || !st.Done || st.Waiter != nil {
		t.Fatalf("write: %+v, %v", st, err)
	}
	if steps, err := s.Read(t.Context(), s.delivery.Lease); err != nil || len(steps) != 1 || steps[0].Waiter != nil {
		t.Fatalf("read: %+v, %v", steps, err)
	}
	s.wantWaiters(t, others[0], s.call("k/2"), others[1], others[2])
}

// A step that is not registered (any more) is recorded like any other.
func TestAnswerWithoutARegistration(t *testing.T) {
	s := newScene(t)
	w := execution.StepWrite{Key: "k", Done: true, Response: json.RawMessage(`1`), Waiter: new(stock)}
	if st, err := s.WriteStep(t.Context(), s.delivery.Lease, w); err != nil || string(st.Response) != `1` {
		t.Fatalf("write: %+v, %v", st, err)
	}
	s.wantWaiters(t)
}

// Whether the answer was recorded before or the lease is lost: a refused write changes
// nothing, registrations included.
func TestRefusedAnswerKeepsTheRegistration(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, s *scene) error
		want   error
	}{
		"recorded": {func(t *testing.T, s *scene) error {
			t.Helper()
			_, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: "k", Done: true, Response: json.RawMessage(`1`)})
			return err
		}, nil},
		"lost": {func(t *testing.T, s *scene) error {
			t.Helper()
			return s.executions.Fence(t.Context(), "x", "operator")
		}, execution.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			if err := c.before(t, s); err != nil {
				t.Fatal(err)
			}
			s.register(t, s.call("k"))
			st, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: "k", Done: true, Response: json.RawMessage(`2`), Waiter: new(stock)})
			if !errors.Is(err, c.want) || err == nil && string(st.Response) != `1` {
				t.Fatalf("write: %+v, %v", st, err)
			}
			s.wantWaiters(t, s.call("k"))
		})
	}
}

// The answer of etcd is lost: sent again, the write finds its own record, and the
// registration gone.
func TestLostAnswerOfAWriteThatDeletesARegistration(t *testing.T) {
	s := newScene(t)
	s.register(t, s.call("k"))
	s.hook.AfterTxn = func(*etcd.Txn, *etcd.TxnResult, error) (*etcd.TxnResult, error) {
		s.hook.AfterTxn = nil
		return nil, context.DeadlineExceeded
	}
	st, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: "k", Done: true, Response: json.RawMessage(`1`), Waiter: new(stock)})
	if err != nil || string(st.Response) != `1` {
		t.Fatalf("write: %+v, %v", st, err)
	}
	s.wantWaiters(t)
}

// The greatest run that a key has room for is the greatest that is accepted.
func TestRunsOfStepsFitTheirKeys(t *testing.T) {
	for run, ok := range map[int64]bool{0: true, keyspace.MaxCounter: true, keyspace.MaxCounter + 1: false} {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			if err := (execution.StepID{Execution: "x", Run: run, Step: "k"}).Validate(); (err == nil) != ok {
				t.Errorf("got %v", err)
			}
		})
	}
}
