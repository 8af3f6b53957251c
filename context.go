package holdfast

import "context"

// A Context is what a workflow's function is given. It is a context.Context (its
// deadline, values and cancellation work as usual) that also knows the delivery,
// so that [Step] and [Sleep] can only be called by a workflow. Only the engine
// makes one. It ends with the delivery.
type Context interface {
	context.Context
	delivery() *run
}

// A deliveryContext is the only Context.
type deliveryContext struct {
	context.Context //nolint:containedctx // it is one
	run             *run
}

func (c *deliveryContext) delivery() *run { return c.run }
