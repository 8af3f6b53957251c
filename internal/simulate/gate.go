package simulate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/holdfast-io/holdfast/internal/memetcd"
)

var (
	errDropped = errors.New("simulated: no answer")
	errDead    = errors.New("simulated: the process is dead")
)

// A fate is what becomes of a call that is let go.
type fate int

const (
	passes     fate = iota
	loseAnswer      // it takes effect, and the caller gets no answer
	loseCall        // it takes no effect, and the caller gets no answer
)

// A parked call waits for the scheduler.
type parked struct {
	call    memetcd.Call
	order   string // who, what and which keys: what the choice depends on
	what    string // the operation
	arrival int    // among those that are alike
	release chan fate
}

// A gate parks the calls of all nodes. The scheduler lets one go at a time, so the
// next answer is always that of the last call it let go.
type gate struct {
	names *names

	mu      sync.Mutex
	waiting []*parked
	dead    map[string]bool
	fate    fate // of the call that was let go last
	answer  func(memetcd.Call, fate)
	count   int
}

// pass is the memetcd.Gate of every node.
func (g *gate) pass(ctx context.Context, call memetcd.Call) error {
	if call.Phase == memetcd.After {
		return g.after(call)
	}
	p := &parked{call: call, release: make(chan fate, 1)}
	g.mu.Lock()
	if g.dead[call.Client] {
		g.mu.Unlock()
		return errDead
	}
	g.count++
	p.arrival = g.count
	g.names.learn(call)
	p.what = string(call.Operation)
	if call.Txn != nil {
		p.what = g.names.operation(call.Txn)
	}
	p.order = g.names.order(call, p.what)
	g.waiting = append(g.waiting, p)
	g.mu.Unlock()
	select {
	case f := <-p.release:
		if f == loseCall {
			return errDropped
		}
		return nil
	case <-ctx.Done():
		g.remove(p)
		return ctx.Err()
	}
}

func (g *gate) after(call memetcd.Call) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.fate
	g.answer(call, f)
	if f == loseAnswer || g.dead[call.Client] {
		return errDropped
	}
	return nil
}

func (g *gate) remove(p *parked) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(q *parked) bool { return p == q })
}

// eligible lists the waiting calls that are not held back, in an order
// that does not depend on which goroutine came first.
func (g *gate) eligible(held func(*parked) bool) []*parked {
	g.mu.Lock()
	defer g.mu.Unlock()
	var ps []*parked
	for _, p := range g.waiting {
		if !held(p) {
			ps = append(ps, p)
		}
	}
	slices.SortFunc(ps, func(a, b *parked) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.arrival, b.arrival))
	})
	return ps
}

// let lets a call go.
func (g *gate) let(p *parked, f fate) {
	g.remove(p)
	g.mu.Lock()
	g.fate = f
	g.mu.Unlock()
	p.release <- f
}

// kill makes a client's calls fail from now on. Those that wait are already on
// their way.
func (g *gate) kill(client string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead[client] = true
}
