package effect

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/internal/canonical"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Waiting asks for a wake when an effect is settled, or at a time, for who drives an
// effect without [Run].
type Waiting struct {
	Effect   string
	Step     execution.StepID // that waits
	Attempt  int64            // with which the step's answer will be recorded
	Workflow string           // of the step's execution
	Params   json.RawMessage  // likewise, any JSON; nil: none
	WakeAt   time.Time        // in whole milliseconds, rounded up
	Reason   string           // why it waits, for readers
}

// A Waited is what became of a wait.
type Waited struct {
	WakeAt   time.Time // when the execution is delivered at the latest
	Settled  bool      // nothing is waited for: the effect is settled, and WakeAt is now
	Resolved bool      // likewise: the step's answer is recorded
}

// Wait registers the step at the effect, and asks for a delivery at the time. (RFC 004,
// wait.) There is no registration without such a delivery, whenever this process dies.
// If the step waits already, its first time stays, until that has passed, and nothing
// is added; where it waits for another workflow, or with other params, that stays too,
// and an [*Error] with [CodeWaiterMismatch] says so. If the effect is settled the
// delivery is asked for at once.
func (c *Client) Wait(ctx context.Context, w Waiting) (Waited, error) {
	if c.bad != nil {
		return Waited{}, c.bad
	}
	if err := w.Step.Validate(); err != nil {
		return Waited{}, err
	}
	// The wake comes first: one that is not needed does no harm.
	id := string(w.Step.Execution)
	w.WakeAt = wholeMillis(w.WakeAt)
	if err := c.wake(ctx, id, w.WakeAt); err != nil {
		return Waited{}, kept(w.Effect, err)
	}
	out, err := c.enroll(ctx, w)
	if err != nil || !out.WakeAt.Before(w.WakeAt) {
		return out, err
	}
	return out, kept(w.Effect, c.wake(ctx, id, out.WakeAt))
}

// enroll is Wait without the delivery.
func (c *Client) enroll(ctx context.Context, w Waiting) (Waited, error) {
	mine := note{WakeAt: wholeMillis(w.WakeAt).UnixMilli(), Reason: clip(w.Reason)}
	var err error
	if mine.Params, err = digest(w.Params); err != nil {
		return Waited{}, &Error{Effect: w.Effect, Why: CodeInvalidRequest, Reason: "the params have no canonical form", Err: err}
	}
	out := Waited{WakeAt: time.UnixMilli(mine.WakeAt)}
	waiter := stores.Waiter{Store: storeOf(w.Effect), Step: w.Step, Workflow: w.Workflow, Reads: awaited()}
	out.Resolved, err = c.protocol.Enroll(ctx, waiter, w.Attempt, func(now stores.Snapshot, earlier *stores.Registration) ([]byte, error) {
		s, err := decodeState(w.Effect, now.State)
		switch {
		case err != nil:
			return nil, err
		case s.Status == settled:
			out = Waited{Settled: true, WakeAt: time.Now()}
			return nil, nil
		case earlier == nil:
			return encode(mine)
		}
		first, err := decodeNote(w.Effect, earlier.Note)
		switch {
		case err != nil:
			return nil, err
		case earlier.Workflow != w.Workflow || first.Params != mine.Params:
			return nil, &Error{Effect: w.Effect, Why: CodeWaiterMismatch, Reason: fmt.Sprintf("step %q of %q waits for it already, in workflow %q", w.Step.Step, string(w.Step.Execution), earlier.Workflow)}
		case first.WakeAt > time.Now().UnixMilli():
			out.WakeAt = time.UnixMilli(first.WakeAt)
			return nil, nil
		}
		return encode(mine) // the delivery that it asked for has come
	})
	return out, kept(w.Effect, err)
}

// withdraw removes the step's registration if the delivery that it has asked for has
// come, so that the settlement does not ask for one more. Who waits anew stays.
func (c *Client) withdraw(ctx context.Context, id string, step execution.StepID) error {
	return c.protocol.Withdraw(ctx, storeOf(id), step, func(r stores.Registration) bool {
		n, err := decodeNote(id, r.Note)
		return err == nil && n.WakeAt <= time.Now().UnixMilli()
	})
}

// digest stands for params that may be large; empty: there are none.
func digest(params json.RawMessage) (string, error) {
	if params == nil {
		return "", nil
	}
	doc, err := canonical.JSON(params)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(doc)
	return hex.EncodeToString(sum[:]), nil
}

// clip bounds a reason, which is kept.
func clip(why string) string {
	const limit = 400
	if len(why) <= limit {
		return strings.ToValidUTF8(why, "�")
	}
	return strings.ToValidUTF8(why[:limit], "") + "…"
}

// wholeMillis rounds the time up.
func wholeMillis(t time.Time) time.Time {
	t = t.UTC().Round(0)
	if floor := t.Truncate(time.Millisecond); floor.Before(t) {
		return floor.Add(time.Millisecond)
	}
	return t
}
