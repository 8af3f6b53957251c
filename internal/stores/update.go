package stores

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The kinds of the receipts that calls of Go leave: a receipt answers calls of its kind
// alone. Frozen.
const (
	KindUpdate     = "update"
	KindUpdateFrom = "updateFrom"
	KindTake       = "take"
	KindTakeUntil  = "takeUntil"

	kindDeleteFrom = "delete"
)

// A Mutation is what a call makes of a snapshot.
type Mutation struct {
	State   []byte // the next state, JSON
	Changed Paths  // what differs; more than that is allowed, less is not
	Result  []byte // what the receipt holds, JSON
}

// A Result is what became of an [Client.Update].
type Result struct {
	Raw      []byte // the mutation's result, of this call or of the receipt
	Repeated bool   // the receipt was there: nothing was changed now
	Missed   bool   // change wanted nothing; Snapshot is what it saw
	Snapshot Snapshot
}

// Update applies change to the store. It calls it with what the store holds and
// commits what it returns; if somebody commits in between it calls it again. A nil
// mutation changes nothing and leaves no receipt. With a step id the mutation is
// applied once (I10): if there is a receipt, change is not called. It must not call
// the client for the same store, whose turn it has.
//
// A receipt of another kind gives a [*ReceiptError]. A store that does not exist gives a
// [*NotFoundError]; a state or result that is not JSON, too large, or nested deeper than
// [MaxDepth] an [*execution.InvalidError] (with a step of the engine a result
// that is larger than [MaxRecordedBytes] is); a step whose execution was deleted an
// [execution.ErrLost]. Errors of change are returned as they are, wrapped. None of them
// changes anything. Without a step id, [fencing.ErrUnknown] says that the mutation may
// have been applied: read, and reconcile.
func (c *Client) Update(ctx context.Context, key execution.StoreID, step *execution.StepID, kind string, change func(Snapshot) (*Mutation, error)) (Result, error) {
	var missed Snapshot
	d, err := c.mutate(ctx, mutation{
		subject: subject{key, step}, op: operation(kind), kind: kind,
		decide: func(l *look) (*plan, error) {
			if l.rec == nil {
				return nil, &NotFoundError{key}
			}
			m, err := change(snapshot(l.rec))
			if m == nil || err != nil {
				missed = snapshot(l.rec)
				return nil, err
			}
			return next(l.rec, m)
		},
	})
	if err != nil {
		return Result{}, err
	}
	if d.plan == nil && !d.repeated {
		return Result{Missed: true, Snapshot: missed}, nil
	}
	return Result{Raw: d.result, Repeated: d.repeated}, nil
}

// A CommitStatus says what became of a [Client.Commit].
type CommitStatus string

// The ways that a commit goes.
const (
	Committed      CommitStatus = "committed"
	AlreadyApplied CommitStatus = "already-applied" // by the receipt
	Conflict       CommitStatus = "conflict"        // the store is at another version
)

// A CommitAnswer is what became of a [Client.Commit].
type CommitAnswer struct {
	Status  CommitStatus
	Result  []byte   // of the mutation, or of the receipt
	Current Snapshot // Conflict: what is there
}

// Commit is Update from a snapshot that was read before: it commits only if the store
// is still at the expected version, and does not try again. (RFC 005, updateFrom.) The
// receipt is looked for first, then the instance must be named (else an
// [*execution.InvalidError] that says "missing instanceId"), then the store must
// exist, and then be the expected one; only then is change called.
func (c *Client) Commit(ctx context.Context, key execution.StoreID, step *execution.StepID, kind string, expected Version, change func(Snapshot) (*Mutation, error)) (CommitAnswer, error) {
	var current *Snapshot
	d, err := c.mutate(ctx, mutation{
		subject: subject{key, step}, op: operation(kind), kind: kind,
		decide: func(l *look) (*plan, error) {
			switch {
			case expected.Instance == "":
				return nil, missingInstance()
			case l.rec == nil:
				return nil, &NotFoundError{key}
			}
			seen := snapshot(l.rec)
			if seen.At() != expected {
				current = &seen
				return nil, nil //nolint:nilnil // nothing is to be done
			}
			m, err := change(seen)
			if err != nil {
				return nil, err
			}
			return next(l.rec, m)
		},
	})
	switch {
	case err != nil:
		return CommitAnswer{}, err
	case d.repeated:
		return CommitAnswer{Status: AlreadyApplied, Result: d.result}, nil
	case d.plan == nil:
		return CommitAnswer{Status: Conflict, Current: *current}, nil
	}
	return CommitAnswer{Status: Committed, Result: d.result}, nil
}

// operation names the calls of a kind in errors.
func operation(kind string) string {
	switch kind {
	case KindUpdateFrom:
		return "conditional update"
	case KindTakeUntil:
		return KindTake
	}
	return kind
}

// next plans the commit of a mutation.
func next(rec *record.Store, m *Mutation) (*plan, error) {
	if err := validateDocument("state", m.State); err != nil {
		return nil, err
	}
	if err := validateDocument("result", m.Result); err != nil {
		return nil, err
	}
	if n := len(m.State) + len(m.Result); n > maxCommitBytes {
		return nil, &execution.InvalidError{
			What: "state", Value: string(m.State[:min(len(m.State), 64)]), Size: n, Limit: maxCommitBytes,
			Reason: "is too large together with the result that is recorded",
		}
	}
	n := *rec
	n.Version++
	n.Updated = time.Now().UnixMilli()
	n.State = slices.Clone(m.State)
	return &plan{next: &n, changed: m.Changed, result: slices.Clone(m.Result)}, nil
}

// maxPaths and maxPathBytes bound what is recorded of a change, or of what a waiter has
// read.
const (
	maxPaths     = 4096
	maxPathBytes = 64 << 10
)

// encodePaths renders paths for a record or, where they are too many, the one path that
// stands for everything.
func encodePaths(paths Paths) json.RawMessage {
	raw, err := json.Marshal(paths)
	switch {
	case err != nil:
		panic(fmt.Sprintf("stores: paths %v: %v", paths, err)) // they have strings and integers only
	case len(paths) > maxPaths || len(raw) > maxPathBytes:
		return json.RawMessage(`[[]]`)
	}
	return raw
}

// MaxRecordedBytes bounds the result of a mutation that has a step of an execution of
// the engine, as the step records it: within a frame, and with '<', '>' and '&' escaped.
const MaxRecordedBytes = execution.MaxPayloadBytes - 1<<10

// recordable refuses a result that the step could not record: its mutation would be
// applied, and the step would fail.
func (s subject) recordable(result []byte) error {
	if !s.ours() {
		return nil
	}
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, result)
	return execution.ValidateSize("result", escaped.Bytes(), MaxRecordedBytes)
}

// validateDocument refuses what is not JSON, too large, or nested too deeply.
func validateDocument(what string, doc []byte) error {
	if err := execution.ValidateSize(what, doc, execution.MaxPayloadBytes); err != nil {
		return err
	}
	if err := validateDepth(what, doc); err != nil {
		return err
	}
	if !json.Valid(doc) {
		return &execution.InvalidError{What: what, Value: string(doc), Reason: "is not JSON"}
	}
	return nil
}
