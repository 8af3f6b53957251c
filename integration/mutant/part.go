package mutant

import (
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A kind says what a transaction is for, as its keys and records show.
type kind string

const (
	admit         kind = "admit"
	claim         kind = "claim"    // of an unclaimed execution
	takeover      kind = "takeover" // of one that was reaped
	writeStep     kind = "writeStep"
	confirm       kind = "confirm"   // that a token is current; writes nothing
	renew         kind = "renew"     // one lease, onto another process
	renewAll      kind = "renew all" // the leases of a process, onto another
	release       kind = "release"
	acknowledge   kind = "acknowledge"
	reap          kind = "reap"
	wakeClaimed   kind = "wake of a claimed execution"
	wakeUnclaimed kind = "wake of an unclaimed execution"
	fence         kind = "fence"  // by an operator
	cancel        kind = "cancel" // by an operator
	other         kind = "other"
)

// fenced are the transactions that a lease's holder may make while its token is
// current.
func fenced() []kind { return []kind{writeStep, confirm, renew, renewAll, release, acknowledge} }

// A part is one transaction of the engine, or one that is nested in another. The
// outer one of a batch is of its members' kind.
type part struct {
	space keyspace.Space
	txn   *etcd.Txn
	kind  kind
	state *record.State // that it puts; nil: none
}

func newPart(space keyspace.Space, txn *etcd.Txn) *part {
	p := &part{space: space, txn: txn}
	if put, ok := p.put(keyspace.KindState); ok {
		p.state, _ = record.DecodeState(put.Value) // the engine's own
	}
	p.kind = p.classify()
	return p
}

func (p *part) classify() kind {
	if len(p.txn.Then) > 0 {
		if nested, ok := p.txn.Then[0].(*etcd.Txn); ok {
			return newPart(p.space, nested).kind
		}
	}
	switch live, holds := p.put(keyspace.KindLive); {
	case p.has(keyspace.KindSpec):
		return admit
	case p.has(keyspace.KindStep):
		return writeStep
	case p.has(keyspace.KindWake):
		return wakeClaimed
	case holds && p.state != nil:
		if c, ok := p.compared(keyspace.KindLive); ok && c.Revision != 0 {
			return takeover
		}
		return claim
	case holds:
		if l, err := record.DecodeLive(live.Value, 0); err == nil && l.Reaped != 0 {
			return reap
		}
		if _, ok := p.compared(keyspace.KindEpoch); !ok {
			return renewAll // once for a batch
		}
		return renew
	case p.state != nil:
		return p.ending()
	}
	if _, ok := p.compared(keyspace.KindState); ok {
		return confirm
	}
	return other
}

// ending tells apart those who write the state of an execution that is not claimed
// afterwards. A holder that knows nothing of its claim writes a state without a
// history, which only the fence keeps from being stored.
func (p *part) ending() kind {
	s := p.state
	last := s.Last()
	switch {
	case s.Error != nil && s.Error.Code == execution.CodeCancelled:
		return cancel
	case !slices.ContainsFunc(p.txn.Then, p.deletes(keyspace.KindLive)):
		return wakeUnclaimed
	case last != nil && last.How == execution.HowFenced:
		return fence
	case s.Unacked > 0:
		return release
	}
	return acknowledge
}

func (p *part) is(kinds ...kind) bool { return slices.Contains(kinds, p.kind) }

// of says whether a key is of the kind.
func (p *part) of(key string, kind keyspace.Kind) bool {
	k, err := p.space.Parse(key)
	return err == nil && k.Kind == kind
}

// put returns what the part puts at a key of the kind.
func (p *part) put(kind keyspace.Kind) (etcd.Put, bool) {
	for _, op := range p.txn.Then {
		if put, ok := op.(etcd.Put); ok && p.of(put.Key, kind) {
			return put, true
		}
	}
	return etcd.Put{}, false
}

func (p *part) has(kind keyspace.Kind) bool {
	_, ok := p.put(kind)
	return ok
}

// compared returns what the part demands of a key of the kind.
func (p *part) compared(kind keyspace.Kind) (etcd.Compare, bool) {
	i := slices.IndexFunc(p.txn.If, func(c etcd.Compare) bool { return p.of(c.Key, kind) })
	if i < 0 {
		return etcd.Compare{}, false
	}
	return p.txn.If[i], true
}

// id is that of the execution whose state the part puts.
func (p *part) id() string {
	put, _ := p.put(keyspace.KindState)
	k, _ := p.space.Parse(put.Key) // it is one
	return k.ID
}

// set puts another value at the only key of the kind that the part puts.
func (p *part) set(kind keyspace.Kind, value []byte) {
	for i, op := range p.txn.Then {
		if put, ok := op.(etcd.Put); ok && p.of(put.Key, kind) {
			put.Value = value
			p.txn.Then[i] = put
		}
	}
}

// drop leaves out the operations of which it is true.
func (p *part) drop(which func(etcd.Op) bool) {
	p.txn.Then = slices.DeleteFunc(p.txn.Then, which)
}

// unput leaves out the puts of the kind.
func (p *part) unput(kind keyspace.Kind) {
	p.drop(p.puts(kind))
}

// deletes returns what says whether an operation deletes a key of the kind.
func (p *part) deletes(kind keyspace.Kind) func(etcd.Op) bool {
	return func(op etcd.Op) bool {
		del, ok := op.(etcd.Delete)
		return ok && p.of(del.Key, kind)
	}
}

// puts returns what says whether an operation puts a key of the kind.
func (p *part) puts(kind keyspace.Kind) func(etcd.Op) bool {
	return func(op etcd.Op) bool {
		put, ok := op.(etcd.Put)
		return ok && p.of(put.Key, kind)
	}
}

// restate puts the part's state as it is now, and moves the due entry to where
// that state wants it, so that the two agree.
func (p *part) restate() {
	s, id := p.state, p.id()
	p.set(keyspace.KindState, s.Encode())
	p.unput(keyspace.KindDue)
	if s.Claimed || s.Terminal() || s.Due == 0 {
		return
	}
	key := p.space.Due(keyspace.Due{
		Queue: s.Queue, Priority: keyspace.DefaultPriority, At: time.UnixMilli(max(s.Due, s.NotBefore)), ID: id,
	})
	p.drop(func(op etcd.Op) bool { // etcd refuses to put and delete one key
		del, ok := op.(etcd.Delete)
		return ok && del.Key == key
	})
	due := record.Due{StateRevision: record.Own}
	p.txn.Then = append(p.txn.Then, etcd.Put{Key: key, Value: due.Encode(s)})
}
