package leasing

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Acknowledge ends the delivery with an outcome and resets
// unacknowledgedDeliveries. (RFC 002, acknowledge.) After completed or failed the
// outcome is fixed for ever. After suspended the execution is due at the earliest
// wake that was requested after the claim, the outcome's own among them, or at its
// deadline if that is earlier, or not at all. After continued it is due at once, as its next run, and what the runs before
// that have left is deleted before Acknowledge returns, as far as that works. A stale
// token gives an [execution.ErrLost] and changes nothing; a malformed outcome an
// [*execution.InvalidError]. Keeps I4, I5, I6, I9.
func (c *Client) Acknowledge(ctx context.Context, lease execution.Lease, outcome execution.Outcome) error {
	next, err := c.acknowledge(ctx, lease, outcome)
	if err == nil {
		c.clearEarlierRuns(ctx, lease, next)
	}
	return err
}

// acknowledge is Acknowledge without the clean-up. It returns the state that it wrote.
func (c *Client) acknowledge(ctx context.Context, lease execution.Lease, outcome execution.Outcome) (*record.State, error) {
	if err := validateOutcome(&outcome); err != nil {
		return nil, err
	}
	nonce := newNonce()
	e := ending{
		operation: "acknowledge", nonce: nonce,
		next: func(v *view) *record.State { return acknowledged(v, lease.Token, outcome, nonce, c.now()) },
	}
	if outcome.Kind == execution.Continued {
		e.also = func(next *record.State) []etcd.Op { return c.turnover(lease.ID, next, outcome.Params) }
	}
	next, err := c.end(ctx, lease, e)
	if err == nil {
		c.observer.Tell(execution.Event{Kind: execution.EventAcknowledged, ID: lease.ID, Token: lease.Token, Workflow: next.Workflow, Outcome: string(outcome.Kind)})
	}
	return next, err
}

func acknowledged(v *view, token execution.Token, o execution.Outcome, nonce string, now time.Time) *record.State {
	hows := map[execution.OutcomeKind]execution.How{
		execution.Completed: execution.HowCompleted, execution.Failed: execution.HowFailed, execution.Suspended: execution.HowSuspended,
		execution.Continued: execution.HowContinued,
	}
	why := ""
	if o.Handover {
		why = "handed over by a shutdown"
	}
	n := ended(v.state, token, now, hows[o.Kind], why, nonce)
	n.Unacked, n.NotBefore, n.Due = 0, 0, 0
	switch o.Kind {
	case execution.Completed, execution.Failed:
		terminate(n, o, now)
		return n
	case execution.Continued: // no wake asks for an earlier delivery
		n.Base, n.Due, n.Run = execution.StatusSuspended, millis(now), n.Run+1
		return n
	case execution.Suspended:
	}
	n.Base = execution.StatusSuspended
	wake := o.Wake
	if o.Handover {
		wake = now
	}
	if v.wake != nil {
		wake = sooner(wake, instant(v.wake.At))
	}
	wake = sooner(wake, instant(n.Deadline)) // to fail then, whatever else it waits for
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
	if o.Kind != execution.Continued && o.Params != nil {
		return invalid("has params; only a continued outcome has them")
	}
	switch o.Kind {
	case execution.Completed:
		if o.Error != nil {
			return invalid("has an error; only a failed outcome has one")
		}
		if o.Result == nil {
			o.Result = json.RawMessage("null")
		}
		if err := validateJSON("result", o.Result); err != nil {
			return err
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
	case execution.Continued:
		if o.Error != nil || o.Result != nil {
			return invalid("has a result or an error; a continued one has neither")
		}
		if o.Params == nil {
			o.Params = json.RawMessage("null")
		}
		if err := validateJSON("params", o.Params); err != nil {
			return err
		}
	default:
		kinds := []execution.OutcomeKind{execution.Completed, execution.Failed, execution.Suspended, execution.Continued}
		return invalid(fmt.Sprintf("is none of %v", kinds))
	}
	if o.Kind != execution.Suspended && (!o.Wake.IsZero() || o.Handover) {
		return invalid("asks for a wake; only a suspended outcome may")
	}
	return nil
}

// validateJSON refuses a payload that is too large, or not JSON.
func validateJSON(what string, doc json.RawMessage) error {
	if err := execution.ValidateSize(what, doc, execution.MaxPayloadBytes); err != nil {
		return err
	}
	if !json.Valid(doc) {
		return &execution.InvalidError{What: what, Value: string(doc), Reason: "is not JSON"}
	}
	return nil
}
