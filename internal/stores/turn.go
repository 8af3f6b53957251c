package stores

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// turns let the calls for one store act one after the other, in the order in which
// they came.
type turns struct {
	// slow is called once for a call that waits for longer than turnPatience; nil:
	// nobody is told.
	slow func(execution.StoreID)

	mu     sync.Mutex
	queues map[execution.StoreID]*queue // those that somebody is in
}

// A queue holds one token, which who acts has.
type queue struct {
	token chan struct{}
	in    int // how many act or wait; guarded by turns.mu
}

// turnPatience is how long a call waits for its turn before somebody is told.
const turnPatience = 10 * time.Second

// take waits for the caller's turn. The caller calls the function that it returns
// when it is done. Who has the turn and asks for it again, as an updater does that calls
// its own store, waits for itself, until ctx ends.
func (t *turns) take(ctx context.Context, key execution.StoreID) (func(), error) {
	q := t.enter(key)
	patience := time.NewTimer(turnPatience)
	defer patience.Stop()
	for {
		select {
		case <-q.token:
			return func() {
				q.token <- struct{}{}
				t.leave(key, q)
			}, nil
		case <-patience.C:
			if t.slow != nil {
				t.slow(key)
			}
		case <-ctx.Done():
			t.leave(key, q)
			return nil, fmt.Errorf("it waited for its turn behind another call of this process for the same store: %w", ctx.Err())
		}
	}
}

func (t *turns) enter(key execution.StoreID) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	q, found := t.queues[key]
	if !found {
		q = &queue{token: make(chan struct{}, 1)}
		q.token <- struct{}{}
		if t.queues == nil {
			t.queues = map[execution.StoreID]*queue{}
		}
		t.queues[key] = q
	}
	q.in++
	return q
}

func (t *turns) leave(key execution.StoreID, q *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.in--; q.in == 0 {
		delete(t.queues, key)
	}
}
