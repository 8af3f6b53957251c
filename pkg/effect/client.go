package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// An Engine is a *holdfast.Client, as far as it is needed here.
type Engine interface {
	// Stores returns the client of the namespace's stores.
	Stores() *store.Client
	// Wake asks for a delivery of the execution at the time.
	Wake(ctx context.Context, id string, at time.Time) error
}

// A Client acts on the effects of one namespace, for code outside of workflows. It may
// be used by many goroutines at once. [NewClient] makes one.
type Client struct {
	protocol *stores.Client
	wake     func(ctx context.Context, id string, at time.Time) error
	bad      error // there is no engine
}

// NewClient returns a client of the namespace of the engine, a *holdfast.Client. It
// needs not be closed.
func NewClient(engine Engine) *Client {
	if engine == nil {
		return &Client{bad: errors.New("effect: the client is nil; make one with holdfast.Open")}
	}
	protocol, err := stores.Of(engine.Stores())
	return &Client{protocol: protocol, wake: engine.Wake, bad: err}
}

// A Record is what is kept of an effect.
type Record struct {
	ID        string
	Operation string
	Input     json.RawMessage // canonical JSON
	Begun     By
	Result    *Result // nil: it is pending
	Settled   By      // who has settled it; zero while it is pending
	Waiting   []Wait  // the steps that wait for it
}

// A By says who has done something to an effect, and when. Without an execution it was
// code outside of workflows.
type By struct {
	Execution string
	Run       int64
	Step      string
	At        time.Time
}

// A Wait is a step that waits until an effect is settled.
type Wait struct {
	Execution string
	Step      string
	WakeAt    time.Time // when it asks again
	Reason    string    // why it waits: what Perform or Lookup has said
}

// Get returns what is kept of the effect. One that was never begun gives an error that
// wraps [execution.ErrNotFound].
func (c *Client) Get(ctx context.Context, id string) (Record, error) {
	if c.bad != nil {
		return Record{}, c.bad
	}
	snap, err := c.protocol.Get(ctx, storeOf(id))
	if err != nil {
		return Record{}, kept(id, err)
	}
	s, err := decodeState(id, snap.State)
	if err != nil {
		return Record{}, err
	}
	r := Record{ID: id, Operation: s.Operation, Input: s.Input, Begun: s.Begun.by(), Result: s.Result, Settled: s.Settled.by()}
	waiting, err := c.protocol.Registrations(ctx, storeOf(id))
	if err != nil {
		return Record{}, kept(id, err)
	}
	for _, w := range waiting {
		n, err := decodeNote(id, w.Note)
		if err != nil {
			return Record{}, err
		}
		r.Waiting = append(r.Waiting, Wait{
			Execution: string(w.Step.Execution), Step: w.Step.Step, WakeAt: time.UnixMilli(n.WakeAt), Reason: n.Reason,
		})
	}
	return r, nil
}

// decodeNote reads the note of a registration.
func decodeNote(id string, raw []byte) (n note, err error) {
	if err := json.Unmarshal(raw, &n); err != nil {
		return n, &Error{Effect: id, Why: CodeInvariant, Reason: "a registration is not readable", Err: err}
	}
	return n, nil
}

// Settle says what an effect has come to, for code that learns it outside of workflows,
// such as a webhook. Whoever waits for it is woken. Another result than the one that the
// effect is settled with already gives a [*ConflictError], the same one no error; an
// effect that was never begun an error that wraps [execution.ErrNotFound]; a value that
// can't be kept an [*execution.InvalidError].
//
// The value must be what the workflow's effect has as its Out: it is not compared.
func (c *Client) Settle(ctx context.Context, id string, value any) error {
	r, err := resultOf(value)
	if err != nil {
		return fmt.Errorf("settle effect %q: %w", id, &execution.InvalidError{What: "result", Value: fmt.Sprintf("%T", value), Reason: err.Error()})
	}
	return c.SettleAs(ctx, execution.StepID{}, id, r)
}

// Decline is Settle of an effect that was not done, and will not be: as if Perform had
// returned the error by [Decline]. It must not be nil.
func (c *Client) Decline(ctx context.Context, id string, why error) error {
	if why == nil {
		return &execution.InvalidError{What: "refusal", Reason: "is nil; pass the error that says why the effect is not done"}
	}
	return c.SettleAs(ctx, execution.StepID{}, id, refusalOf(why))
}
