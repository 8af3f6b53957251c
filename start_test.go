package holdfast_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// double is what most children do.
var double = holdfast.Define("double", func(_ holdfast.Context, n int) (int, error) {
	if n < 0 {
		return 0, fmt.Errorf("%d is negative", n)
	}
	return 2 * n, nil
})

func TestChildrenFanOut(t *testing.T) {
	t.Parallel()
	c := open(t)
	total := holdfast.Define("total", func(ctx holdfast.Context, numbers []int) (int, error) {
		children := make([]holdfast.Started[int], len(numbers))
		for i, n := range numbers {
			var err error
			if children[i], err = holdfast.Start(ctx, fmt.Sprint("start ", i), double, n); err != nil {
				return 0, err
			}
		}
		sum := 0
		for i, child := range children {
			n, err := child.Await(ctx, fmt.Sprint("wait ", i))
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	})
	work(t, c, total, double)
	result(t, start(t, total, c, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}), 110)
}

func TestChildFails(t *testing.T) {
	t.Parallel()
	c := open(t)
	stuck := holdfast.Define("stuck", func(ctx holdfast.Context, _ int) (int, error) {
		return 0, holdfast.Sleep(ctx, "for ever", 1e18)
	})
	coded := holdfast.Define("coded", func(holdfast.Context, int) (int, error) { return 0, codedError{"no stock", "SOLD_OUT"} })
	parent := func(name string, child *holdfast.Workflow[int, int]) *holdfast.Workflow[string, string] {
		return holdfast.Define(name, func(ctx holdfast.Context, id string) (string, error) {
			_, err := holdfast.Child(ctx, "child", child, -1, holdfast.WithID(id))
			var failed *holdfast.FailedError
			if !errors.As(err, &failed) {
				return "", err
			}
			// The replay after this must see the same.
			if _, err := holdfast.Step(ctx, "after", func(context.Context) (int, error) { return 1, nil }); err != nil {
				return "", err
			}
			if err := holdfast.Sleep(ctx, "pause", 1); err != nil {
				return "", err
			}
			return fmt.Sprint(failed.ID, " ", failed.Code, " ", failed.Cancelled(), " ", failed.Message), nil
		})
	}
	plain, withCode, cancelled := parent("plain", double), parent("with code", coded), parent("cancelled", stuck)
	work(t, c, double, stuck, coded, plain, withCode, cancelled)
	result(t, start(t, plain, c, "a"), "a  false -1 is negative")
	result(t, start(t, withCode, c, "b"), "b SOLD_OUT false no stock")
	h := start(t, cancelled, c, "c")
	eventuallyHas(t, c, "c")
	if err := c.Cancel(bounded(t), "c", "enough"); err != nil {
		t.Fatal(err)
	}
	result(t, h, "c cancelled true cancelled: enough")
}

type codedError struct{ message, code string }

func (e codedError) Error() string { return e.message }
func (e codedError) Code() string  { return e.code }

// eventuallyHas waits until there is an execution with the id.
func eventuallyHas(t *testing.T, c *holdfast.Client, id string) {
	t.Helper()
	ctx := bounded(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		_, err := c.Get(ctx, id)
		switch {
		case err == nil:
			return
		case !errors.Is(err, execution.ErrNotFound):
			t.Fatal(err)
		}
	}
}

func TestStartedTravelsAsJSON(t *testing.T) {
	t.Parallel()
	const recorded = `{"executionId":"a/b","incarnation":42}`
	var s holdfast.Started[int]
	if err := json.Unmarshal([]byte(recorded), &s); err != nil || s.ID() != "a/b" {
		t.Fatalf("got %q, %v", s.ID(), err)
	}
	type params struct{ One, Another holdfast.Started[int] }
	raw, err := json.Marshal(params{One: s})
	if want := `{"One":` + recorded + `,"Another":null}`; err != nil || string(raw) != want {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
	var back params
	if err := json.Unmarshal(raw, &back); err != nil || back != (params{One: s}) {
		t.Errorf("got %+v, %v", back, err)
	}
	for _, bad := range []string{`{}`, `{"executionId":"a"}`, `{"incarnation":42}`, `"a"`} {
		s := holdfast.Started[int]{}
		if err := s.UnmarshalJSON([]byte(bad)); err == nil || s.ID() != "" {
			t.Errorf("%s: got %q, %v, want an error", bad, s.ID(), err)
		} else if bad != `"a"` && !strings.Contains(err.Error(), "names no execution") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
