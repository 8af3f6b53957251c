package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// flakyFailures is how often a flaky card fails before it is charged.
const flakyFailures = 2

// A Notice tells what the provider just did.
type Notice struct {
	Entry Entry `json:"entry"` // the attempt
	// Hold is not 0 where the answer is withheld, or was and has now been sent.
	Hold int  `json:"hold,omitempty"`
	Sent bool `json:"sent,omitempty"`
}

// A ProviderConfig configures a Provider.
type ProviderConfig struct {
	Ledger *Ledger       // required
	Past   []Entry       // what the ledger holds already
	Think  time.Duration // how long an answer takes; default: no time
	Holds  Holds         // default: none
	// Notify is told of every attempt once it is on the ledger, of every answer that
	// is withheld, and when it was sent after all. It must not block. Default:
	// nobody is.
	Notify func(Notice)
}

// A Provider is a payment provider that honours idempotency keys: a key's first
// charge is its only one, and every later request with the key gets its receipt.
type Provider struct {
	cfg ProviderConfig

	mu       sync.Mutex
	accounts map[string]*account // by idempotency key
	charges  int
	holds    *holder
}

// An account is what the provider remembers of an idempotency key.
type account struct {
	first    Entry // the first attempt
	failures int
	charge   *Entry
}

// NewProvider returns a provider that goes on from the past entries.
func NewProvider(cfg ProviderConfig) *Provider {
	if cfg.Notify == nil {
		cfg.Notify = func(Notice) {}
	}
	p := &Provider{cfg: cfg, accounts: map[string]*account{}, holds: newHolder(cfg.Holds)}
	for _, e := range cfg.Past {
		p.remember(e)
	}
	return p
}

// Release lets the withheld answer go.
func (p *Provider) Release(hold int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holds.let(hold)
}

// ServeHTTP takes a charge.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Header.Get(KeyHeader)
	var req ChargeRequest
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&req)
	switch {
	case r.Method != http.MethodPost || r.URL.Path != ChargesPath:
		http.Error(w, "POST to "+ChargesPath, http.StatusNotFound)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case key == "":
		http.Error(w, "the header "+KeyHeader+" is missing", http.StatusBadRequest)
		return
	}
	if err := req.validate(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	attempt, charge, hold, err := p.decide(key, req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	p.answer(w, r, attempt, charge, hold)
}

// decide judges an attempt and puts it on the ledger, one at a time. charge is
// the key's charge, if there is one now.
func (p *Provider) decide(key string, req ChargeRequest) (attempt Entry, charge *Entry, hold int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	attempt = Entry{
		Kind: EntryAttempt, At: time.Now().UTC(), OrderID: req.OrderID, IdempotencyKey: key, Invoice: req.Invoice,
		AmountCents: req.AmountCents, Currency: req.Currency, Worker: req.Metadata.Worker, Token: req.Metadata.Token,
	}
	attempt.Answer = p.judge(attempt, req.Card)
	entries := []Entry{attempt}
	switch attempt.Answer {
	case AnswerCharged:
		attempt.ChargeID = "ch_" + strconv.Itoa(p.charges+1)
		made := attempt
		made.Kind = EntryCharge
		entries = []Entry{attempt, made}
	case AnswerRepeated:
		entries[0].ChargeID = p.accounts[key].charge.ChargeID
	}
	if err := p.cfg.Ledger.Append(entries...); err != nil {
		return Entry{}, nil, 0, err
	}
	for _, e := range entries {
		p.remember(e)
	}
	hold = p.holds.next(attempt.Answer, attempt.Worker)
	return entries[0], p.accounts[key].charge, hold, nil
}

// judge says what the answer to an attempt is.
func (p *Provider) judge(attempt Entry, card Card) Answer {
	known := p.accounts[attempt.IdempotencyKey]
	switch {
	case known != nil && !known.first.sameCharge(attempt):
		return AnswerMismatch
	case known != nil && known.charge != nil:
		return AnswerRepeated
	case card == CardOK, card == CardFlaky && known != nil && known.failures >= flakyFailures:
		return AnswerCharged
	case card == CardFlaky:
		return AnswerUnavailable
	}
	return AnswerDeclined
}

// remember takes an entry of the ledger into account.
func (p *Provider) remember(e Entry) {
	a := p.accounts[e.IdempotencyKey]
	if a == nil {
		a = &account{first: e}
		p.accounts[e.IdempotencyKey] = a
	}
	if e.Kind == EntryCharge {
		a.charge = &e
		p.charges++
	} else if e.Answer == AnswerUnavailable {
		a.failures++
	}
}

// answer sends the answer, after the time that it takes and any hold.
func (p *Provider) answer(w http.ResponseWriter, r *http.Request, attempt Entry, charge *Entry, hold int) {
	p.cfg.Notify(Notice{Entry: attempt, Hold: hold})
	if !p.think(r.Context()) || hold > 0 && !p.holds.wait(r.Context(), hold) {
		panic(http.ErrAbortHandler) // no answer; to return would be one
	}
	status, answer := reply(attempt, charge)
	body, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body))) // so that a flushed answer is a whole one
	w.WriteHeader(status)
	_, err = w.Write(body)
	if err == nil {
		err = http.NewResponseController(w).Flush()
	}
	if err == nil && hold > 0 {
		p.cfg.Notify(Notice{Entry: attempt, Hold: hold, Sent: true})
	}
}

// think takes the time that an answer takes, or returns false if ctx ended first.
func (p *Provider) think(ctx context.Context) bool {
	t := time.NewTimer(p.cfg.Think)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Serve answers on the listener until ctx ends, and closes it.
func (p *Provider) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           p,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("provider: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done() // which also ends the answers that are thought about or withheld
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := srv.Shutdown(bound); err != nil {
			return errors.Join(fmt.Errorf("provider: %w", err), srv.Close())
		}
		return nil
	})
	return g.Wait()
}
