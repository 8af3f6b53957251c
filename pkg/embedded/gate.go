package embedded

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gate lets no other process in before the start is complete: etcd serves before
// this package has said that the data is to stay.
type gate struct {
	opened chan struct{}
	closed chan struct{}
}

func newGate() *gate {
	return &gate{opened: make(chan struct{}), closed: make(chan struct{})}
}

// open lets requests in. Neither it nor close is called twice.
func (g *gate) open() { close(g.opened) }

// close turns away who still waits.
func (g *gate) close() { close(g.closed) }

func (g *gate) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(g.unary), grpc.ChainStreamInterceptor(g.stream)}
}

func (g *gate) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := g.wait(ctx); err != nil {
		return nil, err
	}
	return handle(ctx, req)
}

func (g *gate) stream(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := g.wait(stream.Context()); err != nil {
		return err
	}
	return handle(server, stream)
}

func (g *gate) wait(ctx context.Context) error {
	select {
	case <-g.opened:
		return nil
	case <-g.closed:
		return status.Error(codes.Unavailable, "embedded etcd did not start")
	case <-ctx.Done():
		return ctx.Err()
	}
}
