package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/effect"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Payment is an execution's input: where the bank is, and how much is to be charged.
type Payment struct {
	Bank    string
	Cents   int
	RetryIn time.Duration
}

// A Booking is what the bank makes of a charge.
type Booking struct{ Number, Cents int }

var payAtBank = holdfast.Define("charge", func(ctx holdfast.Context, p Payment) (Booking, error) {
	bank := http.Client{Timeout: 10 * time.Second}
	call := func(ctx context.Context, method, key, body string) (Booking, int, error) {
		req, err := http.NewRequestWithContext(ctx, method, p.Bank, strings.NewReader(body))
		if err != nil {
			return Booking{}, 0, err
		}
		req.Header.Set("Charge-Key", key) // with an Idempotency-Key net/http would try again by itself
		resp, err := bank.Do(req)
		if err != nil {
			return Booking{}, 0, err
		}
		defer resp.Body.Close()
		var b Booking
		if resp.StatusCode == http.StatusOK {
			err = json.NewDecoder(resp.Body).Decode(&b)
		}
		return b, resp.StatusCode, err
	}
	return effect.Run(ctx, "charge", effect.Effect[int, Booking]{
		Operation: "charge-card", Input: p.Cents, RetryIn: p.RetryIn,
		Perform: func(ctx context.Context, cents int, key string) (Booking, error) {
			b, status, err := call(ctx, http.MethodPost, key, strconv.Itoa(cents))
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("the bank answered %d", status)
			}
			return b, err
		},
		Lookup: func(ctx context.Context, _ int, key string) (effect.Found[Booking], error) {
			b, status, err := call(ctx, http.MethodGet, key, "")
			switch {
			case err == nil && status == http.StatusOK:
				return effect.Found[Booking]{Status: effect.Settled, Result: b}, nil
			case err == nil && status == http.StatusNotFound:
				return effect.Found[Booking]{Status: effect.NotFound}, nil
			}
			return effect.Found[Booking]{}, err
		},
	})
})

func chargeTrade(_ say) []holdfast.WorkerOption {
	return []holdfast.WorkerOption{payAtBank, holdfast.Concurrency(32)}
}

// A bank is a provider with a ledger, in which a key is booked once.
type bank struct {
	mu       sync.Mutex
	ledger   map[string]Booking
	requests map[string]int // that came to be booked, by key
	unknown  int            // lookups that it could not answer
	dropped  int            // answers that got lost after it had acted

	trouble func(*http.Request) trouble
}

// A trouble is what befalls a request to the bank.
type trouble int

const (
	noTrouble   trouble = iota
	neverComes          // it does not come to the bank
	cantSay             // the bank does not know
	answerLost          // its answer does not come to the caller
	standsStill         // its answer does not come until the caller is gone
)

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key, met := r.Header.Get("Charge-Key"), b.trouble(r)
	switch met {
	case neverComes:
		panic(http.ErrAbortHandler)
	case cantSay:
		b.mu.Lock()
		b.unknown++
		b.mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	booking, there := b.book(r, key)
	if !there {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if met == standsStill {
		<-r.Context().Done()
	}
	if met == standsStill || met == answerLost {
		b.mu.Lock()
		b.dropped++
		b.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(w).Encode(booking)
}

// book books a charge, unless its key is booked, or looks it up.
func (b *bank) book(r *http.Request, key string) (Booking, bool) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	booking, there := b.ledger[key]
	if r.Method == http.MethodPost {
		b.requests[key]++
		if !there {
			cents, err := strconv.Atoi(string(body))
			booking, there = Booking{Number: len(b.ledger) + 1, Cents: cents}, err == nil
			b.ledger[key] = booking
		}
	}
	return booking, there
}

func openBank(t *testing.T, trouble func(*http.Request) trouble) (*bank, string) {
	t.Helper()
	b := &bank{ledger: map[string]Booking{}, requests: map[string]int{}, trouble: trouble}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	return b, server.URL
}

// unknowns says how many lookups it could not answer.
func (b *bank) unknowns() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unknown
}

// onlyEntry demands that one charge is booked, which was asked for once.
func (b *bank) onlyEntry(t *testing.T) Booking {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	var only Booking
	for key, booking := range b.ledger {
		if only = booking; b.requests[key] != 1 {
			t.Errorf("%q was asked for %d times", key, b.requests[key])
		}
	}
	if len(b.ledger) != 1 {
		t.Errorf("the ledger has %d entries: %v", len(b.ledger), b.ledger)
	}
	return only
}

// restart kills every worker and starts others.
func (f *fleet) restart() {
	f.t.Helper()
	for i, child := range f.crew {
		f.kill(child)
		f.crew[i] = f.start()
	}
}

// fieldEffectWithUnknownOutcome: the bank has booked a charge, and the worker is killed
// before it hears of it. Then the bank can't say for a while what it has done: nothing is
// charged again, the execution waits, visibly, also while workers die. When the bank can
// say it, the execution goes on.
func fieldEffectWithUnknownOutcome(t *testing.T, _ theatre) {
	booked, cleared := make(chan struct{}), make(chan struct{})
	var once sync.Once
	bank, url := openBank(t, func(r *http.Request) trouble {
		select {
		case <-cleared:
			return noTrouble
		default:
		}
		if r.Method == http.MethodGet {
			return cantSay
		}
		once.Do(func() { close(booked) })
		return standsStill
	})
	f := newFleet(t, "charge", 2, nil)
	h, err := payAtBank.Start(t.Context(), f.client, Payment{url, 1999, 200 * time.Millisecond}, holdfast.WithID("order-42"))
	if err != nil {
		t.Fatal(err)
	}
	<-booked
	f.restart()
	for range 2 {
		seen := bank.unknowns()
		f.eventually("the bank to be asked in vain, and the execution to wait", func() bool {
			r, err := f.client.Get(t.Context(), h.ID())
			return err == nil && bank.unknowns() > seen+1 && r.Status == execution.StatusSuspended && !r.Due.IsZero()
		})
		f.restart()
	}
	bank.onlyEntry(t)
	f.waitsForTheBank()
	close(cleared)
	if got, err := h.Result(t.Context()); err != nil || got != bank.onlyEntry(t) || got.Cents != 1999 {
		t.Errorf("got %+v, %v", got, err)
	}
	t.Run("soak", fieldEffectSoak)
}

// waitsForTheBank demands that an operator sees what the one effect waits for.
func (f *fleet) waitsForTheBank() {
	f.t.Helper()
	protocol, err := stores.Of(f.client.Stores())
	if err != nil {
		f.t.Fatal(err)
	}
	ids, err := protocol.List(f.t.Context(), "holdfast:effect")
	if err != nil || len(ids) != 1 {
		f.t.Fatalf("effects %q, %v", ids, err)
	}
	r, err := effect.NewClient(f.client).Get(f.t.Context(), ids[0])
	if err != nil || r.Result != nil || r.Begun.Execution != "order-42" || len(r.Waiting) != 1 || r.Waiting[0].Reason != "Lookup: unknown" {
		f.t.Errorf("kept %+v, %v", r, err)
	}
}

// fieldEffectSoak: 100 charges at a bank whose requests and answers get lost, and which
// often can't say what it has done, by workers that are killed. One entry for each.
func fieldEffectSoak(t *testing.T) {
	const charges = 100
	bank, url := openBank(t, func(r *http.Request) trouble {
		switch p := rand.IntN(10); {
		case p == 0:
			return neverComes
		case p <= 3:
			return map[string]trouble{http.MethodGet: cantSay, http.MethodPost: answerLost}[r.Method]
		case p == 4:
			return answerLost
		}
		return noTrouble
	})
	f := newFleet(t, "charge", 3, nil)
	got := make([]Booking, charges)
	kills := f.killWhile(500*time.Millisecond, func() {
		var all sync.WaitGroup
		for i := range charges {
			all.Go(func() {
				h, err := payAtBank.Start(t.Context(), f.client, Payment{url, i, time.Second}, holdfast.WithID(strconv.Itoa(i)))
				if err == nil {
					got[i], err = h.Result(t.Context())
				}
				if err != nil {
					t.Errorf("charge %d: %v", i, err)
				}
			})
		}
		all.Wait()
	})
	bank.mu.Lock()
	defer bank.mu.Unlock()
	booked, repeated := map[Booking]bool{}, 0
	for key, b := range bank.ledger {
		booked[b] = true
		repeated += bank.requests[key] - 1
	}
	for i, b := range got {
		if !booked[b] || b.Cents != i {
			t.Errorf("charge %d came to %+v, which the bank has booked: %t", i, b, booked[b])
		}
	}
	if len(bank.ledger) != charges {
		t.Errorf("the ledger has %d entries, want %d", len(bank.ledger), charges)
	}
	if kills == 0 || bank.dropped == 0 || bank.unknown == 0 {
		t.Errorf("%d workers were killed, %d answers lost, %d lookups in vain: want some of each", kills, bank.dropped, bank.unknown)
	}
	t.Logf("%d workers were killed, %d answers lost, %d lookups in vain; %d requests came for what was booked", kills, bank.dropped, bank.unknown, repeated)
}
