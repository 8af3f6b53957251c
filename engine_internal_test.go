package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

type codedError struct{ text, code string }

func (e codedError) Error() string { return e.text }
func (e codedError) Code() string  { return e.code }

func TestOutcome(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("x", execution.MaxPayloadBytes)
	cases := []struct {
		name    string
		fn      body
		result  string // of a completed one
		message string // of a failed one
		code    string
	}{
		{name: "a result", fn: func(Context) (string, error) { return "shipped", nil }, result: `"shipped"`},
		{name: "an error", fn: func(Context) (string, error) { return "", errors.New("out of stock") }, message: "out of stock"},
		{
			name:    "an error with a code",
			fn:      func(Context) (string, error) { return "", fmt.Errorf("order: %w", codedError{"declined", "card"}) },
			message: "order: declined", code: "card",
		},
		{
			name: "a step's error, passed on",
			fn: func(ctx Context) (string, error) {
				_, err := Step(ctx, "charge", func(context.Context) (string, error) { return "", codedError{"declined", "card"} })
				return "", fmt.Errorf("order: %w", err)
			},
			message: `order: step "charge" failed: declined`, code: "card",
		},
		{
			name:    "a result over the limit",
			fn:      func(Context) (string, error) { return huge, nil },
			message: `result of workflow "shop" is too large: 1048578 bytes, the limit is 1048576`,
		},
		{
			name: "an error with a message over the limit",
			fn:   func(Context) (string, error) { return "", errors.New(huge) }, message: huge[:maxMessageBytes] + "…",
		},
		{
			name: "an error with a message that is not UTF-8",
			fn:   func(Context) (string, error) { return "", errors.New("bad \xff byte") }, message: "bad � byte",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := newBench(t).deliver(c.fn)
			if c.message == "" {
				wantCompleted(t, v, c.result)
				return
			}
			wantFailed(t, v, c.message)
			wantEqual(t, "code", v.outcome.Error.Code, c.code)
		})
	}
}

func TestResultThatIsNotJSON(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.run(t.Context(), nil, Define("shop", func(Context, any) (float64, error) { return math.Inf(1), nil }))
	wantFailed(t, v, `workflow "shop": result can't be encoded as JSON: json: unsupported value: +Inf`)
}

func TestParams(t *testing.T) {
	t.Parallel()
	type order struct{ Cents int }
	def := Define("shop", func(_ Context, o order) (int, error) { return o.Cents, nil })
	cases := []struct {
		name, params, result string
	}{
		{"that fit", `{"Cents":42}`, "42"},
		{"null", `null`, "0"},
		{"none", ``, "0"},
		{"that do not fit", `{"Cents":"many"}`, ""},
		{"that are not JSON", `{`, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.params = json.RawMessage(c.params)
			v := b.run(t.Context(), nil, def)
			if c.result != "" {
				wantCompleted(t, v, c.result)
				return
			}
			err := retried(t, v)
			if !strings.Contains(err.Error(), `params of workflow "shop" do not fit`) {
				t.Errorf("error: %v", err)
			}
		})
	}
}

func TestUnknownWorkflowIsRetried(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.engine.deliver(t.Context(), execution.Delivery{Workflow: "shop"}, nil)
	wantEqual(t, "error", retried(t, v).Error(), `workflow "shop" is not registered with this worker`)
}

func TestReadOfTheRecords(t *testing.T) {
	t.Parallel()
	fn := func(ctx Context) (string, error) { return Step(ctx, "a", value("x")) }
	away := errors.New("etcd is away")
	cases := []struct {
		name  string
		err   error
		cause error
		check func(*testing.T, verdict)
	}{
		{"fails", away, nil, func(t *testing.T, v verdict) { wantEqual(t, "error", retried(t, v), away) }},
		{"is refused as lost", &execution.LostError{}, nil, wantLost},
		{"is cut short by the loss", away, execution.ErrLost, wantLost},
		{"is cut short by a drain", away, execution.ErrDraining, wantHandover},
		{"is cut short by an unconfirmed renewal", away, execution.ErrUnconfirmed, func(t *testing.T, v verdict) {
			wantEqual(t, "cause", errors.Is(retried(t, v), execution.ErrUnconfirmed), true)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.token++ // not the first delivery, which reads nothing
			b.steps.read = c.err
			ctx, cancel := context.WithCancelCause(t.Context())
			if c.cause != nil {
				cancel(c.cause)
			}
			defer cancel(nil)
			c.check(t, b.deliverWith(ctx, nil, fn))
			wantEqual(t, "writes", len(b.steps.writes), 0)
		})
	}
}

func TestFirstDeliveryReadsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.steps.read = errors.New("a first delivery has nothing to read")
	wantCompleted(t, b.deliver(func(Context) (string, error) { return "", nil }), `""`)
}

func TestSuspensionOutOfNothingIsRetried(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.deliver(func(Context) (string, error) { return "", ErrSuspended })
	wantEqual(t, "error", retried(t, v).Error(), `workflow "shop" returned ErrSuspended, but no step of this delivery did`)
}

func TestFailedSaysFalseForASuspension(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"a suspension", ErrSuspended, false},
		{"a wrapped suspension", fmt.Errorf("ship: %w", ErrSuspended), false},
		{"a joined suspension", errors.Join(errors.New("other"), ErrSuspended), false},
		{"a step's error", &StepError{}, true},
		{"any error", errors.New("other"), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantEqual(t, "Failed", Failed(c.err), c.want)
		})
	}
}
