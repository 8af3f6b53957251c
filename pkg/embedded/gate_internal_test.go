package embedded

// This test is inside the package: no request can be timed to come between etcd's
// first service and the end of the start.

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestGateLetsInOnceOpen(t *testing.T) {
	g := newGate()
	answered := make(chan any, 1)
	go func() {
		answer, err := g.unary(t.Context(), nil, nil, func(context.Context, any) (any, error) { return "answer", nil })
		if err != nil {
			answer = err
		}
		answered <- answer
	}()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.unary(ended, nil, nil, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("before it is open, with an ended context: got %v", err)
	}
	select {
	case got := <-answered:
		t.Fatalf("before it is open: got %v", got)
	default:
	}
	g.open()
	if got := <-answered; got != "answer" {
		t.Fatalf("once it is open: got %v", got)
	}
}

func TestGateThatClosesUnopened(t *testing.T) {
	g := newGate()
	g.close()
	if _, err := g.unary(t.Context(), nil, nil, nil); status.Code(err) != codes.Unavailable {
		t.Fatalf("got %v, want that the server is unavailable", err)
	}
}
