package effect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/pkg/effect"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func seconds(times []time.Duration) (s []int) {
	for _, t := range times {
		s = append(s, int(t/time.Second))
	}
	return s
}

// While the provider does not know, it is asked again after RetryIn each time, and
// nothing is done. The execution is suspended meanwhile.
func TestUnknownWaits(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		p.performed = loses(1)
		p.unknownUntil(4)
		w := act(p.effect("tea"))
		env.Worker(w)
		h := begin(t, env, w)
		env.Advance(time.Minute + time.Second)
		rec := recordOf(t, env, "order-42")
		if rec.Status != execution.StatusSuspended || int(rec.Due.Sub(p.made)/time.Second) != 90 {
			t.Errorf("after a minute %s, due at %v", rec.Status, rec.Due.Sub(p.made))
		}
		wantResult(t, env, h, "done: late")
		if len(p.performs) != 1 || !slices.Equal(seconds(p.lookups), []int{30, 60, 90, 120}) {
			t.Errorf("performed at %v, looked up at %v", p.performs, p.lookups)
		}
		if rec := recordOf(t, env, "order-42"); rec.UnacknowledgedDeliveries != 0 || rec.Claims != 5 {
			t.Errorf("%d deliveries, %d unacknowledged", rec.Claims, rec.UnacknowledgedDeliveries)
		}
	})
}

// A delivery that comes early looks, and does not put off the one that was asked for.
func TestEarlyWakeKeepsTheTime(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		p.performed = loses(1)
		p.unknownUntil(4)
		e := p.effect("tea")
		e.RetryIn = time.Hour
		w := act(e)
		env.Worker(w)
		h := begin(t, env, w)
		for range 2 {
			env.Advance(10 * time.Minute)
			if err := env.Client().Wake(env.Context(), "order-42", time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		wantResult(t, env, h, "done: late")
		if got := seconds(p.lookups); !slices.Equal(got, []int{600, 1200, 3600, 7200}) {
			t.Errorf("looked up at %v", got)
		}
	})
}

// Two effects at the same time keep their own times.
func TestEffectsSideBySide(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		slow, quick := newProvider(), newProvider()
		w := holdfast.Define("both", func(ctx holdfast.Context, _ string) (string, error) {
			results := make(chan error, 2)
			run := func(step string, p *provider, in time.Duration) {
				e := p.effect(step)
				e.RetryIn = in
				_, err := effect.Run(ctx, step, e)
				results <- err
			}
			go run("slow", slow, time.Hour)
			go run("quick", quick, time.Minute)
			return "both", errors.Join(<-results, <-results)
		})
		slow.performed, quick.performed = loses(1), loses(1)
		slow.unknownUntil(70)
		quick.unknownUntil(3)
		env.Worker(w)
		wantResult(t, env, begin(t, env, w), "both")
		if n := len(slow.performs) + len(quick.performs); n != 2 {
			t.Errorf("performed %d times", n)
		}
	})
}

// The key is the effect's id: that of the step, unless one is given.
func TestKeys(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		var fences []string
		w := holdfast.Define("keys", func(ctx holdfast.Context, _ string) (string, error) {
			for _, step := range []string{"a", "b", "mine"} {
				e := p.effect("tea")
				if step == "mine" {
					e.ID = "charge/42 ☕"
				}
				e.Perform = func(ctx context.Context, in, key string) (string, error) {
					fences = append(fences, execution.FencingOf(ctx).Key)
					return p.perform(ctx, in, key)
				}
				if _, err := effect.Run(ctx, step, e); err != nil {
					return "", err
				}
			}
			return "ok", nil
		})
		env.Worker(w)
		wantResult(t, env, begin(t, env, w), "ok")
		if len(p.keys) != 3 || p.keys[0] == p.keys[1] || p.keys[2] != "charge/42 ☕" || !slices.Equal(fences[:2], p.keys[:2]) {
			t.Errorf("keys %q, of steps with %q", p.keys, fences)
		}
		for _, key := range p.keys[:2] {
			if !strings.HasPrefix(key, "hf-") || len(key) != 35 {
				t.Errorf("key %q", key)
			}
		}
	})
}

// An effect that several executions share is done once, and each is given its result.
func TestSharedEffect(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		e := p.effect("tea")
		e.ID = "shared"
		w := act(e)
		env.Worker(w)
		for i := range 3 {
			h, err := w.Start(env.Context(), env.Client(), "", holdfast.WithID(fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			wantResult(t, env, h, "done: tea")
		}
		if len(p.performs) != 1 || len(p.lookups) != 0 {
			t.Errorf("performed %d times, looked up %d times", len(p.performs), len(p.lookups))
		}
	})
}

// A provider that can't be asked is asked again, if it keeps to the key.
func TestIdempotent(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		p.performed = loses(2)
		e := p.effect("tea")
		e.Lookup = effect.Idempotent
		w := act(e)
		env.Worker(w)
		wantResult(t, env, begin(t, env, w), "done: tea")
		if !slices.Equal(seconds(p.performs), []int{0, 30, 60}) || len(p.acts) != 1 {
			t.Errorf("performed at %v, %d acts", p.performs, len(p.acts))
		}
	})
}

type codedError struct{}

func (codedError) Error() string { return "card is stolen" }
func (codedError) Code() string  { return "CARD_STOLEN" }

// What the provider has refused is what the effect has come to.
func TestDecline(t *testing.T) {
	refused := effect.Decline(errors.New("over the limit"))
	for name, c := range map[string]struct {
		perform, lookup error
		message, code   string
	}{
		"plain":     {refused, nil, "over the limit", effect.CodeDeclined},
		"wrapped":   {fmt.Errorf("bank: %w", refused), nil, "over the limit", effect.CodeDeclined},
		"with code": {effect.Decline(fmt.Errorf("bank: %w", codedError{})), nil, "bank: card is stolen", "CARD_STOLEN"},
		"looked up": {errReset, refused, "over the limit", effect.CodeDeclined},
		"long":      {effect.Decline(errors.New(strings.Repeat("é", 10_000))), nil, strings.Repeat("é", 4096) + "…", effect.CodeDeclined},
	} {
		t.Run(name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				p := newProvider()
				p.performed = func(int) error { return c.perform }
				p.found = func(int) (effect.Found[string], error) { return effect.Found[string]{}, c.lookup }
				e := p.effect("tea")
				e.ID = "charge"
				w := act(e)
				env.Worker(w)
				wantFailure(t, env, begin(t, env, w), `step "act" failed: `+c.message, c.code)
				rec, err := effect.NewClient(env.Client()).Get(env.Context(), "charge")
				if err != nil || rec.Result == nil || rec.Result.Declined == nil || *rec.Result.Declined != (effect.Refusal{Message: c.message, Code: c.code}) {
					t.Errorf("kept %+v, %v", rec.Result, err)
				}
				if len(p.performs) != 1 {
					t.Errorf("performed %d times", len(p.performs))
				}
			})
		})
	}
	if effect.Decline(nil) != nil {
		t.Error("to decline nil is not nil")
	}
}

// A call that no replay would mend fails the execution.
func TestMisuse(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*effect.Effect[string, string])
		want  string
	}{
		"no Perform": {func(e *effect.Effect[string, string]) { e.Perform = nil }, `effect "act": no Perform is given`},
		"no Lookup":  {func(e *effect.Effect[string, string]) { e.Lookup = nil }, `effect "act": no Lookup is given; use Idempotent if the provider answers each request with a key by what the first one came to`},
	} {
		t.Run(name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				e := newProvider().effect("tea")
				c.spoil(&e)
				w := act(e)
				env.Worker(w)
				wantFailure(t, env, begin(t, env, w), c.want, "")
			})
		})
	}
}

// An effect keeps its id while it waits: another one would be done beside it.
func TestIDMustNotChange(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		p.performed = loses(1)
		runs := 0
		w := holdfast.Define("act", func(ctx holdfast.Context, _ string) (string, error) {
			e := p.effect("tea")
			if e.ID = "first"; runs == 1 {
				e.ID = "second"
			}
			runs++
			return effect.Run(ctx, "act", e)
		})
		env.Worker(w)
		wantResult(t, env, begin(t, env, w), "done: tea")
		if len(p.acts) != 1 || len(p.performs) != 1 {
			t.Errorf("%d acts, performed %d times", len(p.acts), len(p.performs))
		}
		if rec := recordOf(t, env, "order-42"); len(rec.Deliveries) != 3 || !strings.Contains(rec.Deliveries[1].Why, `recorded as a wait for "holdfast:effect/first", not for effect "second"`) {
			t.Errorf("deliveries %+v", rec.Deliveries)
		}
	})
}

// A provider that refuses the delivery's token has proven that it is lost; what it says
// of other tokens is an answer like any other.
func TestProvenLoss(t *testing.T) {
	for name, c := range map[string]struct {
		lost  func(execution.Fencing) error
		waits bool
	}{
		"own":               {func(f execution.Fencing) error { return f.Lost("charge", f.Token+1) }, false},
		"own, wrapped":      {func(f execution.Fencing) error { return fmt.Errorf("bank: %w", f.Lost("charge", f.Token+1)) }, false},
		"another execution": {func(f execution.Fencing) error { f.ExecutionID = "other"; return f.Lost("charge", 1) }, true},
		"another token":     {func(f execution.Fencing) error { f.Token--; return f.Lost("charge", 1) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				p := newProvider()
				e := p.effect("tea")
				e.ID = "charge"
				e.Perform = func(ctx context.Context, in, key string) (string, error) {
					if len(p.performs) == 0 {
						p.performs = append(p.performs, 0)
						return "", c.lost(execution.FencingOf(ctx))
					}
					return p.perform(ctx, in, key)
				}
				w := act(e)
				env.Worker(w)
				h := begin(t, env, w)
				env.Advance(time.Second)
				rec, err := effect.NewClient(env.Client()).Get(env.Context(), "charge")
				if err != nil || len(rec.Waiting) == 1 != c.waits {
					t.Errorf("waiting: %+v, %v", rec.Waiting, err)
				}
				wantResult(t, env, h, "done: tea")
			})
		})
	}
}

// A holder freezes when the provider has acted. Another one looks, settles and goes on.
// What the first one brings when it thaws counts for nothing: the same result is no
// news, another one is a conflict, and its record is refused.
func TestFrozenHolder(t *testing.T) {
	for name, late := range map[string]string{"the same result": "done: tea", "another result": "done: twice"} {
		t.Run(name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				p := newProvider()
				e := p.effect("tea")
				e.ID = "charge"
				var first *holdfasttest.Worker
				e.Perform = func(ctx context.Context, in, key string) (string, error) {
					if _, err := p.perform(ctx, in, key); err != nil {
						return "", err
					}
					first.Freeze()
					return late, nil
				}
				w := act(e)
				first = env.Worker(w)
				env.Worker(w)
				wantResult(t, env, begin(t, env, w), "done: tea")
				first.Thaw()
				env.Advance(time.Minute)
				if refused := env.Refused(); len(refused) == 0 {
					t.Error("the first holder was not refused")
				}
				all, err := effect.NewClient(env.Client()).Conflicts(env.Context())
				if err != nil || len(all) != map[bool]int{true: 1}[late != "done: tea"] {
					t.Fatalf("conflicts: %+v, %v", all, err)
				}
				if len(all) == 1 && string(all[0].Reports[0].Result.Value) != `"done: twice"` {
					t.Errorf("reported %s", all[0].Reports[0].Result.Value)
				}
				if len(p.performs) != 1 || len(p.lookups) != 1 {
					t.Errorf("performed %d times, looked up %d times", len(p.performs), len(p.lookups))
				}
			})
		})
	}
}
