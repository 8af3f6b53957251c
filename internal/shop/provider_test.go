package shop_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/shop"
)

// patience bounds every wait of these tests; none comes near it.
const patience = 30 * time.Second

// A stand is a provider that answers over HTTP, with its ledger.
type stand struct {
	*shop.Provider
	url    string
	ledger string
	stop   func() // ends it; calling it again does nothing
}

func open(t *testing.T, ledger string, change func(*shop.ProviderConfig)) *stand {
	t.Helper()
	l, past, err := shop.OpenLedger(ledger)
	if err != nil {
		t.Fatal(err)
	}
	cfg := shop.ProviderConfig{Ledger: l, Past: past}
	if change != nil {
		change(&cfg)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &stand{Provider: shop.NewProvider(cfg), url: "http://" + listener.Addr().String(), ledger: ledger}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Serve(ctx, listener); err != nil {
			t.Error(err)
		}
	})
	s.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		l.Close()
	})
	t.Cleanup(s.stop)
	return s
}

func newStand(t *testing.T, change func(*shop.ProviderConfig)) *stand {
	return open(t, filepath.Join(t.TempDir(), "ledger.jsonl"), change)
}

func (s *stand) cashier(t *testing.T, worker string) *shop.Cashier {
	t.Helper()
	c, err := shop.NewCashier(shop.CashierConfig{Provider: s.url, Worker: worker})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// entries returns what the ledger holds, as "kind answer" each.
func (s *stand) entries(t *testing.T) []string {
	t.Helper()
	entries, err := shop.ReadLedger(s.ledger)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, string(e.Kind)+" "+string(e.Answer))
	}
	return got
}

func request(card shop.Card) shop.ChargeRequest {
	return shop.ChargeRequest{OrderID: "🎁/42", Invoice: "INV-1", AmountCents: 4200, Currency: "EUR", Card: card}
}

// Each step is one attempt with the key k; the ledger is compared in the end.
func TestProviderAnswers(t *testing.T) {
	t.Parallel()
	other := request(shop.CardOK)
	other.AmountCents++
	free := request(shop.CardOK)
	free.AmountCents = 0
	type attempt struct {
		req  shop.ChargeRequest
		want string // charged, declined, again, never
	}
	tests := []struct {
		name     string
		attempts []attempt
		ledger   []string
	}{
		{"ok", []attempt{{request(shop.CardOK), "charged"}}, []string{"attempt charged", "charge charged"}},
		{"zero amount", []attempt{{free, "charged"}}, []string{"attempt charged", "charge charged"}},
		{
			"a repeat gets the first receipt",
			[]attempt{{request(shop.CardOK), "charged"}, {request(shop.CardOK), "charged"}},
			[]string{"attempt charged", "charge charged", "attempt repeated"},
		},
		{
			"declined stays declined",
			[]attempt{{request(shop.CardDeclined), "declined"}, {request(shop.CardDeclined), "declined"}},
			[]string{"attempt declined", "attempt declined"},
		},
		{
			"flaky fails twice",
			[]attempt{{request(shop.CardFlaky), "again"}, {request(shop.CardFlaky), "again"}, {request(shop.CardFlaky), "charged"}, {request(shop.CardFlaky), "charged"}},
			[]string{"attempt unavailable", "attempt unavailable", "attempt charged", "charge charged", "attempt repeated"},
		},
		{
			"a key is for one charge",
			[]attempt{{request(shop.CardOK), "charged"}, {other, "never"}},
			[]string{"attempt charged", "charge charged", "attempt mismatch"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStand(t, nil)
			c := s.cashier(t, "worker-1")
			var first *shop.Charge
			for i, a := range tt.attempts {
				p, err := c.Charge(t.Context(), "k", int64(i+1), a.req)
				var permanent *holdfast.PermanentError
				got := "charged"
				switch {
				case errors.As(err, &permanent):
					got = "never"
				case err != nil:
					got = "again"
				case p.Charge == nil:
					got = "declined"
				}
				if got != a.want {
					t.Errorf("attempt %d came to %q (%v), want %q", i+1, got, err, a.want)
				}
				if p.Charge != nil && first == nil {
					first = p.Charge
				}
				if p.Charge != nil && *p.Charge != *first {
					t.Errorf("attempt %d got the receipt %+v, the first got %+v", i+1, *p.Charge, *first)
				}
			}
			if got := s.entries(t); !slices.Equal(got, tt.ledger) {
				t.Errorf("the ledger holds %q, want %q", got, tt.ledger)
			}
		})
	}
}

func TestProviderChargesOnceHoweverManyAskAtOnce(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			p, err := s.cashier(t, "worker-1").Charge(t.Context(), "k", 1, request(shop.CardOK))
			if err != nil || p.Charge == nil || p.Charge.ID != "ch_1" {
				t.Errorf("Charge gave %+v, %v", p, err)
			}
		})
	}
	wg.Wait()
	charges := 0
	for _, e := range s.entries(t) {
		if e == "charge charged" {
			charges++
		}
	}
	if n := len(s.entries(t)); charges != 1 || n != 17 {
		t.Errorf("%d charges in %d entries, want 1 in 17", charges, n)
	}
}

func TestProviderRemembersKeysOverARestart(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil)
	c := s.cashier(t, "worker-1")
	if _, err := c.Charge(t.Context(), "flaky", 1, request(shop.CardFlaky)); err == nil {
		t.Fatal("a flaky card was charged at once")
	}
	first, err := c.Charge(t.Context(), "k", 1, request(shop.CardOK))
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	s = open(t, s.ledger, nil)
	c = s.cashier(t, "worker-2")
	again, err := c.Charge(t.Context(), "k", 2, request(shop.CardOK))
	if err != nil || *again.Charge != *first.Charge {
		t.Errorf("after a restart Charge gave %+v, %v, want %+v", again, err, first)
	}
	if _, err := c.Charge(t.Context(), "flaky", 2, request(shop.CardFlaky)); err == nil {
		t.Error("a flaky card's second attempt was charged")
	}
	third, err := c.Charge(t.Context(), "flaky", 2, request(shop.CardFlaky))
	if err != nil || third.Charge.ID != "ch_2" {
		t.Errorf("a flaky card's third attempt gave %+v, %v", third, err)
	}
}

func TestProviderRefusesBadRequests(t *testing.T) {
	s := newStand(t, nil)
	const good = `{"orderId":"a","amountCents":1,"currency":"EUR","card":"ok"}`
	tests := []struct {
		name, method, path, key, body string
		status                        int
	}{
		{"wrong method", "GET", shop.ChargesPath, "k", "", http.StatusNotFound},
		{"wrong path", "POST", "/", "k", good, http.StatusNotFound},
		{"no key", "POST", shop.ChargesPath, "", good, http.StatusBadRequest},
		{"no JSON", "POST", shop.ChargesPath, "k", "x", http.StatusBadRequest},
		{"no order", "POST", shop.ChargesPath, "k", strings.Replace(good, `"a"`, `""`, 1), http.StatusBadRequest},
		{"negative amount", "POST", shop.ChargesPath, "k", strings.Replace(good, ":1", ":-1", 1), http.StatusBadRequest},
		{"unknown card", "POST", shop.ChargesPath, "k", strings.Replace(good, `"ok"`, `"visa"`, 1), http.StatusBadRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), tt.method, s.url+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(shop.KeyHeader, tt.key)
			req.Close = true
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != tt.status {
				t.Errorf("status %d, want %d", res.StatusCode, tt.status)
			}
		})
	}
	if got := s.entries(t); len(got) > 0 {
		t.Errorf("the ledger holds %q", got)
	}
}

// A hold withholds an answer whose charge is on the ledger; the next hold is
// another worker's.
func TestProviderHolds(t *testing.T) {
	t.Parallel()
	notices := make(chan shop.Notice, 100)
	s := newStand(t, func(c *shop.ProviderConfig) {
		c.Holds = shop.Holds{After: []int{2, 3}}
		c.Notify = func(n shop.Notice) { notices <- n }
	})
	charge := func(worker, key string, card shop.Card) (held int, answer <-chan error) {
		t.Helper()
		c, done := s.cashier(t, worker), make(chan error, 1)
		go func() { // ends with the answer, which the test waits for
			_, err := c.Charge(t.Context(), key, 7, request(card))
			done <- err
		}()
		n := receive(t, notices)
		if n.Entry.Worker != worker || n.Entry.Token != 7 || n.Entry.IdempotencyKey != key || n.Sent {
			t.Errorf("notice %+v of the attempt of %s with key %s", n, worker, key)
		}
		return n.Hold, done
	}
	steps := []struct {
		worker, key string
		card        shop.Card
		hold        int
	}{
		{"a", "declined", shop.CardDeclined, 0},
		{"a", "flaky", shop.CardFlaky, 0},
		{"a", "k1", shop.CardOK, 0},
		{"a", "k2", shop.CardOK, 1},
		{"a", "k3", shop.CardOK, 0}, // the third final answer, but the worker of the first hold
		{"b", "k2", shop.CardOK, 2}, // a repeat is a final answer
		{"c", "k4", shop.CardOK, 0},
	}
	held := map[int]<-chan error{}
	for i, st := range steps {
		hold, answer := charge(st.worker, st.key, st.card)
		if hold != st.hold {
			t.Errorf("attempt %d falls under hold %d, want %d", i+1, hold, st.hold)
		}
		if hold == 0 {
			_ = receive(t, answer)
		} else {
			held[hold] = answer
		}
	}
	if got := s.entries(t); !slices.Contains(got, "attempt repeated") || len(got) != 11 {
		t.Errorf("the ledger holds %q", got)
	}
	for hold := 2; hold > 0; hold-- {
		select {
		case err := <-held[hold]:
			t.Fatalf("the answer of hold %d came early: %v", hold, err)
		default:
		}
		if err := errors.Join(s.Release(hold), s.Release(hold)); err != nil {
			t.Fatal(err)
		}
		if n := receive(t, notices); n.Hold != hold || !n.Sent {
			t.Errorf("notice %+v after the release of hold %d", n, hold)
		}
		if err := receive(t, held[hold]); err != nil {
			t.Errorf("the answer of hold %d: %v", hold, err)
		}
	}
	if err := s.Release(3); err == nil {
		t.Error("a hold that does not exist was released")
	}
}

func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	var v T
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatal("nothing came")
	}
	return v
}

// A provider that ends gives no answer at all to what it withholds.
func TestProviderStopsWhileItWithholds(t *testing.T) {
	t.Parallel()
	notices := make(chan shop.Notice, 10)
	s := newStand(t, func(c *shop.ProviderConfig) {
		c.Holds = shop.Holds{After: []int{1}}
		c.Notify = func(n shop.Notice) { notices <- n }
	})
	c, done := s.cashier(t, "a"), make(chan error, 1)
	go func() {
		_, err := c.Charge(t.Context(), "k", 1, request(shop.CardOK))
		done <- err
	}()
	receive(t, notices)
	s.stop()
	var permanent *holdfast.PermanentError
	if err := receive(t, done); err == nil || errors.As(err, &permanent) {
		t.Errorf("Charge: %v, want an error that another attempt may change", err)
	}
}

// The answer that comes after the context has ended is taken all the same.
func TestCashierTakesALateAnswer(t *testing.T) {
	t.Parallel()
	notices := make(chan shop.Notice, 10)
	s := newStand(t, func(c *shop.ProviderConfig) {
		c.Holds = shop.Holds{After: []int{1}}
		c.Notify = func(n shop.Notice) { notices <- n }
	})
	c, done := s.cashier(t, "a"), make(chan shop.Payment, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		p, _ := c.Charge(ctx, "k", 1, request(shop.CardOK))
		done <- p
	}()
	receive(t, notices)
	cancel()
	if err := s.Release(1); err != nil {
		t.Fatal(err)
	}
	if p := receive(t, done); p.Charge == nil {
		t.Error("the late answer was lost")
	}
}

func TestCashierGivesUpAfterItsOwnTimeout(t *testing.T) {
	t.Parallel()
	s := newStand(t, func(c *shop.ProviderConfig) { c.Holds = shop.Holds{After: []int{1}} })
	c, err := shop.NewCashier(shop.CashierConfig{Provider: s.url, Timeout: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Charge(t.Context(), "k", 1, request(shop.CardOK)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Charge: %v", err)
	}
}

func TestNewCashierRefuses(t *testing.T) {
	t.Parallel()
	for _, cfg := range []shop.CashierConfig{
		{},
		{Provider: "127.0.0.1:7440"},
		{Provider: "ftp://127.0.0.1"},
		{Provider: "http://"},
		{Provider: "http://127.0.0.1", Timeout: -1},
	} {
		if _, err := shop.NewCashier(cfg); err == nil {
			t.Errorf("NewCashier(%+v) gave no error", cfg)
		}
	}
}
