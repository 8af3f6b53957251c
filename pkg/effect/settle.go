package effect

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// SettleAs is [Client.Settle] on behalf of a step, for who drives an effect without
// [Run]; the zero step stands for code outside of workflows. (RFC 004, settle.) The
// first result counts for ever, and settling it again is fine. Any other gives a
// [*ConflictError], and is reported under the step's name. All who wait are woken, and
// their registrations are gone then.
func (c *Client) SettleAs(ctx context.Context, step execution.StepID, id string, r Result) error {
	if c.bad != nil {
		return c.bad
	}
	if !r.valid() {
		return &execution.InvalidError{What: "result", Value: id, Reason: "must be a value or a refusal"}
	}
	by := markOf(step)
	before, err := c.settle(ctx, id, r, by)
	if err != nil {
		return fmt.Errorf("settle: %w", kept(id, err))
	}
	if before == nil || before.Result.equal(r) {
		return nil
	}
	if err := c.report(ctx, id, before, r, by); err != nil {
		return fmt.Errorf("report a conflict: %w", kept(id, err))
	}
	return &ConflictError{Effect: id, Result: *before.Result, Conflicting: r}
}

// settle settles the effect unless it is settled already: then it returns what it was.
func (c *Client) settle(ctx context.Context, id string, r Result, by mark) (before *state, err error) {
	for {
		before = nil
		_, err = c.protocol.Update(ctx, storeOf(id), nil, "settlement", func(now stores.Snapshot) (*stores.Mutation, error) {
			s, err := decodeState(id, now.State)
			if err != nil {
				return nil, err
			}
			if s.Status == settled {
				before = &s
				return nil, nil //nolint:nilnil // nothing is to be done
			}
			s.Status, s.Result, s.Settled = settled, &r, &by
			doc, err := encode(s)
			return &stores.Mutation{State: doc, Changed: changes(), Result: []byte("null")}, err
		})
		// Whether an unanswered change was made shows by looking again: it is the same.
		if !errors.Is(err, fencing.ErrUnknown) || ctx.Err() != nil {
			return before, err
		}
	}
}
