package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/holdfast-io/holdfast/pkg/dispatch"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/heap"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// workflow is the only workflow, and its queue.
const workflow = "w"

// A play is one delivery of an execution: some steps, each of which takes a while,
// with waits, failures and wakes between them. What it does follows from the seed,
// the execution and how often that was claimed.
type play struct {
	world      *world
	executions *leasing.Client
	steps      *heap.Client
	delivery   execution.Delivery
}

// draw returns a number below n that follows from the seed and the words.
func (w *world) draw(n int, words ...any) int {
	h := fnv.New64a()
	fmt.Fprint(h, w.seed, words)
	return int(h.Sum64() % uint64(n))
}

func (p *play) draw(n int, what string) int {
	return p.world.draw(n, string(p.delivery.ID), p.delivery.Token, what)
}

// span draws a duration. It is drawn in microseconds, so that hardly two things
// happen at the same instant: which comes first would not be the schedule's choice.
func (w *world) span(most time.Duration, words ...any) time.Duration {
	return time.Duration(w.draw(int(most/time.Microsecond), words...)) * time.Microsecond
}

func (p *play) span(most time.Duration, what string) time.Duration {
	return p.world.span(most, string(p.delivery.ID), p.delivery.Token, what)
}

func (p *play) deliver(ctx context.Context, drain <-chan struct{}) dispatch.Reply {
	recorded := map[string]bool{}
	if !p.delivery.First {
		steps, err := p.steps.Read(ctx, p.delivery.Lease)
		if err != nil {
			return dispatch.Reply{Retry: err}
		}
		for _, st := range steps {
			recorded[st.Key] = true
		}
	}
	for i := range stepsEach {
		key := fmt.Sprint("step-", i)
		if recorded[key] {
			continue
		}
		select {
		case <-drain:
			return dispatch.Reply{Outcome: &execution.Outcome{Kind: execution.Suspended, Handover: true}}
		default:
		}
		if reply, ended := p.step(ctx, key); ended {
			return reply
		}
	}
	return dispatch.Reply{Outcome: &execution.Outcome{Kind: execution.Completed, Result: json.RawMessage(`"done"`)}}
}

// step runs one step; ended: the delivery is over.
func (p *play) step(ctx context.Context, key string) (reply dispatch.Reply, ended bool) {
	cut := pause(ctx, p.span(700*time.Millisecond, key))
	if cut && p.draw(2, "stubborn "+key) == 0 {
		return dispatch.Reply{Retry: context.Cause(ctx)}, true
	}
	if errors.Is(context.Cause(ctx), execution.ErrLost) {
		return dispatch.Reply{Lost: true}, true
	}
	err := p.write(context.WithoutCancel(ctx), key)
	switch {
	case errors.Is(err, execution.ErrLost):
		return dispatch.Reply{Lost: true}, true
	case err != nil:
		return dispatch.Reply{Retry: err}, true
	}
	switch p.draw(8, "after "+key) {
	case 0:
		return dispatch.Reply{Retry: errors.New("simulated failure")}, true
	case 1:
		wake := p.world.wall().Add(p.span(1500*time.Millisecond, "wake "+key))
		return dispatch.Reply{Outcome: &execution.Outcome{Kind: execution.Suspended, Wake: wake}}, true
	case 2:
		_ = p.executions.RequestWake(ctx, p.delivery.ID, p.world.wall()) // unfenced: stale or not
		return dispatch.Reply{Outcome: &execution.Outcome{Kind: execution.Suspended}}, true
	}
	return dispatch.Reply{}, false
}

// write records the step, and tells the world of what was accepted: nothing of it
// may ever be lost.
func (p *play) write(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*leaseDuration)
	defer cancel()
	response := json.RawMessage(fmt.Sprintf(`"%s by %s"`, key, p.world.alias(p.delivery.Lease)))
	st, err := p.steps.WriteStep(ctx, p.delivery.Lease, execution.StepWrite{Key: key, Done: true, Response: response})
	if err == nil {
		p.world.accepted(p.delivery.Lease, st)
	}
	return err
}

// pause waits, and says whether ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() != nil
}
