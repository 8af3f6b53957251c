package memetcd

import (
	"context"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// Watch begins before it returns. The channel also closes when the server does.
func (c *client) Watch(ctx context.Context, start, end string, revision int64) <-chan etcd.Batch {
	batches := make(chan etcd.Batch, 1)
	err := c.server.enter()
	if err == nil {
		var w *watcher
		if w, err = c.server.watch(span{start, end}, revision, c.gate != nil); err == nil {
			go func() {
				defer c.server.running.Done()
				c.follow(ctx, w, batches)
			}()
			return batches
		}
		c.server.running.Done()
	}
	batches <- etcd.Batch{Err: err}
	close(batches)
	return batches
}

// follow delivers until the watch ends, and tells why unless that is its own
// context. A reader who is slow may miss that the server was closed, but not that
// the channel was.
func (c *client) follow(ctx context.Context, w *watcher, batches chan<- etcd.Batch) {
	defer close(batches)
	defer c.server.unwatch(w)
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.server.closed, cancel)()
	for c.server.await(open, w) {
		b := c.deliver(open, w)
		if open.Err() != nil {
			break // what the gate says then is no reason
		}
		select {
		case batches <- b:
		case <-open.Done():
		}
		if b.Err != nil {
			break
		}
	}
	if ctx.Err() == nil && c.server.closed.Err() != nil {
		select {
		case batches <- etcd.Batch{Err: errClosed}:
		default:
		}
	}
}

// await waits until there is something to take.
func (s *Server) await(open context.Context, w *watcher) bool {
	for open.Err() == nil {
		if _, ok := s.next(w); ok {
			return true
		}
		select {
		case <-w.wake:
		case <-open.Done():
		}
	}
	return false
}

// deliver takes a batch, through the gate if there is one.
func (c *client) deliver(open context.Context, w *watcher) etcd.Batch {
	if c.gate == nil {
		return c.server.take(w)
	}
	call := Call{Client: c.name, Operation: Watch, Phase: Before, Key: w.span.start, End: w.span.end, Gone: open.Done()}
	call.Revision, _ = c.server.next(w)
	if err := c.gate(open, call); err != nil {
		return etcd.Batch{Err: err}
	}
	b := c.server.take(w)
	call.Phase, call.Batch, call.Revision, call.Err = After, b, b.Revision, b.Err
	if err := c.gate(open, call); err != nil {
		return etcd.Batch{Err: err}
	}
	return b
}
