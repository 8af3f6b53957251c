package holdfasttest_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
)

// newCheckout returns the workflow that the examples test: it charges for an item,
// gives the customer three days to think, and ships.
func newCheckout(b *bank) *holdfast.Workflow[string, string] {
	return holdfast.Define("checkout", func(ctx holdfast.Context, item string) (string, error) {
		_, err := holdfast.Step(ctx, "charge", func(ctx context.Context) (int64, error) {
			f := holdfast.Fence(ctx)
			return f.Token, b.charge(f.Key)
		})
		if err != nil {
			return "", err
		}
		if err := holdfast.Sleep(ctx, "think", 72*time.Hour); err != nil {
			return "", err
		}
		return holdfast.Step(ctx, "ship", func(context.Context) (string, error) {
			return item + " shipped", nil
		})
	})
}

// A bank charges once for each key.
type bank struct {
	mu   sync.Mutex
	keys map[string]bool
}

func (b *bank) charge(key string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys == nil {
		b.keys = map[string]bool{}
	}
	b.keys[key] = true
	return nil
}

func (b *bank) charges() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.keys)
}

// The worker dies between the charge and its record. Another one takes over, once
// the lease has expired, and charges again: under the same key.
func TestCheckoutSurvivesACrash(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		bank := &bank{}
		checkout := newCheckout(bank)
		env.BeforeRecord("charge", (*holdfasttest.Worker).Crash)
		env.Worker(checkout) // claims the order, being the first one, and dies
		env.Worker(checkout)

		order, err := checkout.Start(env.Context(), env.Client(), "tea", holdfast.WithID("order-42"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := order.Result(env.Context()) // after 72 hours, on the test's clock
		if err != nil || got != "tea shipped" {
			t.Errorf("got %q, %v", got, err)
		}
		if n := env.Calls("charge"); n != 2 || bank.charges() != 1 {
			t.Errorf("%d calls, %d charges; want 2 and 1", n, bank.charges())
		}
	})
}

// The worker freezes with the charge made, another one takes over, and the first one
// comes back: what it wants to record is refused.
func TestCheckoutRefusesAStaleHolder(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		bank := &bank{}
		checkout := newCheckout(bank)
		env.BeforeRecord("charge", (*holdfasttest.Worker).Freeze)
		stale := env.Worker(checkout)
		env.Worker(checkout)

		order, err := checkout.Start(env.Context(), env.Client(), "tea", holdfast.WithID("order-42"))
		if err != nil {
			t.Fatal(err)
		}
		env.Advance(time.Minute) // the lease has expired, and the other one has the order
		stale.Thaw()
		env.Advance(time.Second)
		if _, err := order.Result(env.Context()); err != nil {
			t.Error(err)
		}
		refused := env.Refused()
		if len(refused) != 1 || refused[0].Operation != "writeStep" || env.Takeovers() != 1 {
			t.Errorf("refused %v after %d takeovers; want one step after one", refused, env.Takeovers())
		}
	})
}
