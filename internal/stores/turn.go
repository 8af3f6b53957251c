package stores

import (
	"context"
	"sync"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// turns let the calls for one store act one after the other, in the order in which
// they came.
type turns struct {
	mu     sync.Mutex
	queues map[execution.StoreID]*queue // those that somebody is in
}

// A queue holds one token, which who acts has.
type queue struct {
	token chan struct{}
	in    int // how many act or wait; guarded by turns.mu
}

// take waits for the caller's turn. The caller calls the function that it returns
// when it is done.
func (t *turns) take(ctx context.Context, key execution.StoreID) (func(), error) {
	q := t.enter(key)
	select {
	case <-q.token:
		return func() {
			q.token <- struct{}{}
			t.leave(key, q)
		}, nil
	case <-ctx.Done():
		t.leave(key, q)
		return nil, ctx.Err()
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
