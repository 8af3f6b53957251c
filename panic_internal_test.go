package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
)

// An explosive value panics when it is encoded or decoded.
type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error)  { panic("boom") }
func (*explosive) UnmarshalJSON(_ []byte) error { panic("boom") }

// A nilError panics when its message is asked for.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func TestPanicIsAFailedDelivery(t *testing.T) {
	t.Parallel()
	boom := func(context.Context) (string, error) { panic("boom") }
	cases := []struct {
		name  string
		fn    body
		where string
	}{
		{"in the workflow", func(Context) (string, error) { panic("boom") }, `workflow "shop"`},
		{"in a step", func(ctx Context) (string, error) { return Step(ctx, "charge", boom) }, `step "charge"`},
		{"in a step of an errgroup", func(ctx Context) (string, error) {
			var g errgroup.Group
			g.Go(func() error { _, err := Step(ctx, "charge", boom); return err })
			return "", g.Wait()
		}, `step "charge"`},
		{"in a step whose suspension is swallowed", func(ctx Context) (string, error) {
			_, _ = Step(ctx, "charge", boom)
			return "done", nil
		}, `step "charge"`},
		{"in the encoding of a result", func(ctx Context) (string, error) {
			_, err := Step(ctx, "charge", value(explosive{}))
			return "", err
		}, `step "charge"`},
		{"in the message of a step's error", func(ctx Context) (string, error) {
			return Step(ctx, "charge", func(context.Context) (string, error) { return "", (*nilError)(nil) })
		}, `step "charge"`},
		{"in the message of the workflow's error", func(Context) (string, error) { return "", (*nilError)(nil) }, `workflow "shop"`},
		{"by Goexit in the workflow", func(Context) (string, error) { runtime.Goexit(); return "", nil }, `workflow "shop"`},
		{"by Goexit in a step of an errgroup", func(ctx Context) (string, error) {
			var g errgroup.Group
			g.Go(func() error {
				_, err := Step(ctx, "charge", func(context.Context) (string, error) { runtime.Goexit(); return "", nil })
				return err
			})
			return "done", g.Wait()
		}, `step "charge"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			err := retried(t, b.deliver(c.fn))
			var p *PanicError
			if !errors.As(err, &p) {
				t.Fatalf("got %T %v, want a *PanicError", err, err)
			}
			wantEqual(t, "where", p.Where, c.where)
			if !strings.Contains(p.Stack, "panic_internal_test.go:") {
				t.Errorf("the stack does not show the place:\n%s", p.Stack)
			}
			wantEqual(t, "log lines with the stack", b.logs.FilterField(logged("stack", []string{p.Stack})).Len(), 1)
			wantEqual(t, "writes", len(b.steps.writes), 0)
		})
	}
}

func TestPanicErrorSaysWhere(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	err := retried(t, b.deliver(func(ctx Context) (string, error) {
		return Step(ctx, "charge", func(ctx context.Context) (string, error) {
			return []string{}[len(Fence(ctx).Key)], nil
		})
	}))
	text := err.Error()
	if !strings.HasPrefix(text, `panic in step "charge" at panic_internal_test.go:`) || !strings.HasSuffix(text, ": runtime error: index out of range [35] with length 0") {
		t.Errorf("got %q", text)
	}
}

func TestPanicInADecoderIsAFailedDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.token++
	w := `"x"`
	b.steps.recs[memKey{"charge", 0}] = resultRecord("charge", w)
	wantRetry(t, b.deliver(func(ctx Context) (string, error) {
		_, err := Step(ctx, "charge", value(explosive{}))
		return "", err
	}))
	b.params = json.RawMessage(w)
	err := retried(t, b.run(t.Context(), nil, Define("shop", func(Context, explosive) (int, error) { return 0, nil })))
	wantEqual(t, "a panic", errors.As(err, new(*PanicError)), true)
}

func TestStepsAfterAPanicRunNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.deliver(func(ctx Context) (string, error) {
		_, err := Step(ctx, "charge", func(context.Context) (string, error) { panic("boom") })
		wantEqual(t, "Failed", Failed(err), false)
		return Step(ctx, "refund", refuse(t))
	})
	wantRetry(t, v)
	wantEqual(t, "writes", len(b.steps.writes), 0)
}
