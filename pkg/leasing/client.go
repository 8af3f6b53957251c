package leasing

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"hash/fnv"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// Config says where the executions are and how they are redelivered.
type Config struct {
	Store    etcd.Store         // required
	Space    keyspace.Space     // required
	Logger   *zap.Logger        // default: silent
	Observer execution.Observer // default: none
	Delay    DelayPolicy        // default: 1 s doubling to 5 min
	// Name says who this process is: operators see it, and processes of different
	// names begin their scans at different places. Default: host/pid.
	Name string
	// Jitter returns a part of the bound by which a pause is varied, so that many
	// processes do not act at the same instant; default: a random one.
	Jitter func(bound time.Duration) time.Duration
	// Ended is called after the client has ended an execution, if somebody may be
	// waiting for that, to wake them. It returns when it has tried. Default: they are
	// woken by whoever else sees the notice of the end.
	Ended func(ctx context.Context, id execution.ID)
	// Now is the wall clock, which stored times and due times go by; default
	// time.Now. Leases and pauses go by the monotonic clock, whatever this says.
	Now func() time.Time
}

// A Client acts on the executions of one namespace. It may be used by many
// goroutines at once.
type Client struct {
	store    etcd.Store
	space    keyspace.Space
	log      *zap.Logger
	observer execution.Observer
	delay    DelayPolicy
	name     string
	jitter   func(time.Duration) time.Duration
	now      func() time.Time
	ended    func(context.Context, execution.ID)
	scans    atomic.Uint32 // of ClaimDue; begins at a place of the name's own
	leases   atomic.Uint64 // etcd leases that it has made

	epoch    atomic.Pointer[string]
	claims   claimCache
	outdated entrySet
	reported onceSet

	reapMu   sync.Mutex
	reapedAt time.Time // of claimDue's own scan
}

// New returns a client of the namespace. It reads the namespace's epoch, or
// creates it.
func New(ctx context.Context, cfg Config) (*Client, error) {
	if cfg.Store == nil || cfg.Space == (keyspace.Space{}) {
		return nil, errors.New("leasing: Store and Space are required")
	}
	delay, err := cfg.Delay.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("leasing: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	if cfg.Name == "" {
		cfg.Name = processName()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Ended == nil {
		cfg.Ended = func(context.Context, execution.ID) {}
	}
	if cfg.Jitter == nil {
		cfg.Jitter = func(bound time.Duration) time.Duration { return mathrand.N(max(bound, 1)) }
	}
	c := &Client{
		store: cfg.Store, space: cfg.Space, log: cfg.Logger, observer: cfg.Observer, delay: delay,
		name: cfg.Name, jitter: cfg.Jitter, now: cfg.Now, ended: cfg.Ended,
	}
	c.scans.Store(place(cfg.Name))
	return c, c.loadEpoch(ctx)
}

// loadEpoch reads the epoch, creating it where there is none.
func (c *Client) loadEpoch(ctx context.Context) error {
	fresh := rand.Text()
	key := c.space.Epoch()
	res, _, err := fencing.Send(ctx, c.store, &etcd.Txn{
		If:   []etcd.Compare{etcd.Absent(key)},
		Then: []etcd.Op{etcd.Put{Key: key, Value: []byte(fresh)}},
		Else: []etcd.Op{etcd.Get{Key: key}},
	})
	if err != nil {
		return fmt.Errorf("read the namespace's epoch: %w", err)
	}
	if !res.Succeeded {
		kv, _ := res.Results[0].One()
		fresh = string(kv.Value)
	}
	c.epoch.Store(&fresh)
	return nil
}

// inEpoch is the compare that refuses what was remembered before a restore.
func (c *Client) inEpoch() etcd.Compare { return etcd.ValueIs(c.space.Epoch(), *c.epoch.Load()) }

// sawEpoch takes over the epoch that a refusal showed.
func (c *Client) sawEpoch(r etcd.Result) {
	kv, _ := r.One()
	if now := string(kv.Value); now != *c.epoch.Load() {
		c.log.Warn("the namespace's epoch has changed: it was restored from a backup; every lease from before is void")
		c.epoch.Store(&now)
	}
}

func (c *Client) call(lease execution.Lease, operation, nonce string) fencing.Call {
	call := fencing.Call{Store: c.store, Space: c.space, Observer: c.observer, Lease: lease, Operation: operation, Nonce: nonce}
	if operation == opSweep {
		call.Observer = nil
	}
	return call
}

// bad reports a record that can't be read, once; everything else goes on without it.
func (c *Client) bad(key string, err error) {
	if !c.reported.first(key, err.Error()) {
		return
	}
	c.log.Error("a record can't be read; it is set aside", zap.String("key", key), zap.Error(err))
	c.observer.Tell(execution.Event{Kind: execution.EventBadRecord, Operation: key, Err: err})
}

// processName is the default of Config.Name.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return host + "/" + strconv.Itoa(os.Getpid())
}

// place returns a number of the name's own, to begin a scan at.
func place(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

// newNonce identifies one call.
func newNonce() string { return rand.Text()[:16] }

// millis is a time as records hold it; the zero time is 0.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	if t.After(keyspace.MaxTime) { // UnixMilli may wrap around, into the past
		return keyspace.MaxTime.UnixMilli()
	}
	return max(t.UnixMilli(), 1)
}

// instant is the inverse of millis.
func instant(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
