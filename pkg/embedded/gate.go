package embedded

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gate lets no other process in before the start is complete, and ends the
// watches and other streams of those that are in when the server closes. Etcd
// waits for them, until its timeout of several seconds.
type gate struct {
	opened chan struct{}
	closed context.Context //nolint:containedctx // closed together with all streams
	close  context.CancelFunc
}

func newGate() *gate {
	closed, end := context.WithCancel(context.Background())
	return &gate{opened: make(chan struct{}), closed: closed, close: end}
}

// open lets requests in, once.
func (g *gate) open() { close(g.opened) }

func (g *gate) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.unary), grpc.ChainStreamInterceptor(g.stream)}
}

func (g *gate) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := g.wait(ctx); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (g *gate) stream(server any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := g.wait(ss.Context()); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	defer context.AfterFunc(g.closed, cancel)()
	err := handle(server, stream{ss, ctx})
	if g.closed.Err() != nil {
		return errClosed
	}
	return err
}

// errClosed: to a client of a server that closes, it is unavailable, as it soon
// is; the client tries again, and finds the next server.
var errClosed = status.Error(codes.Unavailable, "embedded etcd is closed")

func (g *gate) wait(ctx context.Context) error {
	select {
	case <-g.opened:
		return nil
	case <-g.closed.Done():
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stream is a stream with a context that can be ended.
type stream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // it is what Context returns
}

func (s stream) Context() context.Context { return s.ctx }
