package integration_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/heap"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// An engine is one namespace whose requests are counted.
type engine struct {
	executions *leasing.Client
	holder     *leasing.Holder
	steps      *heap.Client
	counts     *testetcd.Counts
}

func newEngine(tb testing.TB) *engine {
	tb.Helper()
	store, counts := testetcd.Recorder(tb, testetcd.Start(tb))
	space := testetcd.Space(tb)
	e := &engine{counts: counts}
	var err error
	if e.executions, err = leasing.New(tb.Context(), leasing.Config{Store: store, Space: space}); err != nil {
		tb.Fatal(err)
	}
	if e.steps, err = heap.New(heap.Config{Store: store, Space: space}); err != nil {
		tb.Fatal(err)
	}
	e.holder, err = e.executions.NewHolder(leasing.HolderConfig{Duration: time.Minute, Queues: []string{"w"}, Workflows: []string{"w"}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { e.holder.Close(tb.Context()) })
	if _, _, err := e.holder.KeepAlive(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return e
}

// admit admits n executions whose ids begin with the prefix.
func (e *engine) admit(tb testing.TB, prefix string, n int) {
	tb.Helper()
	for i := range n {
		req := execution.AdmitRequest{ID: execution.ID(fmt.Sprint(prefix, i)), Workflow: "w", Params: json.RawMessage(`{"amount":1}`)}
		if _, err := e.executions.Admit(tb.Context(), req); err != nil {
			tb.Fatal(err)
		}
	}
}

// claim claims n executions that are due, in as many calls as it takes.
func (e *engine) claim(tb testing.TB, n int) []execution.Delivery {
	tb.Helper()
	var all []execution.Delivery
	for len(all) < n {
		ds, _, err := e.holder.Claim(tb.Context(), n-len(all))
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, ds...)
	}
	return all
}

// response is a step's result of 256 bytes.
var response = json.RawMessage(`"` + strings.Repeat("x", 254) + `"`)

func (e *engine) step(tb testing.TB, d execution.Delivery, key string) {
	tb.Helper()
	if _, err := e.steps.WriteStep(tb.Context(), d.Lease, execution.StepWrite{Key: key, Done: true, Response: response}); err != nil {
		tb.Fatal(err)
	}
}

func (e *engine) acknowledge(tb testing.TB, d execution.Delivery) {
	tb.Helper()
	outcome := execution.Outcome{Kind: execution.Completed, Result: response}
	if err := e.holder.Acknowledge(tb.Context(), d.Lease, outcome); err != nil {
		tb.Fatal(err)
	}
}
