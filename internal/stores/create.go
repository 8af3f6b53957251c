package stores

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Create returns the store, and makes it of the initial state if it does not exist:
// then its version is 0. (RFC 005, getOrCreate.) Of several creators one wins, and
// all are given its store. initial is called only if the store is absent; it may be
// nil where that is an error, a [*NotFoundError].
func (c *Client) Create(ctx context.Context, key execution.StoreID, initial func() ([]byte, error)) (Snapshot, error) {
	var out Snapshot
	_, err := c.mutate(ctx, mutation{
		subject: subject{key: key}, op: "creation", identity: true,
		decide: func(l *look) (*plan, error) {
			if l.rec != nil {
				out = snapshot(l.rec)
				return nil, nil //nolint:nilnil // nothing is to be done
			}
			if initial == nil {
				return nil, &NotFoundError{key}
			}
			state, err := initial()
			if err == nil {
				err = validateDocument("state", state)
			}
			if err != nil {
				return nil, err
			}
			now := time.Now().UnixMilli()
			p := &plan{next: &record.Store{Instance: newInstance(), Created: now, Updated: now, State: state}}
			out = snapshot(p.next)
			return p, nil
		},
	})
	if err != nil {
		return Snapshot{}, err
	}
	return out, nil
}
