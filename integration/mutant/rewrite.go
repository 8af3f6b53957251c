package mutant

import (
	"context"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// rewriting makes the fault that changes transactions before they are sent.
func rewriting(changes ...func(*part)) fault {
	return fault{txn: func(ctx context.Context, m *mutated, txn *etcd.Txn) (*etcd.TxnResult, error) {
		return m.Store.Txn(ctx, m.rewrite(txn, changes...))
	}}
}

// among restricts a change to transactions of some kinds.
func among(kinds []kind, change func(*part)) func(*part) {
	return func(p *part) {
		if p.is(kinds...) {
			change(p)
		}
	}
}

// uncompared leaves out what some transactions demand of a key.
func uncompared(key keyspace.Kind, in ...kind) func(*part) {
	return among(in, func(p *part) {
		p.txn.If = slices.DeleteFunc(p.txn.If, func(c etcd.Compare) bool { return p.of(c.Key, key) })
	})
}

// undeleted leaves keys that some transactions delete.
func undeleted(key keyspace.Kind, in ...kind) func(*part) {
	return among(in, func(p *part) { p.drop(p.deletes(key)) })
}

// unwritten leaves out keys that some transactions put.
func unwritten(key keyspace.Kind, in ...kind) func(*part) {
	return among(in, func(p *part) { p.unput(key) })
}

// restated changes the state that some transactions put, and the due entry with it;
// the state of an execution that has a history.
func restated(change func(*record.State), in ...kind) func(*part) {
	return among(in, func(p *part) {
		if p.state != nil && p.state.Last() != nil { // the outer one of a batch puts none
			change(p.state)
			p.restate()
		}
	})
}

// before counts the unacknowledged deliveries before the last one, as far back as
// the history reaches.
func before(s *record.State) (count int64) {
	for _, d := range slices.Backward(s.Deliveries[:len(s.Deliveries)-1]) {
		switch d.How {
		case execution.HowReleased, execution.HowExpired, execution.HowFenced:
			count++
		default:
			return count
		}
	}
	return count
}
