package fencing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Guard returns the compares of a fenced write: the state record is as the claim
// wrote it, in the epoch of the claim.
func Guard(space keyspace.Space, lease execution.Lease) []etcd.Compare {
	return []etcd.Compare{
		etcd.ModIs(space.State(string(lease.ID)), int64(lease.Token)),
		etcd.ValueIs(space.Epoch(), lease.Epoch),
	}
}

// A Call is one fenced write of a lease's holder.
type Call struct {
	Store     etcd.Store
	Space     keyspace.Space
	Observer  execution.Observer
	Lease     execution.Lease
	Operation string // as in LostError
	// Nonce is what the write puts into the state record; empty for a write that
	// leaves the state alone.
	Nonce string
}

// An Answer is what became of a fenced write.
type Answer struct {
	// Applied: the write was made, by this try or an earlier one. Revision is that
	// of the transaction, or 0 where an earlier try made it.
	Applied  bool
	Revision int64
	// Lost is set when the token is not current.
	Lost *execution.LostError
	// Again: an earlier try was not answered.
	Again bool
	// State is the record as the refusal saw it, if there was one. Where Lost is nil
	// the token is current, and another compare than the guard's has failed.
	State *record.State
	// Rest holds the results of the caller's operations: of then or of otherwise.
	Rest []etcd.Result
}

// Do runs one transaction: the guard and the given compares, then the operations
// of either branch. The refusing branch also reads the state and the epoch, so
// that a refusal explains itself without another request. While etcd is out of space
// it waits: what the holder has done could not be recorded elsewhere either. An
// error says that the outcome is unknown or that etcd refused the request itself.
func (c Call) Do(ctx context.Context, compares []etcd.Compare, then, otherwise []etcd.Op) (Answer, error) {
	id := string(c.Lease.ID)
	txn := &etcd.Txn{
		If:   append(Guard(c.Space, c.Lease), compares...),
		Then: then,
		Else: append([]etcd.Op{etcd.Get{Key: c.Space.State(id)}, etcd.Get{Key: c.Space.Epoch()}}, otherwise...),
	}
	res, again, err := c.send(ctx, txn)
	if err != nil {
		return Answer{Again: again}, fmt.Errorf("%s %q: %w", c.Operation, id, err)
	}
	if res.Succeeded {
		return Answer{Applied: true, Revision: res.Revision, Again: again, Rest: res.Results}, nil
	}
	ans := Answer{Again: again, Rest: res.Results[2:]}
	return ans, c.explain(&ans, res.Results[0], res.Results[1])
}

// send is Send, again and again while etcd is out of space.
func (c Call) send(ctx context.Context, txn *etcd.Txn) (res *etcd.TxnResult, again bool, err error) {
	for pause := maxPause; ; pause = min(2*pause, maxSpacePause) {
		res, unanswered, err := Send(ctx, c.Store, txn)
		again = again || unanswered
		if !errors.Is(err, etcd.ErrNoSpace) {
			return res, again, err
		}
		select {
		case <-ctx.Done():
			return nil, again, err
		case <-time.After(pause):
		}
	}
}

// explain finds out why the guard, or another compare, failed.
func (c Call) explain(ans *Answer, state, epoch etcd.Result) error {
	lost := &execution.LostError{ID: c.Lease.ID, Operation: c.Operation, Carried: c.Lease.Token}
	kv, found := state.One()
	if !found {
		if ans.Again && c.Nonce != "" {
			return fmt.Errorf("%s %q: the execution is gone: %w", c.Operation, string(c.Lease.ID), ErrUnknown)
		}
		lost.Reason, ans.Lost = "the execution was deleted", lost
		return nil
	}
	s, err := record.DecodeState(kv.Value)
	if err != nil {
		return fmt.Errorf("%s %q: state record: %w", c.Operation, string(c.Lease.ID), err)
	}
	ans.State = s
	ended := endOf(s, c.Lease.Token)
	switch now, _ := epoch.One(); {
	case string(now.Value) != c.Lease.Epoch:
		lost.Reason, ans.Lost = "the namespace was restored from a backup", lost
		return nil
	case kv.Modified == int64(c.Lease.Token):
		return nil
	case ans.Again && c.Nonce != "" && (s.Nonce == c.Nonce || ended != nil && ended.EndNonce == c.Nonce):
		ans.Applied = true
		return nil
	case ans.Again && c.Nonce != "" && ended == nil:
		return fmt.Errorf("%s %q: the execution went on and its history is too short to tell: %w", c.Operation, string(c.Lease.ID), ErrUnknown)
	}
	lost.Current = Current(s, kv.Modified, c.Lease.Token)
	if ended != nil && ended.How != execution.HowExpired {
		lost.Reason = "this delivery ended: " + string(ended.How)
		if ended.Why != "" {
			lost.Reason += ", " + ended.Why
		}
	}
	ans.Lost = lost
	return nil
}

// endOf returns the history's entry of the delivery with the token, or nil.
func endOf(s *record.State, token execution.Token) *record.Delivery {
	for i := range s.Deliveries {
		if d := &s.Deliveries[i]; d.Token == token {
			return d
		}
	}
	return nil
}

// Current returns the token that is current in a state record at the
// mod-revision: the running claim's, or else the latest claim's after the carried
// one, or else the revision that ended the carried one.
func Current(s *record.State, modified int64, carried execution.Token) execution.Token {
	if s.Claimed {
		return execution.Token(modified)
	}
	if last := s.Last(); last != nil && last.Token > carried {
		return last.Token
	}
	return execution.Token(modified)
}

// Refuse tells the observer of a refused write and returns it as an error.
func (c Call) Refuse(lost *execution.LostError) error {
	c.Observer.Tell(execution.Event{
		Kind: execution.EventRefused, ID: lost.ID, Token: lost.Carried, Current: lost.Current, Operation: lost.Operation, Err: lost,
	})
	return lost
}
