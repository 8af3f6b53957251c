package leasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// DefaultScanInterval is how often a holder looks for what its watches may have
// missed.
const DefaultScanInterval = 30 * time.Second

// HolderConfig describes a dispatcher process.
type HolderConfig struct {
	Name      string        // shown to operators; default: the client's
	Duration  time.Duration // of its leases; required; whole seconds, rounded up
	Queues    []string      // required: which queues it claims from
	Workflows []string      // required: which workflows it has; others are left alone
	// ScanInterval is how often it scans for expired leases and for claims that
	// nobody runs; default 30 s, and less where Duration is less.
	ScanInterval time.Duration
}

// A Holder is one process that claims and holds many executions under one etcd
// lease. Its name in etcd, P, is new for every etcd lease: when that ends, the
// claims are moved onto a new one, as far as nobody has taken them. It may be used
// by many goroutines at once. Call [Holder.Close] at the end.
type Holder struct {
	client *Client
	cfg    HolderConfig

	mu       sync.Mutex
	proc     *proc // nil: none, or thrown away
	held     map[claimKey]heldLease
	claiming map[execution.ID]bool // claim calls under way
	moved    chan struct{}         // closed when proc changes
	shard    int                   // where the next scan begins
	resume   map[shard]string      // where it goes on
}

// A heldLease is a lease and the process name that its live record has.
type heldLease struct {
	lease execution.Lease
	proc  string
}

// NewHolder returns a holder; its etcd lease is made by the first claim or renewal.
func (c *Client) NewHolder(cfg HolderConfig) (*Holder, error) {
	if err := validateDuration(cfg.Duration); err != nil {
		return nil, err
	}
	if len(cfg.Queues) == 0 || len(cfg.Workflows) == 0 {
		return nil, errors.New("leasing: a holder needs Queues and Workflows: without them it can claim nothing")
	}
	for _, q := range cfg.Queues {
		if err := execution.ValidateName("queue", q); err != nil {
			return nil, err
		}
	}
	if cfg.Name == "" {
		cfg.Name = c.name
	}
	if cfg.ScanInterval < 0 {
		return nil, &execution.InvalidError{What: "scan interval", Value: cfg.ScanInterval.String(), Reason: "is negative"}
	}
	if cfg.ScanInterval == 0 {
		cfg.ScanInterval = min(DefaultScanInterval, max(cfg.Duration, time.Second))
	}
	return &Holder{
		client: c, cfg: cfg, held: map[claimKey]heldLease{}, claiming: map[execution.ID]bool{},
		moved: make(chan struct{}), shard: int(place(cfg.Name) % keyspace.Shards),
	}, nil
}

// Duration is how long a lease lives without a renewal, as etcd granted it; before
// the first claim or renewal it is the configured one.
func (h *Holder) Duration() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc != nil {
		return h.proc.ttl
	}
	return wholeSeconds(h.cfg.Duration)
}

// Claim claims at most limit due executions of the holder's queues and workflows,
// and returns when the next one is due that it saw (zero: none soon).
func (h *Holder) Claim(ctx context.Context, limit int) (claimed []execution.Delivery, next time.Time, err error) {
	p, err := h.ensure(ctx)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("claim: %w", err)
	}
	now := h.client.now()
	h.mu.Lock()
	h.shard = (h.shard + 1) % keyspace.Shards
	scan := dueScan{
		client: h.client, queues: h.cfg.Queues, workflows: h.cfg.Workflows,
		now: now, want: limit, pages: scanPages, first: h.shard, skip: h.isClaiming, resume: h.resume,
	}
	h.mu.Unlock()
	candidates, next, err := scan.run(ctx)
	if err != nil {
		return nil, next, err
	}
	h.mu.Lock()
	h.resume = scan.resume
	h.mu.Unlock()
	if len(candidates) == 0 {
		return nil, next, nil
	}
	h.mark(candidates, true)
	defer h.mark(candidates, false)
	by := claimer{proc: p.name, holder: h.cfg.Name, epoch: p.epoch, until: h.until(p)}
	claimed, err = h.client.claim(ctx, by, candidates, now)
	h.hold(claimed, p.name)
	if errors.Is(err, errProcGone) {
		h.throwAway(p)
	}
	if len(claimed) < len(candidates) {
		next = now // another holder was faster with some; more may be due behind them
	}
	return claimed, next, err
}

// ensure returns the process's etcd lease, making one where there is none.
func (h *Holder) ensure(ctx context.Context) (*proc, error) {
	h.mu.Lock()
	p := h.proc
	h.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := h.client.newProc(ctx, h.cfg.Name, h.cfg.Duration, false)
	if err != nil {
		return nil, err
	}
	if faster := h.adopt(p); faster != nil {
		h.client.revoke(ctx, p)
		return faster, nil
	}
	return p, nil
}

// adopt makes p the holder's process, or returns the one that another call has made
// meanwhile.
func (h *Holder) adopt(p *proc) *proc {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc != nil {
		return h.proc
	}
	h.proc = p
	close(h.moved)
	h.moved = make(chan struct{})
	return nil
}

// throwAway forgets a proc that is lost or in doubt; the next renewal moves the
// claims onto a new one.
func (h *Holder) throwAway(p *proc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.proc == p {
		h.proc = nil
	}
}

func (h *Holder) until(p *proc) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.until
}

// KeepAlive renews the etcd lease once and returns until when the leases are
// confirmed. Where it has ended, the claims are moved onto a new one; lost are those
// that somebody else has taken, each with its own [execution.LostError]. An error
// says that nothing was confirmed.
func (h *Holder) KeepAlive(ctx context.Context) (until time.Time, lost []*execution.LostError, err error) {
	defer func() { h.client.observer.Tell(execution.Event{Kind: execution.EventRenewal, Err: err}) }()
	h.mu.Lock()
	p := h.proc
	h.mu.Unlock()
	if p != nil {
		until, err = h.client.keepAlive(ctx, p)
		if errors.Is(err, etcd.ErrLeaseNotFound) {
			h.throwAway(p)
			p = nil
		} else if err != nil {
			return time.Time{}, nil, err
		}
	}
	if p == nil {
		if p, err = h.ensure(ctx); err != nil {
			return time.Time{}, nil, err
		}
		until = h.until(p)
	}
	h.mu.Lock()
	p.until = until
	h.mu.Unlock()
	lost, err = h.gather(ctx, p)
	return until, lost, err
}

// gather moves the claims that are still on an earlier process onto p.
func (h *Holder) gather(ctx context.Context, p *proc) ([]*execution.LostError, error) {
	var strays []execution.Lease
	h.mu.Lock()
	for _, l := range h.held {
		if l.proc != p.name {
			strays = append(strays, l.lease)
		}
	}
	h.mu.Unlock()
	if len(strays) == 0 {
		return nil, nil
	}
	slices.SortFunc(strays, func(a, b execution.Lease) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Token, b.Token))
	})
	lost, err := h.client.rehome(ctx, strays, p)
	if errors.Is(err, errProcGone) {
		h.throwAway(p)
	}
	for _, l := range lost {
		h.Forget(execution.Lease{ID: l.ID, Token: l.Carried})
	}
	if err != nil {
		return lost, err
	}
	h.settle(strays, p.name)
	h.client.log.Warn("the etcd lease had ended; its leases were renewed onto a new one",
		zap.Int("leases", len(strays)-len(lost)), zap.Int("lost", len(lost)))
	h.client.observer.Tell(execution.Event{Kind: execution.EventRehomed, Count: len(strays) - len(lost)})
	return lost, nil
}

// settle notes that those of the leases that are still held are on the process.
func (h *Holder) settle(leases []execution.Lease, proc string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range leases {
		key := claimKey{l.ID, l.Token}
		if held, ok := h.held[key]; ok {
			held.proc = proc
			h.held[key] = held
		}
	}
}

// Acknowledge is [Client.Acknowledge] for a lease of this holder.
func (h *Holder) Acknowledge(ctx context.Context, lease execution.Lease, outcome execution.Outcome) error {
	next, err := h.client.acknowledge(ctx, lease, outcome)
	if err = h.over(lease, err); err == nil {
		h.client.clearEarlierRuns(ctx, lease, next)
	}
	return err
}

// Release is [Client.Release] for a lease of this holder.
func (h *Holder) Release(ctx context.Context, lease execution.Lease, why string) error {
	return h.over(lease, h.client.Release(ctx, lease, why))
}

// over forgets a lease whose end is certain.
func (h *Holder) over(lease execution.Lease, err error) error {
	if err == nil || errors.Is(err, execution.ErrLost) {
		h.Forget(lease)
	}
	return err
}

// Forget gives up a lease without ending it: the delivery runs no more, and what
// became of its last call is unknown. The next sweep releases it if it is still
// claimed.
func (h *Holder) Forget(lease execution.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, claimKey{lease.ID, lease.Token})
	h.client.claims.drop(lease)
}

func (h *Holder) hold(ds []execution.Delivery, proc string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range ds {
		h.held[claimKey{d.ID, d.Token}] = heldLease{d.Lease, proc}
	}
}

func (h *Holder) mark(candidates []candidate, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range candidates {
		if on {
			h.claiming[c.id] = true
		} else {
			delete(h.claiming, c.id)
		}
	}
}

func (h *Holder) isClaiming(id execution.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.claiming[id]
}

// Close ends the etcd lease. What is still held expires at once.
func (h *Holder) Close(ctx context.Context) {
	h.mu.Lock()
	p := h.proc
	h.proc = nil
	h.mu.Unlock()
	if p != nil {
		h.client.revoke(ctx, p)
	}
}
