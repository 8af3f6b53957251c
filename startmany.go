package holdfast

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// An Entry is one of the executions that [Workflow.StartMany] starts.
type Entry[In any] struct {
	// ID is the execution's, as [WithID] gives it; default: a random one, which makes
	// the entry another execution each time that it is started.
	ID    string
	Input In
}

// A StartOutcome is what an [Entry] came to: the handle of its execution, or an error,
// as by [Workflow.Start].
type StartOutcome[Out any] struct {
	Handle Handle[Out]
	Err    error
}

// StartMany starts many executions, each as [Workflow.Start] does, with few requests: up
// to 124 of them in one. The options are those of each; their ids are in the entries.
// Entries have their outcomes in the same order, and one that fails does not keep the
// others from starting.
//
// The error says that etcd did not answer, or that ctx ended; then it is also that of
// the entries that were not answered, some of which may have started. To go on, after
// that or a crash, start the same entries again: those that have IDs and started are
// [Handle.Existing] ones. A mistake in the call itself gives an error and no outcomes.
func (w *Workflow[In, Out]) StartMany(ctx context.Context, c *Client, entries []Entry[In], opts ...StartOption) ([]StartOutcome[Out], error) {
	if err := w.check(); err != nil {
		return nil, fmt.Errorf("start many: %w", err)
	}
	cfg, err := newStartConfig(opts)
	switch {
	case err == nil && cfg.given:
		err = errors.New("WithID is for one execution; give the entries their IDs")
	case err == nil && c == nil:
		err = errNoClient
	}
	if err != nil {
		return nil, fmt.Errorf("start many of workflow %q: %w", w.name, err)
	}
	outcomes := make([]StartOutcome[Out], len(entries))
	reqs, at := make([]execution.AdmitRequest, 0, len(entries)), make([]int, 0, len(entries))
	for i, entry := range entries {
		cfg.id = execution.ID(entry.ID)
		req, err := w.request(cfg, entry.Input)
		if err != nil {
			outcomes[i].Err = fmt.Errorf("start workflow %q: %w", w.name, err)
			continue
		}
		reqs, at = append(reqs, req), append(at, i)
	}
	answers, err := c.executions.AdmitMany(ctx, reqs)
	for i, a := range answers {
		o := &outcomes[at[i]]
		if a.Err != nil {
			o.Err = fmt.Errorf("start workflow %q: %w", w.name, a.Err)
			continue
		}
		o.Handle = Handle[Out]{client: c, id: a.ID, existing: a.Existing}
	}
	if err != nil {
		return outcomes, fmt.Errorf("start many of workflow %q: %w", w.name, err)
	}
	return outcomes, nil
}
