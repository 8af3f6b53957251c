package leasing

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// RequestWake asks for a delivery of the execution that begins at or after the
// time, and not before this request; a time in the past means now. Several pending
// wakes collapse to the earliest. It is unfenced: anybody may ask, and a wake too
// many costs one delivery that replay absorbs. An unknown id gives an
// [execution.ErrNotFound]; of a terminal execution nothing is changed. (RFC 001,
// requestWake.)
//
//	claimed    compare state and wake as read; then wake = the earlier one
//	unclaimed  compare state as read; then state and due entry at the earlier
//	           time, but not before not-before
//	keeps      I6, I8, I9
//
// Claimed is what the state says, whether or not the holder's process lives: a
// write of the state would fence a holder that merely was slow.
func (c *Client) RequestWake(ctx context.Context, id execution.ID, at time.Time) error {
	nonce := newNonce()
	return c.revise(ctx, "request a wake of", id, nonce, func(v *view) (*etcd.Txn, bool) {
		if v.state.Terminal() {
			return nil, false
		}
		return c.wake(v, at, nonce)
	})
}

// wake returns the transaction that asks for a delivery of an execution that has not
// ended, but for the compare of the state. Where the one that is promised already will
// do, needed is false, and the transaction just demands that it still is.
func (c *Client) wake(v *view, at time.Time, nonce string) (txn *etcd.Txn, needed bool) {
	ms := millis(later(at, c.now()))
	if v.state.Claimed {
		key := c.space.Wake(string(v.id))
		txn = &etcd.Txn{If: []etcd.Compare{etcd.ModIs(key, v.wakeRev)}}
		if v.wake != nil && v.wake.At <= ms {
			return txn, false
		}
		wake := record.Wake{At: ms}
		if v.wake != nil {
			wake.Extra = v.wake.Extra
		}
		txn.Then = []etcd.Op{etcd.Put{Key: key, Value: wake.Encode()}}
		return txn, true
	}
	if v.state.Due != 0 && max(v.state.Due, v.state.NotBefore) <= max(ms, v.state.NotBefore) {
		return &etcd.Txn{}, false
	}
	next := v.state.Clone()
	next.Due, next.Nonce = ms, nonce
	return &etcd.Txn{Then: append([]etcd.Op{etcd.Put{Key: c.space.State(string(v.id)), Value: next.Encode()}}, c.entry(v, next)...)}, true
}
