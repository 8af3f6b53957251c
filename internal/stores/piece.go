package stores

import (
	"context"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// The bounds of a piece. Each of its transactions takes one operation of etcd's 128, and
// at most two more are inside of it. Etcd takes 1.5 MiB in a request; a transaction
// alone has at most an event, and names.
const (
	pieceTxns  = 40
	pieceBytes = 1 << 20
)

// A piece collects small transactions, each with its own compare, into one: those
// whose compare fails change nothing and hinder no other. The zero piece of a client is
// empty.
type piece struct {
	client *Client
	txns   []etcd.Op
	bytes  int
}

// add adds a transaction, before which what is there is sent if it gets too large.
func (p *piece) add(ctx context.Context, compare etcd.Compare, ops ...etcd.Op) error {
	txn := &etcd.Txn{If: []etcd.Compare{compare}, Then: ops}
	n := weight(txn)
	if len(p.txns) == pieceTxns || p.bytes+n > pieceBytes {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.txns = append(p.txns, txn)
	p.bytes += n
	return nil
}

// flush sends what is there. Sent twice, it does no more than once: the compares name
// revisions, which do not come back.
func (p *piece) flush(ctx context.Context) error {
	if len(p.txns) == 0 {
		return nil
	}
	_, _, err := fencing.Send(ctx, p.client.cfg.Store, &etcd.Txn{Then: p.txns})
	p.txns, p.bytes = nil, 0
	return err
}

// weight is about how many bytes a transaction takes in a request.
func weight(txn *etcd.Txn) int {
	const overhead = 32
	n := overhead
	for _, c := range txn.If {
		n += overhead + len(c.Key)
	}
	for _, op := range txn.Then {
		n += overhead
		switch op := op.(type) {
		case etcd.Put:
			n += len(op.Key) + len(op.Value)
		case etcd.Delete:
			n += len(op.Key)
		}
	}
	return n
}
