package shop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast"
)

// A CashierConfig configures a Cashier.
type CashierConfig struct {
	Provider string        // the provider's URL, such as http://127.0.0.1:7440; required
	Worker   string        // who asks, for the provider's ledger
	Timeout  time.Duration // of one charge; default 1 min
	// Transport carries the requests. Default: connections of the cashier's own.
	Transport http.RoundTripper
	// Outage is told why the provider gives no answer, once in a while as long as it
	// gives none, and nil when it answers again. Default: nobody is.
	Outage func(why error)
}

// outageEvery is how often an outage is told of.
const outageEvery = 10 * time.Second

// A Cashier charges cards through a payment provider.
type Cashier struct {
	charges string
	worker  string
	timeout time.Duration
	client  *http.Client
	outage  func(why error)

	mu   sync.Mutex
	told time.Time // when the present outage was told of; zero: there is none
}

// NewCashier returns a cashier. It connects when it first charges.
func NewCashier(cfg CashierConfig) (*Cashier, error) {
	u, err := url.Parse(cfg.Provider)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("provider %q: want a URL such as http://127.0.0.1:7440", cfg.Provider)
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("charge timeout %v: want more than 0", cfg.Timeout)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Outage == nil {
		cfg.Outage = func(error) {}
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second}
	}
	return &Cashier{
		charges: u.JoinPath(ChargesPath).String(), worker: cfg.Worker, timeout: cfg.Timeout,
		client: &http.Client{Transport: cfg.Transport}, outage: cfg.Outage,
	}, nil
}

// Close drops the idle connections.
func (c *Cashier) Close() { c.client.CloseIdleConnections() }

// A Payment is what a charge came to: the charge, or that the card was declined.
type Payment struct {
	Charge   *Charge `json:"charge,omitempty"`
	Declined string  `json:"declined,omitempty"`
}

// Charge asks for a charge under an idempotency key. No answer, or one that another
// attempt may change, is an error, and says nothing about the card: it may have been
// charged. A request that the provider refused for good is a permanent one.
//
// The request is not given up when ctx ends, but only after the cashier's own
// timeout. By then the card may have been charged, and an answer that arrives late
// is still worth having: the step's result is offered to etcd once, and etcd
// decides whether it counts. A worker that was frozen in mid-charge and taken over
// meanwhile comes back with exactly such an answer, and is refused.
func (c *Cashier) Charge(ctx context.Context, key string, token int64, req ChargeRequest) (Payment, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	req.Metadata = Metadata{Worker: c.worker, Token: token}
	body, err := json.Marshal(req)
	if err != nil {
		return Payment{}, holdfast.Permanent(err)
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, c.charges, bytes.NewReader(body))
	if err != nil {
		return Payment{}, holdfast.Permanent(err)
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set(KeyHeader, key)
	status, answer, err := c.send(post)
	if err != nil {
		err = fmt.Errorf("the provider gave no answer: %w", err)
		c.note(err)
		return Payment{}, err
	}
	p, err := payment(status, answer)
	if status >= http.StatusInternalServerError && !decided(answer) {
		c.note(err)
	} else {
		c.note(nil)
	}
	return p, err
}

// decided says whether an answer is the provider's own, and not that of something on
// the way to it.
func decided(answer []byte) bool {
	var r Refusal
	return json.Unmarshal(answer, &r) == nil && r.Answer != ""
}

func (c *Cashier) send(post *http.Request) (status int, answer []byte, err error) {
	res, err := c.client.Do(post)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, answer, err
}

// note tells of the beginning, the going on and the end of an outage.
func (c *Cashier) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && !c.told.IsZero():
		c.told = time.Time{}
		c.outage(nil)
	case err != nil && time.Since(c.told) >= outageEvery:
		c.told = time.Now()
		c.outage(err)
	}
}

// payment reads an answer. To be declined is an answer like another, not an error:
// a result is recorded even if its delivery was cut short, an error is not.
func payment(status int, answer []byte) (p Payment, err error) {
	switch {
	case status == http.StatusOK:
		p.Charge = new(Charge)
		err = json.Unmarshal(answer, p.Charge)
	case status == http.StatusPaymentRequired:
		var r Refusal
		err = json.Unmarshal(answer, &r)
		p.Declined = r.Message
	case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		err = holdfast.Permanent(fmt.Errorf("the provider refused the request with status %d: %s", status, excerpt(bytes.TrimSpace(answer))))
	default:
		err = fmt.Errorf("the provider answered with status %d", status)
	}
	if err != nil {
		return Payment{}, err
	}
	return p, nil
}
