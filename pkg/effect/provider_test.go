package effect_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/pkg/effect"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A provider acts once for each key, and notes when it was asked.
type provider struct {
	mu       sync.Mutex
	acts     map[string]string // by key
	keys     []string          // of the requests
	performs []time.Duration   // since the provider was made
	lookups  []time.Duration
	made     time.Time

	// What it says in place of the truth; nil: the truth. n counts from 1.
	performed func(n int) error
	found     func(n int) (effect.Found[string], error)
}

func newProvider() *provider { return &provider{acts: map[string]string{}, made: time.Now()} }

func (p *provider) perform(_ context.Context, in, key string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.performs, p.keys = append(p.performs, time.Since(p.made)), append(p.keys, key)
	if _, done := p.acts[key]; !done {
		p.acts[key] = "done: " + in
	}
	if p.performed != nil {
		if err := p.performed(len(p.performs)); err != nil {
			return "", err
		}
	}
	return p.acts[key], nil
}

func (p *provider) lookup(_ context.Context, _, key string) (effect.Found[string], error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lookups = append(p.lookups, time.Since(p.made))
	if p.found != nil {
		return p.found(len(p.lookups))
	}
	if act, done := p.acts[key]; done {
		return effect.Found[string]{Status: effect.Settled, Result: act}, nil
	}
	return effect.Found[string]{Status: effect.NotFound}, nil
}

// effect is one that this provider does.
func (p *provider) effect(in string) effect.Effect[string, string] {
	return effect.Effect[string, string]{Operation: "act", Input: in, Perform: p.perform, Lookup: p.lookup}
}

var errReset = errors.New("connection reset")

// loses is a provider's answer that gets lost the first n times.
func loses(n int) func(int) error {
	return func(call int) error {
		if call <= n {
			return errReset
		}
		return nil
	}
}

// unknownUntil is a provider that can't say what became of a key before its n-th lookup.
func (p *provider) unknownUntil(n int) {
	p.found = func(call int) (effect.Found[string], error) {
		if call < n {
			return effect.Found[string]{}, nil
		}
		return effect.Found[string]{Status: effect.Settled, Result: "done: late"}, nil
	}
}

// act is a workflow of one effect.
func act(e effect.Effect[string, string]) *holdfast.Workflow[string, string] {
	return holdfast.Define("act", func(ctx holdfast.Context, _ string) (string, error) {
		return effect.Run(ctx, "act", e)
	})
}

// begin starts the one execution of a test.
func begin(t *testing.T, env *holdfasttest.Env, w *holdfast.Workflow[string, string]) holdfast.Handle[string] {
	t.Helper()
	h, err := w.Start(env.Context(), env.Client(), "in", holdfast.WithID("order-42"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantResult(t *testing.T, env *holdfasttest.Env, h holdfast.Handle[string], want string) {
	t.Helper()
	if got, err := h.Result(env.Context()); err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

func wantFailure(t *testing.T, env *holdfasttest.Env, h holdfast.Handle[string], message, code string) {
	t.Helper()
	_, err := h.Result(env.Context())
	failed, is := errors.AsType[*holdfast.FailedError](err)
	if !is || failed.Message != message || failed.Code != code {
		t.Errorf("got %+v; want %q with code %q", err, message, code)
	}
}

func recordOf(t *testing.T, env *holdfasttest.Env, id string) execution.Record {
	t.Helper()
	r, err := env.Client().Get(env.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
