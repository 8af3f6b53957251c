package holdfasttest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/internal/shop"
)

// A provider is a payment provider in memory: it honours idempotency keys, fails
// flaky cards twice, and declines what is to be declined.
type provider struct {
	mu       sync.Mutex
	requests int
	failures map[string]int         // by idempotency key
	charges  map[string]shop.Charge // by idempotency key
}

func newProvider() *provider {
	return &provider{failures: map[string]int{}, charges: map[string]shop.Charge{}}
}

// RoundTrip takes a charge, as a transport of the cashier's.
func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	var req shop.ChargeRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		return nil, err
	}
	status, answer := p.charge(r.Header.Get(shop.KeyHeader), req)
	body, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(body)), Request: r}, nil
}

func (p *provider) charge(key string, req shop.ChargeRequest) (status int, answer any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	if made, again := p.charges[key]; again {
		if made.Invoice != req.Invoice {
			return http.StatusConflict, shop.Refusal{Answer: shop.AnswerMismatch}
		}
		return http.StatusOK, made
	}
	switch {
	case req.Card == shop.CardDeclined:
		return http.StatusPaymentRequired, shop.Refusal{Answer: shop.AnswerDeclined, Message: "the card was declined"}
	case req.Card == shop.CardFlaky && p.failures[key] < 2:
		p.failures[key]++
		return http.StatusServiceUnavailable, shop.Refusal{Answer: shop.AnswerUnavailable}
	}
	p.charges[key] = shop.Charge{
		ID: fmt.Sprintf("ch_%d", len(p.charges)+1), OrderID: req.OrderID, Invoice: req.Invoice,
		AmountCents: req.AmountCents, Currency: req.Currency, At: time.Now(),
	}
	return http.StatusOK, p.charges[key]
}

// made returns how many cards were charged, and how many requests there were.
func (p *provider) made() (charges, requests int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.charges), p.requests
}

type orderWorkflow = holdfast.Workflow[shop.Order, shop.Receipt]

func newShop(t *testing.T, p *provider) *orderWorkflow {
	t.Helper()
	cashier, err := shop.NewCashier(shop.CashierConfig{Provider: "http://provider.invalid", Transport: p})
	if err != nil {
		t.Fatal(err)
	}
	return shop.NewWorkflow(cashier)
}

func order(n int, card shop.Card) shop.Order {
	return shop.Order{ID: fmt.Sprintf("order-%d", n), Customer: "ada", AmountCents: 100 + int64(n), Currency: "EUR", Card: card}
}

func begin(t *testing.T, env *holdfasttest.Env, w *orderWorkflow, o shop.Order) holdfast.Handle[shop.Receipt] {
	t.Helper()
	h, err := w.Start(env.Context(), env.Client(), o, holdfast.WithID(o.ID))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// finish waits for the order, which must have come to the right outcome.
func finish(t *testing.T, env *holdfasttest.Env, h holdfast.Handle[shop.Receipt], o shop.Order) {
	t.Helper()
	receipt, err := h.Result(env.Context())
	var failed *holdfast.FailedError
	switch {
	case o.Chargeable() && (err != nil || receipt.OrderID != o.ID || receipt.AmountCents != o.AmountCents || receipt.ChargeID == ""):
		t.Errorf("%s came to %+v, %v", o.ID, receipt, err)
	case !o.Chargeable() && (!errors.As(err, &failed) || failed.Code != shop.CodeDeclined):
		t.Errorf("%s came to %+v, %v; want it declined", o.ID, receipt, err)
	}
}

// wantCharges demands that every order which can be charged was, once.
func wantCharges(t *testing.T, p *provider, orders ...shop.Order) {
	t.Helper()
	want := 0
	for _, o := range orders {
		if o.Chargeable() {
			want++
		}
	}
	if charges, requests := p.made(); charges != want {
		t.Errorf("%d charges by %d requests, want %d", charges, requests, want)
	}
}

// TestShopSurvivesACrashAtEachStepBoundary: whatever the moment at which a worker
// crashes, another one brings the order to its outcome, and the card is charged once.
func TestShopSurvivesACrashAtEachStepBoundary(t *testing.T) {
	type at = func(*holdfasttest.Env, string, func(*holdfasttest.Worker))
	for name, moment := range map[string]at{
		"before the step":   (*holdfasttest.Env).BeforeStep,
		"before the record": (*holdfasttest.Env).BeforeRecord,
		"after the step":    (*holdfasttest.Env).AfterStep,
	} {
		for _, step := range []string{"invoice", "charge"} {
			for _, card := range []shop.Card{shop.CardOK, shop.CardDeclined, shop.CardFlaky} {
				t.Run(fmt.Sprintf("%s %s %s", name, step, card), func(t *testing.T) {
					holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
						p := newProvider()
						w, o := newShop(t, p), order(42, card)
						moment(env, step, (*holdfasttest.Worker).Crash)
						env.Worker(w)
						env.Worker(w)
						finish(t, env, begin(t, env, w, o), o)
						wantCharges(t, p, o)
						if env.Takeovers() != 1 || len(env.Refused()) != 0 {
							t.Errorf("%d takeovers, refused %v; want 1 and none", env.Takeovers(), env.Refused())
						}
					})
				})
			}
		}
	}
}

// TestShopRefusesAFrozenHolder: a worker that froze in the middle of a charge is
// taken over; what it brings when it comes back is refused and changes nothing.
func TestShopRefusesAFrozenHolder(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		w, o := newShop(t, p), order(42, shop.CardOK)
		env.BeforeRecord("charge", (*holdfasttest.Worker).Freeze)
		frozen := env.Worker(w)
		env.Worker(w)
		h := begin(t, env, w, o)
		finish(t, env, h, o)
		before, err := env.Client().Get(env.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		frozen.Thaw()
		env.Advance(time.Minute)
		finish(t, env, h, o)
		wantCharges(t, p, o)
		if _, requests := p.made(); requests != 2 || env.Calls("invoice") != 1 || env.Takeovers() != 1 {
			t.Errorf("%d requests, %d invoices, %d takeovers; want 2, 1 and 1", requests, env.Calls("invoice"), env.Takeovers())
		}
		refused := env.Refused()
		if len(refused) != 1 || refused[0].Operation != "writeStep" || refused[0].Carried != before.Deliveries[0].Token {
			t.Errorf("refused %v, want the first holder's step", refused)
		}
		after, err := env.Client().Get(env.Context(), o.ID)
		if err != nil || string(after.Outcome.Result) != string(before.Outcome.Result) || after.Claims != before.Claims {
			t.Errorf("the order became %+v, %v from %+v", after, err, before)
		}
	})
}

// TestShopRefusesAHolderThatComesBackInBetween: the frozen worker comes back while
// the one that took over is in the same step, of which nothing is recorded yet: the
// fence alone refuses it.
func TestShopRefusesAHolderThatComesBackInBetween(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		w, o := newShop(t, p), order(42, shop.CardOK)
		env.BeforeRecord("charge", (*holdfasttest.Worker).Freeze)
		frozen := env.Worker(w)
		env.BeforeRecord("charge", func(*holdfasttest.Worker) {
			frozen.Thaw()
			<-time.After(time.Second)
		})
		second := env.Worker(w)
		finish(t, env, begin(t, env, w, o), o)
		wantCharges(t, p, o)
		r, err := env.Client().Get(env.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		last := r.Deliveries[len(r.Deliveries)-1]
		if refused := env.Refused(); len(refused) != 1 || refused[0].Operation != "writeStep" || refused[0].Current != last.Token {
			t.Errorf("refused %v, want the first holder's step, by token %d", refused, last.Token)
		}
		if last.Holder != second.Name() || env.Calls("charge") != 2 {
			t.Errorf("%s ended it after %d charges; want %s and 2", last.Holder, env.Calls("charge"), second.Name())
		}
	})
}

// TestShopInTrouble: fifty orders, three workers of which one crashes and one is
// frozen for a while, and one that drains.
func TestShopInTrouble(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		w := newShop(t, p)
		env.AfterStep("invoice", (*holdfasttest.Worker).Crash)
		env.BeforeRecord("charge", (*holdfasttest.Worker).Freeze)
		env.BeforeStep("charge", func(*holdfasttest.Worker) { env.Worker(w, holdfast.Concurrency(3)) })
		workers := []*holdfasttest.Worker{env.Worker(w, holdfast.Concurrency(5)), env.Worker(w, holdfast.Concurrency(5))}
		cards := []shop.Card{shop.CardOK, shop.CardDeclined, shop.CardFlaky}
		var orders []shop.Order
		var handles []holdfast.Handle[shop.Receipt]
		for n := range 50 {
			o := order(n, cards[n%len(cards)])
			orders, handles = append(orders, o), append(handles, begin(t, env, w, o))
		}
		env.Advance(2 * time.Minute)
		workers = append(workers, env.Worker(w))
		workers[1].Thaw()
		workers[0].Thaw()
		workers[0].Stop()
		for n, h := range handles {
			finish(t, env, h, orders[n])
		}
		wantCharges(t, p, orders...)
	})
}

// TestOneOrderHasOneHistory: the same test comes to the same deliveries, by the same
// workers at the same times, whatever the machine does.
func TestOneOrderHasOneHistory(t *testing.T) {
	histories := map[string]int{}
	for range 10 {
		holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
			w, o := newShop(t, newProvider()), order(42, shop.CardFlaky)
			env.AfterStep("invoice", (*holdfasttest.Worker).Crash)
			env.BeforeRecord("charge", (*holdfasttest.Worker).Freeze)
			for range 4 {
				env.Worker(w)
			}
			h := begin(t, env, w, o)
			finish(t, env, h, o)
			env.Advance(time.Hour)
			r, err := env.Client().Get(env.Context(), o.ID)
			if err != nil {
				t.Fatal(err)
			}
			histories[fmt.Sprintf("%+v %d calls", r.Deliveries, env.Calls("charge"))]++
		})
	}
	if len(histories) != 1 {
		t.Errorf("there were %d histories: %v", len(histories), histories)
	}
}
