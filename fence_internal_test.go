package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"errors"
	"regexp"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The key is frozen: external systems remember it.
func TestIdempotencyKeyIsFrozen(t *testing.T) {
	t.Parallel()
	key := idempotencyKey("default", execution.Lease{ID: "order-42", Incarnation: 7, Run: 0}, "charge")
	wantEqual(t, "key", key, "hf-3d40458d03d99c12a53416ff45c7344e")
}

func TestIdempotencyKeysDiffer(t *testing.T) {
	t.Parallel()
	type input struct {
		namespace string
		lease     execution.Lease
		step      string
	}
	inputs := []input{
		{"a", execution.Lease{ID: "b"}, "c"},
		{"x", execution.Lease{ID: "b"}, "c"},
		{"a", execution.Lease{ID: "x"}, "c"},
		{"a", execution.Lease{ID: "b"}, "x"},
		{"a", execution.Lease{ID: "b", Incarnation: 1}, "c"},
		{"a", execution.Lease{ID: "b", Run: 1}, "c"},
		{"a", execution.Lease{ID: "b", Incarnation: 1, Run: 1}, "c"},
		{"a", execution.Lease{ID: "b", Incarnation: 11}, "c"},
		{"ab", execution.Lease{ID: ""}, "c"},
		{"", execution.Lease{ID: "ab"}, "c"},
	}
	form := regexp.MustCompile(`^hf-[0-9a-f]{32}$`)
	seen := map[string]input{}
	for _, in := range inputs {
		key := idempotencyKey(in.namespace, in.lease, in.step)
		if other, taken := seen[key]; taken {
			t.Errorf("%+v and %+v share a key", in, other)
		}
		seen[key] = in
		wantEqual(t, "form of "+key, form.MatchString(key), true)
	}
	same := input{"a", execution.Lease{ID: "b", Token: 9, Epoch: "e"}, "c"}
	if _, found := seen[idempotencyKey(same.namespace, same.lease, same.step)]; !found {
		t.Error("the key depends on the delivery")
	}
}

func TestFenceOverRetriesAndDeliveries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var seen []Fencing
	fn := func(ctx Context) (string, error) {
		wantEqual(t, "outside of a step", Fence(ctx), Fencing{})
		return Step(ctx, "charge", func(ctx context.Context) (string, error) {
			derived, cancel := context.WithCancel(ctx)
			defer cancel()
			seen = append(seen, Fence(derived))
			if len(seen) == 3 {
				return "charged", nil
			}
			if len(seen) == 2 {
				panic("the worker dies")
			}
			return "", errors.New("busy")
		}, MaxAttempts(3), Backoff(0, 1, 0))
	}
	wantRetry(t, b.deliver(fn))
	wantCompleted(t, b.deliver(fn), `"charged"`)
	want := Fencing{Key: seen[0].Key, Namespace: "tests", ExecutionID: "order-42", Step: "charge"}
	for i, token := range []int64{101, 101, 102} {
		want.Token = token
		wantEqual(t, "fencing", seen[i], want)
	}
	wantEqual(t, "of a plain context", Fence(t.Context()), Fencing{})
}
