// Package mutant plants faults between the engine and etcd, to test the tests: each
// makes the engine look as if one compare, one write or one rule of the protocol
// had been forgotten, and some named test must fail of it.
//
// The engine itself has no switch for any of this. A fault is a store that rewrites
// the engine's transactions as they pass, answers for etcd, or hides what it holds.
// It reads what a transaction is about from the keys and the records in it, like
// the audit, and shares none of the engine's decisions.
package mutant

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
)

// Wrap returns a store through which an engine of the namespace has the named
// fault. It panics if no fault has the name.
func Wrap(name string, store etcd.Store, space keyspace.Space) etcd.Store {
	f, ok := faults()[name]
	if !ok {
		panic(fmt.Sprintf("mutant: no fault is named %q; there are %q", name, Names()))
	}
	return &mutated{store, space, f}
}

// Names lists the faults, sorted.
func Names() []string { return slices.Sorted(maps.Keys(faults())) }

// A fault replaces transactions, reads or both. Nil functions let them pass.
type fault struct {
	txn func(ctx context.Context, m *mutated, txn *etcd.Txn) (*etcd.TxnResult, error)
	get func(ctx context.Context, m *mutated, get etcd.Get) (etcd.Result, int64, error)
}

// A mutated store has a fault; what it embeds has none. Etcd leases and watches
// pass as they are.
type mutated struct {
	etcd.Store

	space keyspace.Space
	fault fault
}

// Txn runs the transaction as the fault has it.
func (m *mutated) Txn(ctx context.Context, txn *etcd.Txn) (*etcd.TxnResult, error) {
	if m.fault.txn == nil {
		return m.Store.Txn(ctx, txn)
	}
	return m.fault.txn(ctx, m, txn)
}

// Get reads as the fault has it.
func (m *mutated) Get(ctx context.Context, get etcd.Get) (etcd.Result, int64, error) {
	if m.fault.get == nil {
		return m.Store.Get(ctx, get)
	}
	return m.fault.get(ctx, m, get)
}

// rewrite returns a changed copy of the transaction, the nested ones changed too.
// The engine keeps its own, and sends it again if an answer is lost.
func (m *mutated) rewrite(txn *etcd.Txn, changes ...func(*part)) *etcd.Txn {
	c := &etcd.Txn{If: slices.Clone(txn.If), Then: slices.Clone(txn.Then), Else: slices.Clone(txn.Else)}
	p := newPart(m.space, c)
	for i, op := range c.Then {
		if nested, ok := op.(*etcd.Txn); ok {
			c.Then[i] = m.rewrite(nested, changes...)
		}
	}
	for _, change := range changes {
		change(p)
	}
	return c
}
