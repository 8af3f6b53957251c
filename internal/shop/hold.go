package shop

import (
	"context"
	"fmt"
	"slices"
)

// Holds makes the provider withhold answers, so that a demonstration can do
// something to a worker that is in the middle of a charge: the charge is on the
// ledger, its worker does not know.
type Holds struct {
	// After says how many final answers come before each hold, that one included,
	// in rising order. Of the answers to the same worker at most one is withheld.
	After []int
	// Declined: a refusal of the card is a final answer too, not only a charge.
	Declined bool
}

// holder keeps count of the final answers. Its user guards it.
type holder struct {
	Holds
	finals  int
	workers []string        // whose answers are, or were, withheld
	release []chan struct{} // one a hold; closed when its answer may go
}

func newHolder(h Holds) *holder {
	hr := &holder{Holds: h}
	for range h.After {
		hr.release = append(hr.release, make(chan struct{}))
	}
	return hr
}

// next says which hold, counted from 1, the answer to the worker falls under; 0: none.
func (h *holder) next(a Answer, worker string) int {
	if a != AnswerCharged && a != AnswerRepeated && (a != AnswerDeclined || !h.Declined) {
		return 0
	}
	h.finals++
	if n := len(h.workers); n < len(h.After) && h.finals >= h.After[n] && !slices.Contains(h.workers, worker) {
		h.workers = append(h.workers, worker)
		return n + 1
	}
	return 0
}

// let releases the hold.
func (h *holder) let(hold int) error {
	if hold < 1 || hold > len(h.release) {
		return fmt.Errorf("there is no hold %d", hold)
	}
	select {
	case <-h.release[hold-1]:
	default:
		close(h.release[hold-1])
	}
	return nil
}

// wait returns once the hold was released, or false if ctx ended first.
func (h *holder) wait(ctx context.Context, hold int) bool {
	select {
	case <-h.release[hold-1]:
		return true
	case <-ctx.Done():
		return false
	}
}
