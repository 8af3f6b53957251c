package holdfast_test

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

var noop = holdfast.Define("noop", func(holdfast.Context, int) (int, error) { return 0, nil })

// Nothing waits for a client that was closed, also without a deadline.
func TestClosedClient(t *testing.T) {
	open := func() *holdfast.Client {
		c, err := holdfast.Open(t.Context(), holdfast.Endpoints(testetcd.Endpoint(t)), holdfast.Namespace(t.Name()))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := open()
	h, err := noop.Start(t.Context(), c, 1)
	if err != nil {
		t.Fatal(err)
	}
	w, err := holdfast.NewWorker(c, noop)
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := h.Result(context.Background())
		waiting <- err
	}()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err == nil {
		t.Error("a pending Result: no error")
	}
	for name, call := range map[string]func(context.Context) error{
		"Start":  func(ctx context.Context) error { _, err := noop.Start(ctx, c, 2); return err },
		"Result": func(ctx context.Context) error { _, err := h.Result(ctx); return err },
		"Get":    func(ctx context.Context) error { _, err := c.Get(ctx, h.ID()); return err },
		"List":   func(ctx context.Context) error { _, err := c.List(ctx, execution.ListRequest{}); return err },
		"Cancel": func(ctx context.Context) error { return c.Cancel(ctx, h.ID(), "") },
		"Run":    w.Run,
	} {
		if err := call(context.Background()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNilOptionsAreRefused(t *testing.T) {
	if _, err := holdfast.Open(t.Context(), nil); err == nil {
		t.Error("Open: accepted")
	}
	var none holdfast.DefineOption
	c, err := holdfast.Open(t.Context(), holdfast.Etcd(testetcd.Client(t)), holdfast.Namespace(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	bad := holdfast.Define("bad", func(holdfast.Context, int) (int, error) { return 0, nil }, none)
	if _, err := holdfast.NewWorker(c, bad); err == nil {
		t.Error("Define: accepted")
	}
	if _, err := noop.Start(t.Context(), c, 1, nil); err == nil {
		t.Error("Start: accepted")
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
}
