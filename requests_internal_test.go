package holdfast

// White-box: the store is chosen below the exported options.

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/testetcd"
)

// An execution of n steps costs n + 3 writing transactions: admit, claim,
// acknowledge and one a step.
func TestRequestsOfAnExecution(t *testing.T) {
	t.Parallel()
	const n = 10
	store, counts := testetcd.Recorder(t, testetcd.Start(t))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := newClient(ctx, clientConfig{logger: zap.NewNop()}, store, testetcd.Space(t))
	if err != nil {
		t.Fatal(err)
	}
	def := Define("shop", func(ctx Context, in int) (int, error) {
		for i := range n {
			if _, err := Step(ctx, fmt.Sprintf("step-%d", i), value(i)); err != nil {
				return 0, err
			}
		}
		return in, nil
	})
	w, err := NewWorker(c, def)
	if err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(running) }()
	for i := range 3 {
		before := counts.Txns.Load() - counts.Reads.Load()
		h, err := def.Start(ctx, c, i)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Result(ctx); err != nil {
			t.Fatal(err)
		}
		// The first claim is preceded by the worker's own record.
		if writes := counts.Txns.Load() - counts.Reads.Load() - before; i > 0 && writes != n+3 {
			t.Errorf("execution %d: %d writing transactions, want %d", i, writes, n+3)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
