package demo

import "sync"

// An inbox is a queue without a bound: to put something in never blocks, so that
// the one goroutine that takes things out may itself wait for whoever puts in.
type inbox struct {
	wake chan struct{} // holds one element while there may be something

	mu    sync.Mutex
	items []any
}

func newInbox() *inbox { return &inbox{wake: make(chan struct{}, 1)} }

func (b *inbox) put(item any) {
	b.mu.Lock()
	b.items = append(b.items, item)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns everything that was put in since the last call, in its order.
func (b *inbox) take() []any {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items = nil
	return items
}
