package memetcd

import (
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// A path is a transaction whose compares have been evaluated.
type path struct {
	succeeded bool
	ops       []etcd.Op // of the branch that is taken
	nested    []*path   // of the transactions among them, in order
}

// txn is Txn of every client.
func (s *Server) txn(txn *etcd.Txn) (*etcd.TxnResult, error) {
	if err := s.cfg.check(txn); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginLocked(); err != nil {
		return nil, err
	}
	if puts(txn) {
		if err := s.spaceLocked(); err != nil {
			return nil, err
		}
	}
	p := s.history.decide(txn)
	if err := s.checkLocked(p); err != nil {
		return nil, err
	}
	d := &draft{history: &s.history, lessor: &s.lessor}
	result := d.run(p)
	s.commitLocked(d)
	stamp(result, s.history.revision)
	if puts(txn) {
		if err := s.usedLocked(); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// decide evaluates all compares on the state before the transaction.
func (h *history) decide(txn *etcd.Txn) *path {
	p := &path{succeeded: true, ops: txn.Then}
	for _, c := range txn.If {
		if !h.holds(c) {
			p.succeeded, p.ops = false, txn.Else
			break
		}
	}
	for _, o := range p.ops {
		if nested, ok := o.(*etcd.Txn); ok {
			p.nested = append(p.nested, h.decide(nested))
		}
	}
	return p
}

// holds says whether a compare holds: of every key that is there in its range, or,
// where there is none, of an absent key.
func (h *history) holds(c etcd.Compare) bool {
	empty := true
	for _, name := range h.names(span{c.Key, c.End}) {
		kv, ok := h.at(name, h.revision)
		if !ok {
			continue
		}
		if empty = false; !holdsOf(c, kv) {
			return false
		}
	}
	// An absent key has revisions 0, and no value: it differs from none either.
	return !empty || c.Target != etcd.Value && holdsOf(c, etcd.KV{})
}

// holdsOf says whether a compare holds of one key.
func holdsOf(c etcd.Compare, kv etcd.KV) bool {
	var equal bool
	switch c.Target {
	case etcd.ModRevision:
		equal = kv.Modified == c.Revision
	case etcd.CreateRevision:
		equal = kv.Created == c.Revision
	case etcd.Value:
		equal = string(kv.Value) == c.Value
	}
	return equal != c.Not
}

// checkLocked refuses what can't be done on the state: one operation of the taken
// branches that can't fails them all.
func (s *Server) checkLocked(p *path) error {
	nested := p.nested
	for _, o := range p.ops {
		var err error
		switch o := o.(type) {
		case etcd.Get:
			if o.Revision != 0 {
				err = s.history.readable(o.Revision)
			}
		case etcd.Put:
			if !s.lessor.has(o.Lease) {
				err = fmt.Errorf("put of key %q: %w", o.Key, etcd.ErrLeaseNotFound)
			}
		case *etcd.Txn:
			err, nested = s.checkLocked(nested[0]), nested[1:]
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// run runs the taken branches, in order. A read sees what was written before it,
// unless it asks for an earlier revision.
func (d *draft) run(p *path) *etcd.TxnResult {
	result := &etcd.TxnResult{Succeeded: p.succeeded, Results: make([]etcd.Result, len(p.ops))}
	nested := p.nested
	for i, o := range p.ops {
		switch o := o.(type) {
		case etcd.Put:
			d.put(o)
		case etcd.Delete:
			d.delete(span{o.Key, o.End})
		case etcd.Get:
			at := o.Revision
			if at <= 0 {
				at = d.revision()
			}
			result.Results[i] = d.history.read(o, at)
		case *etcd.Txn:
			result.Results[i].Txn, nested = d.run(nested[0]), nested[1:]
		}
	}
	return result
}

// stamp notes the revision, which is one for the whole transaction.
func stamp(result *etcd.TxnResult, revision int64) {
	result.Revision = revision
	for _, r := range result.Results {
		if r.Txn != nil {
			stamp(r.Txn, revision)
		}
	}
}
