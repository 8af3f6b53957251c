package leasing

import (
	"context"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// notice leaves a notice of the execution's end, in the transaction that ends it, if
// somebody waits for that: it obliges whoever sees it to wake them. Whoever registers
// compares the state as one that has not ended, so that nobody waits for an end that
// was before. (I9)
func (c *Client) notice(id execution.ID, s *record.State) *etcd.Txn {
	store := keyspace.Ending(string(id))
	waiters := c.space.WaitersOf(store)
	change := record.Ending(s.Incarnation)
	return &etcd.Txn{
		If:   []etcd.Compare{etcd.RangeEmpty(waiters.Start, waiters.End)},
		Else: []etcd.Op{etcd.Put{Key: c.space.Change(store, change.Version), Value: change.Encode()}},
	}
}

// tellEnd has those woken who wait for the end that a delivery has made, unless the
// transaction's own answer says that nobody does.
func (c *Client) tellEnd(ctx context.Context, id execution.ID, s *record.State, ans fencing.Answer) {
	noticed := func(r etcd.Result) bool { return r.Txn != nil && !r.Txn.Succeeded }
	if s.Terminal() && (ans.Revision == 0 || slices.ContainsFunc(ans.Rest, noticed)) {
		c.ended(ctx, id)
	}
}
