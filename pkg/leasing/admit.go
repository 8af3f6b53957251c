package leasing

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// maxTimeout bounds timeouts, to about 270 years.
const maxTimeout = 100_000 * 24 * time.Hour

// Admit accepts an execution. (RFC 001, admit.)
//
//	compare  the state record is absent
//	then     spec, state, due entry
//
// An id that exists with the same workflow and params is answered with the
// existing execution, which keeps its due time and its deadline, so admitting is
// repeatable; with others it is an
// [execution.ErrConflict]. A bad id, name or payload is an
// [*execution.InvalidError]. In either case nothing is stored. Where the deletion of
// an earlier execution with the id was begun and not finished, it is finished first.
func (c *Client) Admit(ctx context.Context, req execution.AdmitRequest) (execution.Admission, error) {
	if err := completeAdmit(&req); err != nil {
		return execution.Admission{}, err
	}
	nonce := newNonce()
	return c.admit(ctx, req, c.admission(req, nonce), nonce)
}

// admit sends the admission until it is certain what it came to.
func (c *Client) admit(ctx context.Context, req execution.AdmitRequest, txn *etcd.Txn, nonce string) (execution.Admission, error) {
	for {
		res, _, err := fencing.Send(ctx, c.store, txn)
		if err != nil {
			return execution.Admission{}, fmt.Errorf("admit %q: %w", string(req.ID), err)
		}
		adm, purging, err := c.admissionAnswer(req, nonce, res)
		if !purging {
			return adm, err
		}
		if _, err := c.finishDeletion(ctx, req.ID); err != nil {
			return execution.Admission{}, fmt.Errorf("admit %q: finish the deletion that was begun: %w", string(req.ID), err)
		}
	}
}

// admissionAnswer reads the answer to an admission. purging: the id is still that of an
// execution whose deletion was begun, and is to be finished first.
func (c *Client) admissionAnswer(req execution.AdmitRequest, nonce string, res *etcd.TxnResult) (adm execution.Admission, purging bool, err error) {
	if res.Succeeded {
		return execution.Admission{ID: req.ID}, false, nil
	}
	_, purging = res.Results[1].One()
	adm, err = c.admitted(req, nonce, res.Results[0])
	return adm, purging && (err != nil || adm.Existing), err
}

// admission returns the transaction that admits.
func (c *Client) admission(req execution.AdmitRequest, nonce string) *etcd.Txn {
	id, now := string(req.ID), c.now()
	due := later(req.Due, now)
	spec := record.Spec{Workflow: req.Workflow, Queue: req.Queue, Admitted: millis(now), Nonce: nonce, Params: req.Params}
	state := &record.State{Workflow: req.Workflow, Queue: req.Queue, Base: execution.StatusAdmitted, Due: millis(due), Deadline: deadline(due, req.Timeout), Nonce: nonce}
	v := &view{id: req.ID, state: &record.State{Queue: req.Queue}}
	return &etcd.Txn{
		If: []etcd.Compare{etcd.Absent(c.space.State(id))},
		Then: append([]etcd.Op{
			etcd.Put{Key: c.space.Spec(id), Value: spec.Encode()},
			etcd.Put{Key: c.space.State(id), Value: state.Encode()},
		}, c.entry(v, state)...),
		Else: []etcd.Op{etcd.Get{Key: c.space.Spec(id)}, etcd.Get{Key: c.space.Purging(id), KeysOnly: true}},
	}
}

// admitted answers an Admit whose id exists.
func (c *Client) admitted(req execution.AdmitRequest, nonce string, r etcd.Result) (execution.Admission, error) {
	kv, ok := r.One()
	if !ok {
		return execution.Admission{}, fmt.Errorf("admit %q: it has a state but no spec: %w", string(req.ID), execution.ErrConflict)
	}
	old, err := record.DecodeSpec(kv.Value)
	switch {
	case err != nil:
		return execution.Admission{}, fmt.Errorf("admit %q: key %q: %w", string(req.ID), kv.Key, err)
	case old.Nonce == nonce: // an earlier try of this call, whose answer was lost
		return execution.Admission{ID: req.ID}, nil
	case old.Workflow != req.Workflow:
		return execution.Admission{}, fmt.Errorf("admit %q: it exists with workflow %q, not %q: %w", string(req.ID), old.Workflow, req.Workflow, execution.ErrConflict)
	case !sameJSON(old.Params, req.Params):
		return execution.Admission{}, fmt.Errorf("admit %q: it exists with other params: %w", string(req.ID), execution.ErrConflict)
	}
	return execution.Admission{ID: req.ID, Existing: true}, nil
}

// deadline returns when an execution fails that is due first at the time.
func deadline(due time.Time, timeout time.Duration) int64 {
	if timeout == 0 {
		return 0
	}
	whole := (timeout + time.Millisecond - 1).Truncate(time.Millisecond)
	return millis(due) + whole.Milliseconds()
}

func completeAdmit(req *execution.AdmitRequest) error {
	if req.ID == "" {
		req.ID = execution.NewID()
	}
	if err := req.ID.Validate(); err != nil {
		return err
	}
	if err := execution.ValidateName("workflow", req.Workflow); err != nil {
		return err
	}
	if req.Queue == "" {
		req.Queue = req.Workflow
	}
	if err := execution.ValidateName("queue", req.Queue); err != nil {
		return err
	}
	if req.Timeout < 0 || req.Timeout > maxTimeout {
		return &execution.InvalidError{What: "timeout", Value: req.Timeout.String(), Reason: "is not between 0, which means none, and " + maxTimeout.String()}
	}
	if req.Params == nil {
		req.Params = json.RawMessage("null")
	}
	if err := execution.ValidateSize("params", req.Params, execution.MaxPayloadBytes); err != nil {
		return err
	}
	if !json.Valid(req.Params) {
		return &execution.InvalidError{What: "params", Value: string(req.Params), Reason: "is not JSON"}
	}
	return nil
}

// later returns the later of the two; a due time in the past would only jump the
// queue.
func later(t, now time.Time) time.Time {
	if t.Before(now) {
		return now
	}
	return t
}

// sameJSON compares two documents by their content: the order of members and
// white space do not matter, numbers are compared as they are written.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	ca, errA := canonical(a)
	cb, errB := canonical(b)
	return errA == nil && errB == nil && bytes.Equal(ca, cb)
}

func canonical(doc json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v) // sorts the members of objects
}
