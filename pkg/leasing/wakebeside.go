package leasing

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// A WakeBeside is what is done beside a wake, in its transaction.
type WakeBeside struct {
	// Do returns what is demanded and done for the incarnation of the execution; no key
	// of its own among it.
	Do func(incarnation int64) Beside
	// Met is told what Beside.Else has read where nothing was done, and says whether
	// there is nothing left to do: an earlier try has done it, or somebody else.
	Met func(read []etcd.Result) (bool, error)
}

// WakeBeside asks for a delivery of the execution that begins after this request, as
// [Client.RequestWake] does for a time that has come, and does something beside, both or
// neither. One that has yet to be delivered for the first time is delivered when it is
// due, and not earlier. met is what WakeBeside.Met has said, if that was true.
//
//	compare  what the caller demands, and as a requestWake does, also where the
//	         delivery is promised already
//	then     what the caller does, and as by a requestWake
//	keeps    I6, I8, I9
//
// An unknown id gives an [execution.ErrNotFound], an execution that has ended an
// [execution.ErrTerminal], unless it is met; then nothing was done. [fencing.ErrUnknown]
// says that it has ended, or was deleted, since a try that was not answered.
func (c *Client) WakeBeside(ctx context.Context, id execution.ID, w WakeBeside) (met bool, err error) {
	if err := id.Validate(); err != nil {
		return false, err
	}
	v, err := c.look(ctx, id)
	if err != nil {
		return false, fmt.Errorf("wake %q: %w", string(id), err)
	}
	met, err = c.wakeBeside(ctx, v, w, newNonce())
	if err != nil {
		return false, fmt.Errorf("wake %q: %w", string(id), err)
	}
	return met, nil
}

func (c *Client) wakeBeside(ctx context.Context, v view, w WakeBeside, nonce string) (met bool, err error) {
	incarnation, unanswered := v.created, false
	for {
		switch {
		case v.state == nil, v.created != incarnation:
			return false, gone(execution.ErrNotFound, unanswered)
		case v.state.Terminal():
			if met, err := c.metAtEnd(ctx, w, incarnation); met || err != nil {
				return met, err
			}
			return false, gone(execution.ErrTerminal, unanswered)
		}
		beside := w.Do(incarnation)
		txn := &etcd.Txn{}
		if !v.toStart() {
			txn, _ = c.wake(&v, c.now(), nonce)
		}
		txn.If = append(append(txn.If, etcd.ModIs(c.space.State(string(v.id)), v.rev), c.inEpoch()), beside.If...)
		txn.Then = append(txn.Then, beside.Then...)
		txn.Else = append(append(c.viewGets(v.id), etcd.Get{Key: c.space.Epoch()}), beside.Else...)
		res, again, err := fencing.Send(ctx, c.store, txn)
		if err != nil || res.Succeeded {
			return false, err
		}
		unanswered = unanswered || again
		c.sawEpoch(res.Results[viewOps])
		if met, err := w.Met(res.Results[viewOps+1:]); met || err != nil {
			return met, err
		}
		if v, err = parseView(v.id, res.Results); err != nil {
			return false, err
		}
	}
}

// toStart says whether the execution has yet to be delivered for the first time, at a
// time that it was given.
func (v *view) toStart() bool {
	return !v.state.Claimed && v.state.Claims == 0 && v.state.Due != 0
}

// metAtEnd asks whether what was to be done beside the wake of an execution that has
// ended was done before.
func (c *Client) metAtEnd(ctx context.Context, w WakeBeside, incarnation int64) (bool, error) {
	res, err := c.store.Txn(ctx, &etcd.Txn{Then: w.Do(incarnation).Else})
	if err != nil {
		return false, err
	}
	return w.Met(res.Results)
}

// gone is the error of an execution that is not there, or not any more. If a try was
// not answered, that one may have found it.
func gone(why error, unanswered bool) error {
	if unanswered {
		return fmt.Errorf("%w: it is gone, or has ended, since a try that was not answered", fencing.ErrUnknown)
	}
	return why
}
