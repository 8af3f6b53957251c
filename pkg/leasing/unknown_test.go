package leasing_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// dropOne drops the answer of the next transaction that writes, after it was
// committed.
func (w *world) dropOne() *atomic.Int64 {
	var dropped atomic.Int64
	w.hook.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if err == nil && writes(txn) && dropped.CompareAndSwap(0, 1) {
			return nil, context.DeadlineExceeded
		}
		return res, err
	}
	return &dropped
}

func writes(txn *etcd.Txn) bool {
	for _, op := range txn.Then {
		switch op := op.(type) {
		case etcd.Put, etcd.Delete:
			return true
		case *etcd.Txn:
			if writes(op) {
				return true
			}
		}
	}
	return false
}

// A lost answer of a committed transaction is never reported as lost, and the call
// has its effect once.
func TestLostAnswers(t *testing.T) {
	far := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	tests := []struct {
		name    string
		claimed bool
		do      func(w *world, d execution.Delivery) error
		check   func(rec execution.Record) bool
	}{
		{"admit", false, func(w *world, _ execution.Delivery) error {
			adm, err := w.Admit(w.t.Context(), execution.AdmitRequest{ID: "new", Workflow: "w"})
			if adm.Existing {
				return errors.New("it says that it existed")
			}
			return err
		}, func(rec execution.Record) bool { return rec.Claims == 0 }},
		{"claim", false, func(w *world, _ execution.Delivery) error {
			d := w.claim("x")
			if d.Token != w.get("x").Token {
				return errors.New("another token than the current one")
			}
			return nil
		}, func(rec execution.Record) bool { return rec.Claims == 1 && rec.Status == execution.StatusRunning }},
		{"acknowledge", true, func(w *world, d execution.Delivery) error {
			return w.Acknowledge(w.t.Context(), d.Lease, completed(`1`))
		}, func(rec execution.Record) bool { return rec.Status == execution.StatusCompleted }},
		{"suspend", true, func(w *world, d execution.Delivery) error {
			return w.Acknowledge(w.t.Context(), d.Lease, execution.Outcome{Kind: execution.Suspended, Wake: far})
		}, func(rec execution.Record) bool { return rec.Status == execution.StatusSuspended && rec.Due.Equal(far) }},
		{"release", true, func(w *world, d execution.Delivery) error {
			return w.Release(w.t.Context(), d.Lease, "no")
		}, func(rec execution.Record) bool { return rec.UnacknowledgedDeliveries == 1 }},
		{"wake", true, func(w *world, d execution.Delivery) error {
			quiet, err := leasing.New(w.t.Context(), leasing.Config{Store: w.hook.Store, Space: w.space})
			if err := errors.Join(err, quiet.Acknowledge(w.t.Context(), d.Lease, suspended)); err != nil {
				return err
			}
			return w.RequestWake(w.t.Context(), "x", far)
		}, func(rec execution.Record) bool { return rec.Due.Equal(far) }},
		{"wake of a claimed one", true, func(w *world, _ execution.Delivery) error {
			return w.RequestWake(w.t.Context(), "x", far)
		}, func(rec execution.Record) bool { return rec.Due.Equal(far) }},
		{"cancel", true, func(w *world, _ execution.Delivery) error {
			return w.Cancel(w.t.Context(), "x", "")
		}, func(rec execution.Record) bool { return rec.Outcome.Cancelled() }},
		{"fence", true, func(w *world, _ execution.Delivery) error {
			return w.Fence(w.t.Context(), "x", "")
		}, func(rec execution.Record) bool { return rec.UnacknowledgedDeliveries == 1 }},
		{"renew", true, func(w *world, d execution.Delivery) error {
			w.expire("x")
			_, err := w.Renew(w.t.Context(), d.Lease, minute)
			return err
		}, func(rec execution.Record) bool { return rec.Status == execution.StatusRunning && rec.Claims == 1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, time.Hour)
			w.admit("x")
			var d execution.Delivery
			if tt.claimed {
				d = w.claim("x")
			}
			dropped := w.dropOne()
			if err := tt.do(w, d); err != nil {
				t.Fatal(err)
			}
			if dropped.Load() == 0 {
				t.Fatal("no answer was dropped")
			}
			id := execution.ID("x")
			if tt.name == "admit" {
				id = "new"
			}
			if rec := w.get(id); !tt.check(rec) {
				t.Fatalf("%+v", rec)
			}
		})
	}
}

// While etcd does not answer at all, a call says that its outcome is unknown, and
// not that the lease is lost.
func TestNoAnswerIsNotLost(t *testing.T) {
	w := newWorld(t, time.Hour)
	w.admit("x")
	d := w.claim("x")
	w.hook.AfterTxn = func(*etcd.Txn, *etcd.TxnResult, error) (*etcd.TxnResult, error) {
		return nil, errors.New("connection reset")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := w.Acknowledge(ctx, d.Lease, completed(`1`))
	if !errors.Is(err, fencing.ErrUnknown) || errors.Is(err, execution.ErrLost) {
		t.Fatalf("got %v", err)
	}
}

// A claim whose answer never came, and which nobody runs, is released by a sweep.
func TestGhostClaimIsSwept(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	swept := make(chan execution.Event, 1)
	c, err := leasing.New(t.Context(), leasing.Config{
		Store: w.hook, Space: w.space, Delay: leasing.DelayPolicy{Base: time.Millisecond},
		Observer: func(e execution.Event) {
			if e.Kind == execution.EventSwept {
				swept <- e
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := newHolder(t, c, leasing.HolderConfig{ScanInterval: 20 * time.Millisecond})
	if _, _, err := h.KeepAlive(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	w.hook.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if writes(txn) { // the claim: it is committed, and its caller goes away
			giveUp()
			return nil, context.Canceled
		}
		return res, err
	}
	if ds, _, err := h.Claim(ctx, 1); err == nil || len(ds) != 0 {
		t.Fatalf("claim: %v, %v", ds, err)
	}
	w.hook.AfterTxn = nil
	if rec := w.get("x"); rec.Status != execution.StatusRunning {
		t.Fatalf("the claim was not committed: %+v", rec)
	}
	watch(t, h, nil)
	if e := <-swept; e.ID != "x" {
		t.Fatalf("swept %+v", e)
	}
	if d := w.claim("x"); d.UnacknowledgedDeliveries != 1 {
		t.Fatalf("%+v", d)
	}
}
