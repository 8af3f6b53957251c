package holdfast

import (
	"context"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Delete removes an execution that has completed or failed, with all that is recorded
// of it; its id is free afterwards. Whoever still holds a lease of it is refused, and
// one that is started with its id begins from nothing. An execution that goes on
// gives an error that wraps [execution.ErrNotTerminal]: cancel it first. An unknown
// id gives one that wraps [execution.ErrNotFound].
//
// It deletes in small pieces. If it is cut short, deleting again goes on, and so does
// any worker; until then the execution can be read as it ended.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.executions.Delete(ctx, execution.ID(id))
}
