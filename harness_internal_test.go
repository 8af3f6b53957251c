package holdfast

// White-box: only the engine makes a Context, and these tests drive it without
// etcd, delivery by delivery.

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// memSteps keeps step records in memory.
type memSteps struct {
	mu     sync.Mutex
	recs   map[memKey]execution.Step
	writes []execution.StepWrite // those that arrived, refused ones too
	read   error                 // what Read returns
	before func(context.Context, execution.StepWrite) error
}

type memKey struct {
	key     string
	attempt int64
}

func (m *memSteps) WriteStep(ctx context.Context, lease execution.Lease, w execution.StepWrite) (execution.Step, error) {
	m.mu.Lock()
	m.writes = append(m.writes, w)
	before := m.before
	m.mu.Unlock()
	if before != nil {
		if err := before(ctx, w); err != nil {
			return execution.Step{}, err
		}
	}
	if err := execution.ValidateSize("response of the step", w.Response, execution.MaxPayloadBytes); err != nil {
		return execution.Step{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := memKey{w.Key, w.Attempt}
	if rec, there := m.recs[k]; there {
		return rec, nil
	}
	rec := execution.Step{Key: w.Key, Attempt: w.Attempt, Done: w.Done, Response: w.Response, Token: lease.Token, Place: w.Place}
	if !w.Done {
		rec.Waiter = w.Waiter
	}
	m.recs[k] = rec
	return rec, nil
}

func (m *memSteps) Read(context.Context, execution.Lease) ([]execution.Step, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var recs []execution.Step
	for _, rec := range m.recs {
		recs = append(recs, rec)
	}
	return recs, m.read
}

func (m *memSteps) get(key string, attempt int64) (execution.Step, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec, there := m.recs[memKey{key, attempt}]
	return rec, there
}

// A bench delivers one execution to an engine as often as a test likes.
type bench struct {
	t      *testing.T
	steps  *memSteps
	engine *engine
	logs   *observer.ObservedLogs
	params json.RawMessage
	token  execution.Token
	// deadline is the execution's; zero: none.
	deadline time.Time

	mu     sync.Mutex
	events []execution.Event
}

func newBench(t *testing.T) *bench {
	core, logs := observer.New(zap.DebugLevel)
	b := &bench{t: t, steps: &memSteps{recs: map[memKey]execution.Step{}}, logs: logs, params: json.RawMessage("null"), token: 100}
	b.engine = &engine{
		steps: b.steps, namespace: "tests", logger: zap.New(core), writeBound: 10 * time.Second,
		observer: func(e execution.Event) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.events = append(b.events, e)
		},
	}
	return b
}

// A workflow of most tests has neither input nor output worth a type.
type body func(Context) (string, error)

// deliver claims and runs one more delivery.
func (b *bench) deliver(fn body) verdict {
	return b.deliverWith(b.t.Context(), nil, fn)
}

func (b *bench) deliverWith(ctx context.Context, drain <-chan struct{}, fn body) verdict {
	return b.run(ctx, drain, Define("shop", func(ctx Context, _ any) (string, error) { return fn(ctx) }))
}

func (b *bench) run(ctx context.Context, drain <-chan struct{}, def definition) verdict {
	b.engine.definitions = map[string]definition{def.Name(): def}
	b.token++
	return b.engine.deliver(ctx, execution.Delivery{
		Lease:    execution.Lease{ID: "order-42", Token: b.token, Incarnation: 7},
		Workflow: def.Name(), Params: b.params, First: b.token == 101, Deadline: b.deadline,
	}, drain)
}

// stepEvents lists what was told of steps, as "name outcome".
func (b *bench) stepEvents() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var told []string
	for _, e := range b.events {
		if e.Kind == execution.EventStep {
			told = append(told, e.Operation+" "+e.Outcome)
		}
	}
	return told
}

// swallowed lists the call sites of swallowed suspensions.
func (b *bench) swallowed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sites []string
	for _, e := range b.events {
		if e.Kind == execution.EventSwallowed {
			sites = append(sites, e.Operation)
		}
	}
	return sites
}

func wantEqual[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func wantList(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func wantCompleted(t *testing.T, v verdict, result string) {
	t.Helper()
	if v.outcome == nil || v.outcome.Kind != execution.Completed {
		t.Fatalf("got %s, want completed", show(v))
	}
	if string(v.outcome.Result) != result {
		t.Errorf("result: got %s, want %s", v.outcome.Result, result)
	}
}

func wantFailed(t *testing.T, v verdict, message string) {
	t.Helper()
	if v.outcome == nil || v.outcome.Kind != execution.Failed {
		t.Fatalf("got %s, want failed", show(v))
	}
	wantEqual(t, "message", v.outcome.Error.Message, message)
}

func wantSuspended(t *testing.T, v verdict, wake time.Time) {
	t.Helper()
	if v.outcome == nil || v.outcome.Kind != execution.Suspended || v.outcome.Handover {
		t.Fatalf("got %s, want suspended", show(v))
	}
	if !v.outcome.Wake.Equal(wake) {
		t.Errorf("wake: got %v, want %v", v.outcome.Wake, wake)
	}
}

func wantHandover(t *testing.T, v verdict) {
	t.Helper()
	if v.outcome == nil || v.outcome.Kind != execution.Suspended || !v.outcome.Handover {
		t.Fatalf("got %s, want a handover", show(v))
	}
}

func wantRetry(t *testing.T, v verdict) {
	t.Helper()
	_ = retried(t, v)
}

// retried returns why the delivery is to be retried.
func retried(t *testing.T, v verdict) error {
	t.Helper()
	if v.retry == nil || v.outcome != nil || v.lost {
		t.Fatalf("got %s, want a retry", show(v))
	}
	return v.retry
}

func wantLost(t *testing.T, v verdict) {
	t.Helper()
	if !v.lost || v.outcome != nil || v.retry != nil {
		t.Fatalf("got %s, want lost", show(v))
	}
}

func show(v verdict) string {
	switch {
	case v.outcome != nil:
		b, err := json.Marshal(v.outcome)
		return string(b) + errorText(err)
	case v.lost:
		return "lost"
	}
	return "retry: " + errorText(v.retry)
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// value is a step's function that returns v.
func value[T any](v T) func(context.Context) (T, error) {
	return func(context.Context) (T, error) { return v, nil }
}

// refuse is a step's function that must not be run.
func refuse(t *testing.T) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		t.Error("a step ran that must not run")
		return "", errors.New("must not run")
	}
}

// logged is the field of a log line that has the only value; with none it is
// that of no line.
func logged(key string, values []string) zap.Field {
	if len(values) == 0 {
		return zap.String(key, "none")
	}
	return zap.String(key, values[0])
}

// advance lets d pass on the bubble's clock.
func advance(d time.Duration) { <-time.After(d) }
