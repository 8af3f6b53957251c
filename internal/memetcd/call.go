package memetcd

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// An Operation is a kind of call.
type Operation string

// The operations. Watch is one delivery of a watch: a batch, or the error that ends
// it.
const (
	Txn       Operation = "txn"
	Get       Operation = "get"
	Grant     Operation = "grant"
	KeepAlive Operation = "keepalive"
	Revoke    Operation = "revoke"
	Watch     Operation = "watch"
)

// A Phase says on which side of its effect a call is.
type Phase string

// The phases: before the call takes effect, and after it has.
const (
	Before Phase = "before"
	After  Phase = "after"
)

// A Call is a call of a client, as its gate sees it. Nobody changes what it refers
// to.
type Call struct {
	Client    string
	Operation Operation
	Phase     Phase

	Txn      *etcd.Txn     // of Txn
	Get      etcd.Get      // of Get
	TTL      time.Duration // of Grant, as asked for; after it and KeepAlive, as granted
	Lease    etcd.LeaseID  // of KeepAlive and Revoke; after a Grant, the new one
	Key, End string        // of Watch: the range

	// Revision is the first one that a Watch would deliver, 0 for an error; after
	// a call it is the one that it returns, if any.
	Revision int64

	Result *etcd.TxnResult // after Txn
	Read   etcd.Result     // after Get
	Batch  etcd.Batch      // after Watch
	Err    error           // after a call that was refused

	// Gone closes when the caller waits no more. Its call may take effect all the
	// same, like one that is on its way.
	Gone <-chan struct{}
}

// A Gate is called twice for each call, before it takes effect and after. It may
// block, in a goroutine of the call's own and with no lock held. An error before
// keeps the call from taking effect, and after it takes the place of the answer; of
// a watch, it is the reason that it breaks with. What an error says about the
// outcome is the gate's business: context.DeadlineExceeded is a lost answer.
//
// ctx ends when the server is closed and, of a Watch, with the watch. The gate must
// return then, and should return nil after a call whose caller is gone when it
// wants that call to take effect, or an error when it does not.
type Gate func(ctx context.Context, call Call) error

// String describes the call on one line, for people.
func (c Call) String() string {
	var what string
	switch c.Operation {
	case Txn:
		what = describe(c.Txn)
	case Get:
		what = describeOp(c.Get)
	case Grant:
		what = fmt.Sprintf("grant(%v)", c.TTL)
	case KeepAlive, Revoke:
		what = fmt.Sprintf("%s(%d)", c.Operation, c.Lease)
	case Watch:
		what = fmt.Sprintf("watch%s from %d", span{c.Key, c.End}, c.Revision)
	}
	if c.Phase == After {
		what += ": " + c.answer()
	}
	if c.Client == "" {
		return what
	}
	return c.Client + " " + what
}

// answer describes what the call returns.
func (c Call) answer() string {
	switch {
	case c.Err != nil:
		return c.Err.Error()
	case c.Operation == Txn:
		return describeResult(c.Result)
	case c.Operation == Get:
		return fmt.Sprintf("%s at %d", describeRead(c.Read), c.Revision)
	case c.Operation == Grant:
		return fmt.Sprintf("etcd lease %d", c.Lease)
	case c.Operation == Watch:
		return describeBatch(c.Batch)
	}
	return "done"
}
