package mutant

import (
	"context"
	"strings"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
)

// writeSteps writes each step under a key without the execution's incarnation: an
// id that is admitted again shares its steps with the older one.
func writeSteps(ctx context.Context, m *mutated, txn *etcd.Txn) (*etcd.TxnResult, error) {
	return m.Store.Txn(ctx, m.rewrite(txn, among([]kind{writeStep}, func(p *part) {
		for i, c := range p.txn.If {
			p.txn.If[i].Key = m.ageless(c.Key)
		}
		for i, op := range p.txn.Then {
			if put, ok := op.(etcd.Put); ok {
				put.Key = m.ageless(put.Key)
				p.txn.Then[i] = put
			}
		}
		for i, op := range p.txn.Else {
			if get, ok := op.(etcd.Get); ok {
				get.Key = m.ageless(get.Key)
				p.txn.Else[i] = get
			}
		}
	})))
}

// readSteps reads the steps of a run from where writeSteps writes them.
func readSteps(ctx context.Context, m *mutated, get etcd.Get) (etcd.Result, int64, error) {
	step := m.space.Step(keyspace.Step{ID: "x", Key: "x"})
	suffix := strings.TrimPrefix(step, m.space.Run("x", 0, 0).Start)
	if k, err := m.space.Parse(get.Key + suffix); err == nil && k.Kind == keyspace.KindStep {
		span := m.space.Run(k.ID, 0, k.Step.Run)
		get.Key, get.End = span.Start, span.End
	}
	return m.Store.Get(ctx, get)
}

// ageless returns a step's key without the incarnation, and any other as it is.
func (m *mutated) ageless(key string) string {
	k, err := m.space.Parse(key)
	if err != nil || k.Kind != keyspace.KindStep {
		return key
	}
	k.Step.Incarnation = 0
	return m.space.Step(k.Step)
}
