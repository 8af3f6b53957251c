package leasing

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// opSweep is the operation of a release by sweep. Its refusal is no event: the
// delivery just ended by itself.
const opSweep = "sweep"

// sweep releases those of the claims that a scan saw that are this process's, and
// that it neither runs nor has a claim call out for: a claim whose answer was lost can arrive late. They are named by id and
// token, and count as deliveries. (I7)
func (h *Holder) sweep(ctx context.Context, held []view) error {
	h.mu.Lock()
	p := h.proc
	h.mu.Unlock()
	if p == nil {
		return nil
	}
	for _, v := range held {
		if v.live.Proc != p.name || h.runs(v) {
			continue
		}
		lease := execution.Lease{ID: v.id, Token: execution.Token(v.live.Token), Epoch: p.epoch}
		_, err := h.client.release(ctx, lease, opSweep, execution.HowReleased, "a claim that nobody ran")
		switch {
		case err == nil:
			h.client.log.Warn("a claim that nobody ran was released", zap.String("execution", string(v.id)), zap.Int64("token", v.live.Token))
			h.client.observer.Tell(execution.Event{Kind: execution.EventSwept, ID: v.id, Token: lease.Token})
		case !errors.Is(err, execution.ErrLost) && !errors.Is(err, fencing.ErrUnknown):
			return err
		}
	}
	return nil
}

func (h *Holder) runs(v view) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, held := h.held[claimKey{v.id, execution.Token(v.live.Token)}]
	return held || h.claiming[v.id]
}

// sweepPurging finishes the deletions that nobody finishes. Should one fail, the next
// scan tries again.
func (h *Holder) sweepPurging(ctx context.Context) {
	if _, err := h.client.SweepPurging(ctx); err != nil && ctx.Err() == nil {
		h.client.log.Warn("a deletion that was begun could not be finished; it is tried again", zap.Error(err))
	}
}
