package fencehttp

import (
	"context"
	"sync"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// flights are the requests that are being handled, by resource. All of a resource's
// carry one token: a greater one waits until those before it are over, which are
// cancelled.
type flights struct {
	mu  sync.Mutex
	now map[Resource]*flight
}

// A flight is the requests of one resource and token. count is guarded by the mutex of
// its flights.
type flight struct {
	token  execution.Token
	count  int
	cancel context.CancelCauseFunc // ends superseded
	// superseded ends when a greater token has come; over is closed when the last
	// request has been handled.
	superseded context.Context //nolint:containedctx // a signal with a cause, for requests that come and go
	over       chan struct{}
}

// enter returns a context that ends as ctx does, or when a greater token has come, and
// the function that says that the request is over. A token that is smaller than one
// that is being handled is refused.
func (fs *flights) enter(ctx context.Context, r Resource, token execution.Token) (context.Context, func(), error) {
	for {
		f, joined := fs.join(r, token)
		switch {
		case joined:
			return f.within(ctx, func() { fs.leave(r, f) })
		case f.token > token:
			return nil, nil, stale(r, token, f.token)
		}
		f.cancel(stale(r, f.token, token))
		select {
		case <-f.over:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// join returns the resource's flight, which the request has joined if the token is the
// same.
func (fs *flights) join(r Resource, token execution.Token) (f *flight, joined bool) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	f, found := fs.now[r]
	if !found {
		f = &flight{token: token, over: make(chan struct{})}
		f.superseded, f.cancel = context.WithCancelCause(context.Background())
		if fs.now == nil {
			fs.now = map[Resource]*flight{}
		}
		fs.now[r] = f
	}
	if f.token != token || f.superseded.Err() != nil {
		return f, false
	}
	f.count++
	return f, true
}

func (fs *flights) leave(r Resource, f *flight) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if f.count--; f.count == 0 {
		delete(fs.now, r)
		f.cancel(nil)
		close(f.over)
	}
}

// within returns the request's context and its end.
func (f *flight) within(ctx context.Context, leave func()) (context.Context, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(f.superseded, func() { cancel(context.Cause(f.superseded)) })
	return ctx, func() {
		stop()
		cancel(nil)
		leave()
	}, nil
}

func stale(r Resource, carried, seen execution.Token) *StaleError {
	return &StaleError{Namespace: r.Namespace, ExecutionID: r.ExecutionID, Resource: r.Name, Carried: carried, Seen: seen}
}
