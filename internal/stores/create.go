package stores

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Create returns the store, and makes it of the initial state if it does not exist:
// then its version is 0. (RFC 005, getOrCreate.) Of several creators one wins, and
// all are given its store. initial is called only if the store is absent; it may be
// nil where that is an error, a [*NotFoundError].
func (c *Client) Create(ctx context.Context, key execution.StoreID, initial func() ([]byte, error)) (Snapshot, error) {
	var out Snapshot
	d, err := c.mutate(ctx, mutation{
		subject: subject{key: key}, op: "creation", identity: true,
		decide: func(l *look) (*plan, error) {
			if l.rec != nil {
				out = snapshot(l.rec)
				return nil, nil //nolint:nilnil // nothing is to be done
			}
			if initial == nil {
				return nil, &NotFoundError{key}
			}
			state, err := initial()
			if err == nil {
				err = validateDocument("state", state)
			}
			if err != nil {
				return nil, err
			}
			now := time.Now().UnixMilli()
			return &plan{next: &record.Store{Created: now, Updated: now, State: slices.Clone(state)}}, nil
		},
	})
	switch {
	case err != nil:
		return Snapshot{}, err
	case d.plan != nil:
		return snapshot(d.plan.next), nil
	}
	return out, nil
}

// A creating store makes another instance with each try of a creation. The same one
// must not be tried twice: the first try may have been applied, without an answer, and
// the store deleted since, and then the instance would come back to life. (That the
// store is absent is no revision, which could not come back.)
type creating struct {
	etcd.Store

	try func() *etcd.Txn
}

// Txn sends the next try in place of the given one.
func (s *creating) Txn(ctx context.Context, _ *etcd.Txn) (*etcd.TxnResult, error) {
	return s.Store.Txn(ctx, s.try())
}
