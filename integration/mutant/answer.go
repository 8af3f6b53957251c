package mutant

import (
	"context"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
)

// repeatToken: a takeover leaves the state record as it is, so that the revision
// that fences is still that of the delivery before, and is handed out again.
func repeatToken(ctx context.Context, m *mutated, txn *etcd.Txn) (*etcd.TxnResult, error) {
	var repeated int64
	res, err := m.Store.Txn(ctx, m.rewrite(txn, among([]kind{takeover}, func(p *part) {
		put, ok := p.put(keyspace.KindLive)
		state, found := p.compared(keyspace.KindState)
		if !ok || !found {
			return // the outer one of a batch
		}
		live, err := record.DecodeLive(put.Value, 0)
		if err != nil {
			return
		}
		repeated, live.Token = state.Revision, state.Revision
		p.set(keyspace.KindLive, live.Encode())
		p.unput(keyspace.KindState)
	})))
	if err == nil && res.Succeeded && repeated != 0 {
		res.Revision = repeated
	}
	return res, err
}

// sendTwice sends a transaction that was not answered again and passes on what the
// second try came to, as if it were the first.
func sendTwice(ctx context.Context, m *mutated, txn *etcd.Txn) (*etcd.TxnResult, error) {
	res, err := m.Store.Txn(ctx, txn)
	if err != nil && !etcd.IsDefinite(err) && ctx.Err() == nil {
		return m.Store.Txn(ctx, txn)
	}
	return res, err
}

// hideLiving hides, from those who scan the live records, the claims of processes
// that are there: who sweeps finds none of its own, who reaps finds all that it may.
func hideLiving(ctx context.Context, m *mutated, get etcd.Get) (etcd.Result, int64, error) {
	res, rev, err := m.Store.Get(ctx, get)
	if err != nil || res.More || get.End != m.space.Lives().End {
		return res, rev, err
	}
	span := m.space.Procs()
	procs, _, err := m.Store.Get(ctx, etcd.Get{Key: span.Start, End: span.End, KeysOnly: true})
	if err != nil {
		return etcd.Result{}, 0, err
	}
	res.KVs = slices.DeleteFunc(res.KVs, func(kv etcd.KV) bool {
		live, err := record.DecodeLive(kv.Value, kv.Modified)
		return err == nil && slices.ContainsFunc(procs.KVs, func(p etcd.KV) bool { return p.Key == m.space.Proc(live.Proc) })
	})
	return res, rev, nil
}

// wakeByProcess: where the process of a claimed execution is gone, a wake is
// written as that of an unclaimed one, into the state.
func wakeByProcess(ctx context.Context, m *mutated, txn *etcd.Txn) (*etcd.TxnResult, error) {
	p := newPart(m.space, txn)
	put, ok := p.put(keyspace.KindWake)
	if !ok {
		return m.Store.Txn(ctx, txn)
	}
	k, err := m.space.Parse(put.Key)
	if err != nil {
		return nil, err
	}
	state, gone, err := m.abandoned(ctx, k.ID)
	switch {
	case err != nil:
		return nil, err
	case !gone:
		return m.Store.Txn(ctx, txn)
	}
	asked, err := record.DecodeWake(put.Value)
	if err != nil {
		return nil, err
	}
	return m.Store.Txn(ctx, m.rewrite(txn, func(p *part) {
		state.Claimed, state.Due = false, asked.At
		p.unput(keyspace.KindWake)
		p.txn.Then = append(p.txn.Then, etcd.Put{Key: m.space.State(k.ID), Value: state.Encode()})
		p.state = state
		p.restate()
	}))
}

// abandoned returns the state of an execution if it is claimed and its process gone.
func (m *mutated) abandoned(ctx context.Context, id string) (state *record.State, gone bool, err error) {
	res, err := m.Store.Txn(ctx, &etcd.Txn{Then: []etcd.Op{etcd.Get{Key: m.space.State(id)}, etcd.Get{Key: m.space.Live(id)}}})
	if err != nil {
		return nil, false, err
	}
	kv, _ := res.Results[0].One()
	held, claimed := res.Results[1].One()
	if !claimed {
		return nil, false, nil
	}
	live, err := record.DecodeLive(held.Value, held.Modified)
	if err != nil {
		return nil, false, err
	}
	proc, _, err := m.Store.Get(ctx, etcd.Get{Key: m.space.Proc(live.Proc), KeysOnly: true})
	if err != nil || len(proc.KVs) > 0 {
		return nil, false, err
	}
	state, err = record.DecodeState(kv.Value)
	return state, err == nil, err
}
