package leasing

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Acknowledge ends the delivery with an outcome and resets
// unacknowledgedDeliveries. (RFC 002, acknowledge.) After completed or failed the
// outcome is fixed for ever. After suspended the execution is due at the earliest
// wake that was requested after the claim, the outcome's own among them, or not at
// all. A stale token gives an [execution.ErrLost] and changes nothing; a malformed
// outcome an [*execution.InvalidError]. Keeps I4, I5, I6, I9.
func (c *Client) Acknowledge(ctx context.Context, lease execution.Lease, outcome execution.Outcome) error {
	if err := validateOutcome(&outcome); err != nil {
		return err
	}
	nonce := newNonce()
	workflow, err := c.end(ctx, lease, ending{
		operation: "acknowledge", nonce: nonce,
		next: func(v *view) *record.State { return acknowledged(v, lease.Token, outcome, nonce, c.now()) },
	})
	if err == nil {
		c.observer.Tell(execution.Event{Kind: execution.EventAcknowledged, ID: lease.ID, Token: lease.Token, Workflow: workflow, Outcome: string(outcome.Kind)})
	}
	return err
}

func acknowledged(v *view, token execution.Token, o execution.Outcome, nonce string, now time.Time) *record.State {
	hows := map[execution.OutcomeKind]execution.How{
		execution.Completed: execution.HowCompleted, execution.Failed: execution.HowFailed, execution.Suspended: execution.HowSuspended,
	}
	why := ""
	if o.Handover {
		why = "handed over by a shutdown"
	}
	n := ended(v.state, token, now, hows[o.Kind], why, nonce)
	n.Unacked, n.NotBefore, n.Due = 0, 0, 0
	if o.Kind != execution.Suspended {
		terminate(n, o, now)
		return n
	}
	n.Base = execution.StatusSuspended
	wake := o.Wake
	if o.Handover {
		wake = now
	}
	if v.wake != nil {
		wake = sooner(wake, instant(v.wake.At))
	}
	if !wake.IsZero() {
		n.Due = millis(later(wake, now))
	}
	return n
}

// terminate fixes the outcome.
func terminate(n *record.State, o execution.Outcome, now time.Time) {
	n.Base = execution.StatusCompleted
	if o.Kind == execution.Failed {
		n.Base = execution.StatusFailed
	}
	n.Due, n.NotBefore, n.Ended = 0, 0, millis(now)
	n.Outcome, n.Result, n.Error = o.Kind, o.Result, o.Error
}

func validateOutcome(o *execution.Outcome) error {
	invalid := func(reason string) error {
		return &execution.InvalidError{What: "outcome", Value: string(o.Kind), Reason: reason}
	}
	switch o.Kind {
	case execution.Completed:
		if o.Error != nil {
			return invalid("has an error; only a failed outcome has one")
		}
		if o.Result == nil {
			o.Result = json.RawMessage("null")
		}
		if err := execution.ValidateSize("result", o.Result, execution.MaxPayloadBytes); err != nil {
			return err
		}
		if !json.Valid(o.Result) {
			return &execution.InvalidError{What: "result", Value: string(o.Result), Reason: "is not JSON"}
		}
	case execution.Failed:
		if o.Error == nil || o.Result != nil {
			return invalid("must have an error and no result")
		}
		size := []byte(o.Error.Message + o.Error.Code + o.Error.Stack)
		return execution.ValidateSize("error", size, execution.MaxPayloadBytes)
	case execution.Suspended:
		if o.Error != nil || o.Result != nil {
			return invalid("has a result or an error; a suspended one has neither")
		}
	default:
		return invalid(fmt.Sprintf("is none of %v", []execution.OutcomeKind{execution.Completed, execution.Failed, execution.Suspended}))
	}
	if o.Kind != execution.Suspended && (!o.Wake.IsZero() || o.Handover) {
		return invalid("asks for a wake; only a suspended outcome may")
	}
	return nil
}
