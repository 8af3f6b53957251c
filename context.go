package holdfast

import (
	"context"

	"github.com/holdfast-io/holdfast/internal/replay"
)

// A Context is what a workflow's function is given. It is a context.Context (its
// deadline, values and cancellation work as usual) that also knows the delivery,
// so that [Step], [Sleep] and what else is recorded can only be called by a workflow.
// Only the engine makes one; whoever wraps one embeds it. It ends with the delivery.
type Context = replay.Context

// A deliveryContext is the only Context.
type deliveryContext struct {
	context.Context //nolint:containedctx // it is one
	run             *run
}

// Delivery returns the run.
func (c *deliveryContext) Delivery() replay.Delivery { return c.run } //nolint:ireturn // it is the method of a Context

// runOf returns the run that the context is of.
func runOf(ctx Context) *run {
	r, is := ctx.Delivery().(*run)
	if !is {
		panic("holdfast: this Context was not made by the engine")
	}
	return r
}
