package shop_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/internal/shop"
)

// A wire is the way to a provider that charges each card at once; its answers to the
// first requests go wrong.
type wire struct {
	wrong []reply // what comes instead, in turn

	mu    sync.Mutex
	calls int
	keys  []string
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var req shop.ChargeRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		return nil, err
	}
	if key := r.Header.Get(shop.KeyHeader); !slices.Contains(w.keys, key) {
		w.keys = append(w.keys, key)
	}
	w.calls++
	if w.calls <= len(w.wrong) {
		return w.wrong[w.calls-1].send()
	}
	return reply{status: http.StatusOK, body: shop.Charge{
		ID: "ch_1", OrderID: req.OrderID, Invoice: req.Invoice, AmountCents: req.AmountCents, Currency: req.Currency,
	}}.send()
}

// A reply is an answer, or the error that comes instead.
type reply struct {
	status int
	body   any
	err    error
}

func (r reply) send() (*http.Response, error) {
	if r.err != nil {
		return nil, r.err
	}
	res := httptest.NewRecorder()
	res.WriteHeader(r.status)
	err := json.NewEncoder(res).Encode(r.body)
	return res.Result(), err
}

// submit runs the order with a worker on the wire, and waits for its outcome.
func submit(t *testing.T, w *wire, card shop.Card) (out string, outages []error, quiet []string, err error) {
	t.Helper()
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		var mu sync.Mutex
		cashier, bad := shop.NewCashier(shop.CashierConfig{Provider: "http://provider", Transport: w, Outage: func(why error) {
			mu.Lock()
			defer mu.Unlock()
			outages = append(outages, why)
		}})
		if bad != nil {
			t.Fatal(bad)
		}
		env.Worker(shop.NewWorkflow(cashier))
		var b bytes.Buffer
		err = shop.Submit(env.Context(), env.Client(), []shop.Order{{ID: "order-42", Customer: "Ada", AmountCents: 4200, Currency: "EUR", Card: card}},
			shop.SubmitConfig{Out: &b, Wait: true, Quiet: func(message string) { quiet = append(quiet, message) }})
		out = b.String()
		mu.Lock()
		defer mu.Unlock()
		outages = slices.Clone(outages)
	})
	return out, outages, quiet, err
}

// A card may have been charged by any request that was not answered: the order goes
// on until an answer comes, under the same key.
func TestOrderOutlastsAProviderThatGivesNoAnswer(t *testing.T) {
	t.Parallel()
	w := &wire{}
	for range 20 {
		w.wrong = append(w.wrong,
			reply{err: context.DeadlineExceeded}, reply{err: errors.New("connection refused")},
			reply{status: http.StatusBadGateway, body: "nonsense"}, reply{status: http.StatusTooManyRequests}, reply{status: http.StatusOK, body: "nonsense"})
	}
	out, outages, quiet, err := submit(t, w, shop.CardOK)
	if err != nil || !strings.Contains(out, "\"order-42\"\tcompleted\t4200 EUR, charge ch_1") {
		t.Errorf("Submit printed %q, %v", out, err)
	}
	if w.calls != 101 || len(w.keys) != 1 {
		t.Errorf("%d requests under %d keys, want 101 under one", w.calls, len(w.keys))
	}
	if len(outages) < 2 || outages[0] == nil || !strings.Contains(outages[0].Error(), "the provider gave no answer") || outages[len(outages)-1] != nil {
		t.Errorf("the outage was told of as %v, want a beginning and an end", outages)
	}
	if len(quiet) == 0 || quiet[0] != "waiting for outcomes; still to come: 1" {
		t.Errorf("while it waited it said %q", quiet)
	}
}

func TestSubmitTellsADeclineFromOtherFailures(t *testing.T) {
	t.Parallel()
	declined := reply{status: http.StatusPaymentRequired, body: shop.Refusal{Answer: shop.AnswerDeclined, Message: "the card was declined"}}
	out, _, _, err := submit(t, &wire{wrong: []reply{declined}}, shop.CardDeclined)
	if err != nil || !strings.Contains(out, "failed\tthe card was declined") {
		t.Errorf("a declined order: Submit printed %q, %v", out, err)
	}
	refused := reply{status: http.StatusConflict, body: "no"}
	out, _, _, err = submit(t, &wire{wrong: []reply{refused}}, shop.CardOK)
	if err == nil || !strings.Contains(err.Error(), `order "order-42" failed: `) || !strings.Contains(out, "\tfailed\t") {
		t.Errorf("a refused request: Submit printed %q, %v", out, err)
	}
}

// One order that can't be started is named, and the others go on.
func TestSubmitGoesOnAfterABadOrder(t *testing.T) {
	t.Parallel()
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		cashier, err := shop.NewCashier(shop.CashierConfig{Provider: "http://provider", Transport: &wire{}})
		if err != nil {
			t.Fatal(err)
		}
		env.Worker(shop.NewWorkflow(cashier))
		other := holdfast.Define("other", func(holdfast.Context, string) (string, error) { return "", nil })
		if _, err := other.Start(env.Context(), env.Client(), "", holdfast.WithID("taken")); err != nil {
			t.Fatal(err)
		}
		order := func(id string) shop.Order { return shop.Order{ID: id, Currency: "EUR", Card: shop.CardOK} }
		var b bytes.Buffer
		err = shop.Submit(env.Context(), env.Client(), []shop.Order{order(""), order("taken"), order(strings.Repeat("x", 513)), order("good")},
			shop.SubmitConfig{Out: &b, Wait: true})
		if err == nil || !strings.Contains(err.Error(), `order "taken" was not started`) || !strings.Contains(err.Error(), `order "xxx`) {
			t.Errorf("Submit: %v", err)
		}
		if !strings.Contains(b.String(), "\"good\"\tcompleted") {
			t.Errorf("Submit printed %q", b.String())
		}
	})
}

// What is waited for is printed as it comes, not in the order of the file.
func TestSubmitPrintsOutcomesAsTheyCome(t *testing.T) {
	t.Parallel()
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		cashier, err := shop.NewCashier(shop.CashierConfig{Provider: "http://provider", Transport: slowFor("slow")})
		if err != nil {
			t.Fatal(err)
		}
		env.Worker(shop.NewWorkflow(cashier))
		var b bytes.Buffer
		orders := []shop.Order{{ID: "slow", Currency: "EUR", Card: shop.CardOK}, {ID: "quick", Currency: "EUR", Card: shop.CardOK}}
		if err := shop.Submit(env.Context(), env.Client(), orders, shop.SubmitConfig{Out: &b, Wait: true}); err != nil {
			t.Fatal(err)
		}
		if quick, slow := strings.Index(b.String(), "\"quick\"\tcompleted"), strings.Index(b.String(), "\"slow\"\tcompleted"); quick < 0 || slow < quick {
			t.Errorf("Submit printed %q", b.String())
		}
	})
}

// slowFor is a way to the provider on which the order takes half a minute.
type slowFor string

func (id slowFor) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if strings.Contains(string(body), string(id)) {
		<-time.After(30 * time.Second)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return (&wire{}).RoundTrip(r)
}
