package holdfasttest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// counts is what is known of what all workers did.
type counts struct {
	mu        sync.Mutex
	calls     map[string]int // of a step's function, by name
	running   map[string]int // of those, how many have not returned
	refused   []*execution.LostError
	takeovers int
}

// call calls the function of a step.
func (c *counts) call(ctx context.Context, step string, fn func(context.Context) (any, error)) (any, error) {
	c.begin(step)
	defer c.finish(step)
	return fn(ctx)
}

func (c *counts) begin(step string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls, c.running = map[string]int{}, map[string]int{}
	}
	c.calls[step]++
	c.running[step]++
}

func (c *counts) finish(step string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[step]--; c.running[step] == 0 {
		delete(c.running, step)
	}
}

// observe is the observer of every client.
func (c *counts) observe(e execution.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Kind == execution.EventTakeover {
		c.takeovers++
	}
	var lost *execution.LostError
	if e.Kind == execution.EventRefused && errors.As(e.Err, &lost) {
		c.refused = append(c.refused, lost)
	}
}

func (c *counts) of(step string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[step]
}

func (c *counts) refusals() []*execution.LostError {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused)
}

func (c *counts) takeoverCount() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.takeovers
}

// left returns the steps whose functions have not returned.
func (c *counts) left() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name := range c.running {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
