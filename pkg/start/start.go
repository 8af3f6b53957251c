package start

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/canonical"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// MaxParamsBytes bounds params in canonical form: the start keeps them beside the
// execution, in one transaction, which etcd limits to 1.5 MiB.
const MaxParamsBytes = 640 << 10

// A Request asks for the start of an execution.
type Request struct {
	// Caller is the step that starts it, and the identity of the request.
	Caller execution.StepID
	// Epoch is that of the caller's lease.
	Epoch string

	ID       execution.ID // of what is to be started; default: a random one
	Workflow string       // required
	Queue    string       // default: the workflow's name
	Due      time.Time    // first due time; default: now
	// Timeout is as in [execution.AdmitRequest].
	Timeout time.Duration

	// Params are JSON, at most MaxParamsBytes in canonical form, in which the execution
	// is given them. ParamsPresent: they are given; otherwise they must be empty, and the
	// execution is given null.
	Params        json.RawMessage
	ParamsPresent bool
}

// An Answer is what a step has started.
type Answer struct {
	ID execution.ID
	// Incarnation tells it from one that is admitted with its id after its deletion.
	Incarnation int64
	// Repeated: it was started before; nothing was added.
	Repeated bool
}

// Start starts an execution for a step, or returns what the step has started before.
// (RFC 003, start.)
//
//	compare  no start of the step, no execution with the id; epoch; the step's
//	         execution is there, in its run, and is not being deleted
//	then     the start; spec, state, due entry of what is started
//	keeps    I10
//
// A request that will never be accepted gives a [*RejectedError]: params that are
// invalid are refused before anything is read, and a repetition of the step's start is
// compared with that before anything else is looked at. A bad name or id gives an
// [*execution.InvalidError], a caller that was deleted, or whose run has ended, an
// [execution.ErrLost]. In all these cases nothing is stored. [fencing.ErrUnknown] says
// that the caller was deleted meanwhile, and that whether it has started something can't
// be known any more.
func (c *Client) Start(ctx context.Context, req Request) (Answer, error) {
	params, err := req.canonical()
	if err != nil {
		return Answer{}, err
	}
	if err := req.validate(); err != nil {
		return Answer{}, fmt.Errorf("start workflow %q: %w", req.Workflow, err)
	}
	again := false
	for {
		id := req.ID
		if id == "" {
			id = c.cfg.NewID()
		}
		admitted, err := c.cfg.Executions.AdmitBeside(ctx, req.admission(id, params), c.beside(&req, id, params))
		if err != nil {
			return Answer{}, fmt.Errorf("start workflow %q: %w", req.Workflow, err)
		}
		if admitted.Admitted {
			return Answer{ID: id, Incarnation: admitted.Incarnation}, nil
		}
		again = again || admitted.Again
		ans, err := c.refused(&req, params, admitted, again)
		if err != nil || ans.ID != "" {
			return ans, err
		}
	}
}

// Started returns what the step has started; false: nothing.
func (c *Client) Started(ctx context.Context, step execution.StepID) (Answer, bool, error) {
	if err := step.Validate(); err != nil {
		return Answer{}, false, err
	}
	key := c.cfg.Space.Start(callKey(step))
	res, _, err := fencing.Send(ctx, c.cfg.Store, &etcd.Txn{Then: []etcd.Op{etcd.Get{Key: key}}})
	if err != nil {
		return Answer{}, false, fmt.Errorf("what step %q of %q has started: %w", step.Step, string(step.Execution), err)
	}
	kv, there := res.Results[0].One()
	if !there {
		return Answer{}, false, nil
	}
	rec, err := record.DecodeStart(kv.Value)
	if err != nil {
		return Answer{}, false, fmt.Errorf("key %q: %w", kv.Key, err)
	}
	return answer(rec, kv), true, nil
}

// answer is what the record says was started: it was admitted when the record was made.
func answer(rec *record.Start, kv etcd.KV) Answer {
	return Answer{ID: execution.ID(rec.Target), Incarnation: kv.Created, Repeated: true}
}

// canonical returns the params in canonical form, nil if they are omitted.
func (r *Request) canonical() (json.RawMessage, error) {
	reject := func(reason string) (json.RawMessage, error) {
		return nil, &RejectedError{Workflow: r.Workflow, Why: CodeInvalidParameters, Reason: reason}
	}
	switch {
	case r.ParamsPresent:
	case len(r.Params) > 0:
		return reject("params are given that are said to be omitted")
	default:
		return nil, nil
	}
	params, err := canonical.JSON(r.Params)
	switch {
	case err != nil:
		return reject("the params have no canonical form: " + err.Error())
	case len(params) > MaxParamsBytes:
		return reject(fmt.Sprintf("the params are too large: %d bytes, the limit is %d", len(params), MaxParamsBytes))
	}
	return params, nil
}

func (r *Request) validate() error {
	if err := r.Caller.Validate(); err != nil {
		return err
	}
	switch {
	case r.Caller.Incarnation == 0:
		return &execution.InvalidError{What: "incarnation", Value: "0", Reason: "is none; only an execution of the engine starts others"}
	case r.Epoch == "":
		return &execution.InvalidError{What: "epoch", Reason: "is empty; pass the lease's"}
	case r.ID == "":
		return nil
	}
	return r.ID.Validate()
}

func (r *Request) admission(id execution.ID, params json.RawMessage) execution.AdmitRequest {
	return execution.AdmitRequest{ID: id, Workflow: r.Workflow, Queue: r.Queue, Params: params, Due: r.Due, Timeout: r.Timeout}
}

// beside returns what is demanded and done beside the admission.
func (c *Client) beside(req *Request, id execution.ID, params json.RawMessage) leasing.Beside {
	space, key := c.cfg.Space, c.cfg.Space.Start(callKey(req.Caller))
	rec := record.Start{
		Target: string(id), Workflow: req.Workflow, ParamsPresent: req.ParamsPresent, Written: time.Now().UnixMilli(), Params: params,
	}
	return leasing.Beside{
		If:   append([]etcd.Compare{etcd.Absent(key), etcd.ValueIs(space.Epoch(), req.Epoch)}, fencing.Receipted(space, req.Caller)...),
		Then: []etcd.Op{etcd.Put{Key: key, Value: rec.Encode()}},
		Else: append([]etcd.Op{etcd.Get{Key: key}, etcd.Get{Key: space.Epoch()}}, fencing.ReceiptedGets(space, req.Caller)...),
	}
}

// refused says what a refusal has come to: an answer, an error or, with neither, that
// the start is to be tried again.
func (c *Client) refused(req *Request, params json.RawMessage, by leasing.BesideAnswer, again bool) (Answer, error) {
	if kv, there := by.Read[0].One(); there {
		rec, err := record.DecodeStart(kv.Value)
		if err != nil {
			return Answer{}, fmt.Errorf("start workflow %q: key %q: %w", req.Workflow, kv.Key, err)
		}
		if reason := req.mismatch(rec, params); reason != "" {
			return Answer{}, &RejectedError{Workflow: req.Workflow, Why: CodeMismatch, Reason: reason}
		}
		return answer(rec, kv), nil
	}
	why := fencing.Gone(req.Caller, by.Read[2:])
	if epoch, _ := by.Read[1].One(); why == "" && string(epoch.Value) != req.Epoch {
		why = restored
	}
	switch {
	case why != "" && again:
		return Answer{}, fmt.Errorf("start workflow %q for step %q of %q: %s: %w", req.Workflow, req.Caller.Step, string(req.Caller.Execution), why, fencing.ErrUnknown)
	case why != "":
		return Answer{}, lost("start", req.Caller, why)
	case by.Taken && req.ID != "":
		return Answer{}, &RejectedError{
			Workflow: req.Workflow, Why: CodeIDTaken,
			Reason: fmt.Sprintf("execution %q exists, and this step has not started it; choose another id", string(req.ID)),
		}
	}
	return Answer{}, nil
}

// mismatch says how the request differs from what the step has started; empty: it does
// not.
func (r *Request) mismatch(rec *record.Start, params json.RawMessage) string {
	var what string
	switch {
	case rec.Workflow != r.Workflow:
		what = fmt.Sprintf("of workflow %q", rec.Workflow)
	case rec.ParamsPresent != r.ParamsPresent || !bytes.Equal(rec.Params, params):
		what = "with other params"
	default:
		return ""
	}
	return fmt.Sprintf("step %q has started execution %q before, %s", r.Caller.Step, rec.Target, what)
}
