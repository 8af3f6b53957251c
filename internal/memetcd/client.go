package memetcd

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// client is a client of a server, with the name and the gate that its calls have.
type client struct {
	server *Server
	name   string
	gate   Gate
}

// Client returns a client whose calls pass the gate under the name. A nil gate lets
// everything pass at once.
func (s *Server) Client(name string, gate Gate) etcd.Store {
	return &client{server: s, name: name, gate: gate}
}

// Txn runs the transaction. A gated client's may take effect after ctx has ended, as
// long as the server is not closed: it must not be changed afterwards.
func (c *client) Txn(ctx context.Context, txn *etcd.Txn) (*etcd.TxnResult, error) {
	return send(ctx, c, Call{Operation: Txn, Txn: txn}, func(call *Call) (*etcd.TxnResult, error) {
		call.Result, call.Err = c.server.txn(txn)
		if call.Err == nil {
			call.Revision = call.Result.Revision
		}
		return call.Result, call.Err
	})
}

// Get reads linearizably.
func (c *client) Get(ctx context.Context, get etcd.Get) (etcd.Result, int64, error) {
	type answer struct {
		result   etcd.Result
		revision int64
	}
	a, err := send(ctx, c, Call{Operation: Get, Get: get}, func(call *Call) (answer, error) {
		call.Read, call.Revision, call.Err = c.server.get(get)
		return answer{call.Read, call.Revision}, call.Err
	})
	return a.result, a.revision, err
}

// Grant makes an etcd lease of whole seconds, rounded up.
func (c *client) Grant(ctx context.Context, ttl time.Duration) (etcd.LeaseID, time.Duration, error) {
	type answer struct {
		id  etcd.LeaseID
		ttl time.Duration
	}
	a, err := send(ctx, c, Call{Operation: Grant, TTL: ttl}, func(call *Call) (answer, error) {
		call.Lease, call.TTL, call.Err = c.server.grant(ttl)
		return answer{call.Lease, call.TTL}, call.Err
	})
	return a.id, a.ttl, err
}

// KeepAlive renews the etcd lease.
func (c *client) KeepAlive(ctx context.Context, id etcd.LeaseID) (time.Duration, error) {
	return send(ctx, c, Call{Operation: KeepAlive, Lease: id}, func(call *Call) (time.Duration, error) {
		call.TTL, call.Err = c.server.keepAlive(id)
		return call.TTL, call.Err
	})
}

// Revoke ends the etcd lease.
func (c *client) Revoke(ctx context.Context, id etcd.LeaseID) error {
	_, err := send(ctx, c, Call{Operation: Revoke, Lease: id}, func(call *Call) (struct{}, error) {
		call.Err = c.server.revoke(id)
		return struct{}{}, call.Err
	})
	return err
}

type answer[T any] struct {
	value T
	err   error
}

// send makes a call. One that passes a gate goes on without its caller, who may
// have ended its context.
func send[T any](ctx context.Context, c *client, call Call, apply func(*Call) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, fmt.Errorf("etcd: %w", err)
	}
	if c.gate == nil {
		return apply(&call)
	}
	if err := c.server.enter(); err != nil {
		return none, err
	}
	call.Client, call.Gone = c.name, ctx.Done()
	answers := make(chan answer[T], 1)
	go func() {
		defer c.server.running.Done()
		answers <- pass(c, call, apply)
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answers: // it came at the same time
		return a.value, a.err
	default:
		return none, fmt.Errorf("etcd: %w", ctx.Err())
	}
}

// pass takes a call through the gate, to its effect, and through the gate again.
func pass[T any](c *client, call Call, apply func(*Call) (T, error)) (a answer[T]) {
	call.Phase = Before
	if a.err = c.gate(c.server.closed, call); a.err != nil {
		return a
	}
	a.value, a.err = apply(&call)
	call.Phase = After
	if err := c.gate(c.server.closed, call); err != nil {
		return answer[T]{err: err}
	}
	return a
}
