package integration_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/testetcd"
	inbox "github.com/holdfast-io/holdfast/pkg/event"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/heap"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// An engine is one namespace whose requests are counted.
type engine struct {
	executions *leasing.Client
	holder     *leasing.Holder
	steps      *heap.Client
	events     *inbox.Client
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
	if e.events, err = inbox.New(inbox.Config{Store: store, Space: space, Executions: e.executions}); err != nil {
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

// expect demands so many requests since the last time.
func (e *engine) expect(tb testing.TB, what string, writes, reads int64) {
	tb.Helper()
	c := e.counts
	gotReads := c.Reads.Load() + c.Gets.Load()
	if got := c.Txns.Load() - c.Reads.Load(); got != writes || gotReads != reads || c.Total() != writes+reads {
		tb.Errorf("%s: %v; want %d writing transactions and %d reads", what, c, writes, reads)
	}
	c.Reset()
}

// admitMany admits n executions in one call.
func (e *engine) admitMany(tb testing.TB, prefix string, n int) {
	tb.Helper()
	reqs := make([]execution.AdmitRequest, n)
	for i := range reqs {
		reqs[i] = execution.AdmitRequest{ID: execution.ID(fmt.Sprint(prefix, i)), Workflow: "w", Params: json.RawMessage(`{"amount":1}`)}
	}
	answers, err := e.executions.AdmitMany(tb.Context(), reqs)
	if err != nil {
		tb.Fatal(err)
	}
	for _, a := range answers {
		if a.Err != nil || a.Existing {
			tb.Fatalf("%+v", a)
		}
	}
}

// send sends an event of 256 bytes to the execution.
func (e *engine) send(tb testing.TB, id execution.ID) {
	tb.Helper()
	if _, err := e.events.Send(tb.Context(), inbox.Message{Execution: id, Name: "item", Payload: response}); err != nil {
		tb.Fatal(err)
	}
}

// receive lets steps apply n pending events, as a delivery does: it lists them once, and
// reads and applies one after the other.
func (e *engine) receive(tb testing.TB, d execution.Delivery, n int) {
	tb.Helper()
	box := inbox.Inbox{Execution: d.ID, Incarnation: d.Incarnation, Name: "item"}
	ids, err := e.events.List(tb.Context(), box)
	if err != nil || len(ids) < n {
		tb.Fatalf("%d events, %v; want at least %d", len(ids), err, n)
	}
	for _, id := range ids[:n] {
		p, there, err := e.events.Read(tb.Context(), box, id)
		if err != nil || !there {
			tb.Fatalf("event %q: %t, %v", id, there, err)
		}
		w := execution.StepWrite{Key: id, Done: true, Response: p.Payload, Event: &p.Event}
		if _, err := e.steps.WriteStep(tb.Context(), d.Lease, w); err != nil {
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
