package integration_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

// A doomed worker is one that dies at a certain transaction: nothing that it does
// afterwards reaches etcd, and its lease runs out.
type doomed struct {
	hook *testetcd.Hook
	dead atomic.Bool
	died chan struct{}
	stop func() // drains it, once
}

// A fate says at which transaction a doomed worker dies, and whether that is applied.
type fate struct {
	at      func(*etcd.Txn) bool
	applied bool
}

// immortal is the fate of a worker to which nothing happens.
var immortal = fate{}

// startWorker starts a worker in this process with a client of its own. Its end is the
// test's.
func startWorker(t *testing.T, h *harness, f fate, parts ...holdfast.WorkerOption) *doomed {
	t.Helper()
	m := &doomed{hook: &testetcd.Hook{Store: h.store}, died: make(chan struct{})}
	m.hook.BeforeTxn = func(txn *etcd.Txn) error {
		switch {
		case m.dead.Load():
			return etcd.ErrClosed
		case f.at == nil || f.applied || !f.at(txn) || !m.dead.CompareAndSwap(false, true):
			return nil
		}
		close(m.died)
		return etcd.ErrClosed
	}
	m.hook.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if f.at == nil || !f.applied || err != nil || !res.Succeeded || !f.at(txn) || !m.dead.CompareAndSwap(false, true) {
			return res, err
		}
		close(m.died)
		return nil, etcd.ErrClosed
	}
	m.hook.BeforeGet = func(etcd.Get) error { return m.unlessDead() }
	m.hook.BeforeKeepAlive = func(etcd.LeaseID) error { return m.unlessDead() }
	c, err := holdfast.Open(t.Context(), holdfast.Prefix(keyPrefix), holdfast.Namespace(h.namespace),
		holdfast.RedeliveryDelay(delayBase, delayBase), holdfast.Internal(door.Config{Store: m.hook}))
	if err != nil {
		t.Fatal(err)
	}
	w, err := holdfast.NewWorker(c, append(parts, holdfast.Lease(fleetLease, fleetRenew), holdfast.DrainTimeout(time.Second))...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Run(ctx) // a dead one can't say how it ended
	}()
	m.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		_ = c.Close()
	})
	t.Cleanup(m.stop)
	return m
}

func (m *doomed) unlessDead() error {
	if m.dead.Load() {
		return etcd.ErrClosed
	}
	return nil
}

// puts says whether the transaction may put a key that begins with the span's start.
func puts(span keyspace.Span) func(*etcd.Txn) bool {
	var in func(ops []etcd.Op) bool
	in = func(ops []etcd.Op) bool {
		return slices.ContainsFunc(ops, func(op etcd.Op) bool {
			switch op := op.(type) {
			case etcd.Put:
				return strings.HasPrefix(op.Key, span.Start)
			case *etcd.Txn:
				return in(op.Then) || in(op.Else)
			}
			return false
		})
	}
	return func(txn *etcd.Txn) bool { return in(txn.Then) }
}

// nth is the n-th transaction, from 1 on, that is such a one.
func nth(n int64, such func(*etcd.Txn) bool) func(*etcd.Txn) bool {
	var seen atomic.Int64
	return func(txn *etcd.Txn) bool { return such(txn) && seen.Add(1) == n }
}
