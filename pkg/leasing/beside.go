package leasing

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// A Beside is what is demanded and done beside an admission, in its transaction.
type Beside struct {
	If   []etcd.Compare // what must hold, too
	Then []etcd.Op      // what is done, too; no key of the admitted execution
	Else []etcd.Op      // what is read where the admission is refused
}

// A BesideAnswer is what became of an AdmitBeside.
type BesideAnswer struct {
	// Admitted: both were done. Incarnation is that of the execution.
	Admitted    bool
	Incarnation int64

	// Refused: nothing was done by this call unless an earlier try of it, of which Again
	// says that it was not answered. Taken: the id is in use. Read holds the results of
	// Beside.Else.
	Again bool
	Taken bool
	Read  []etcd.Result
}

// AdmitBeside admits an execution, of which req must have an id, and does something
// beside, both or neither. Unlike [Client.Admit] it does not compare an execution that
// has the id with the request: that one is somebody else's, or an earlier try's, which
// the caller can tell by what it does beside.
//
//	compare  the state record is absent, and what the caller demands
//	then     spec, state, due entry, and what the caller does
//
// Where the deletion of an earlier execution with the id was begun and not finished, it
// is finished first.
func (c *Client) AdmitBeside(ctx context.Context, req execution.AdmitRequest, b Beside) (BesideAnswer, error) {
	if err := req.ID.Validate(); err != nil {
		return BesideAnswer{}, err
	}
	if err := completeAdmit(&req); err != nil {
		return BesideAnswer{}, err
	}
	txn := c.admission(req, newNonce())
	own := len(txn.Else)
	txn.If, txn.Then, txn.Else = append(txn.If, b.If...), append(txn.Then, b.Then...), append(txn.Else, b.Else...)
	var ans BesideAnswer
	for {
		res, again, err := fencing.Send(ctx, c.store, txn)
		if err != nil {
			return BesideAnswer{}, fmt.Errorf("admit %q: %w", string(req.ID), err)
		}
		if ans.Again = ans.Again || again; res.Succeeded {
			return BesideAnswer{Admitted: true, Incarnation: res.Revision}, nil
		}
		_, purging := res.Results[1].One()
		if !purging {
			_, ans.Taken = res.Results[0].One()
			ans.Read = res.Results[own:]
			return ans, nil
		}
		if _, err := c.finishDeletion(ctx, req.ID); err != nil {
			return BesideAnswer{}, fmt.Errorf("admit %q: finish the deletion that was begun: %w", string(req.ID), err)
		}
	}
}
