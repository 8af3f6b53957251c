package execution_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestFencingIsValidated(t *testing.T) {
	t.Parallel()
	good := execution.Fencing{Key: "hf-1", Token: 7, Namespace: "default", ExecutionID: "order-42", Step: "charge"}
	without := func(change func(*execution.Fencing)) execution.Fencing {
		f := good
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		fencing execution.Fencing
		want    string // of the error; empty: it is valid
	}{
		"of a step":              {good, ""},
		"without key and step":   {without(func(f *execution.Fencing) { f.Key, f.Step = "", "" }), ""},
		"empty":                  {execution.Fencing{}, "is empty; take it from the context that the step's function was given"},
		"token 0":                {without(func(f *execution.Fencing) { f.Token = 0 }), `fencing token "0" is not a token`},
		"a negative token":       {without(func(f *execution.Fencing) { f.Token = -7 }), `fencing token "-7" is not a token`},
		"without a namespace":    {without(func(f *execution.Fencing) { f.Namespace = "" }), `fencing namespace "" is empty`},
		"without an execution":   {without(func(f *execution.Fencing) { f.ExecutionID = "" }), `execution id "" is empty`},
		"a NUL in the key":       {without(func(f *execution.Fencing) { f.Key = "a\x00" }), "idempotency key"},
		"a broken step":          {without(func(f *execution.Fencing) { f.Step = "\xff" }), "step name"},
		"a NUL in the execution": {without(func(f *execution.Fencing) { f.ExecutionID = "a\x00" }), "holds a NUL character"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := c.fencing.Validate()
			if c.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var invalid *execution.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an *InvalidError that says %q", err, c.want)
			}
		})
	}
}

func TestFencingIsLost(t *testing.T) {
	t.Parallel()
	lost := execution.Fencing{Token: 101, Namespace: "default", ExecutionID: "order-42"}.Lost("save", 105)
	const want = `save "order-42": lease lost: carried token 101, current token 105 (by a system outside of etcd)`
	if !errors.Is(lost, execution.ErrLost) || lost.Error() != want {
		t.Errorf("got %q, want %q", lost.Error(), want)
	}
}

func TestFencingTravelsInAContext(t *testing.T) {
	t.Parallel()
	if got := execution.FencingOf(t.Context()); got != (execution.Fencing{}) {
		t.Errorf("a plain context carries %+v", got)
	}
	outer := execution.Fencing{Token: 1, Namespace: "n", ExecutionID: "outer"}
	inner := execution.Fencing{Token: 2, Namespace: "n", ExecutionID: "inner"}
	ctx, cancel := context.WithCancel(execution.WithFencing(t.Context(), outer))
	defer cancel()
	if got := execution.FencingOf(ctx); got != outer {
		t.Errorf("a derived context carries %+v", got)
	}
	if got := execution.FencingOf(execution.WithFencing(ctx, inner)); got != inner {
		t.Errorf("the inner context carries %+v", got)
	}
}
