package leasing

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// MaxDuration is the longest lease: a crashed holder's work would wait for it.
const MaxDuration = 24 * time.Hour

// A proc is a holder process's etcd lease. Its name is new for every etcd lease
// and never used again: one that is lost or in doubt is thrown away.
type proc struct {
	name  string
	lease etcd.LeaseID
	ttl   time.Duration // as granted; etcd has a minimum and counts whole seconds
	epoch string
	until time.Time // when the etcd lease ends unless renewed; monotonic
}

// newProc makes an etcd lease of at least the duration, and the proc record on it.
func (c *Client) newProc(ctx context.Context, holder string, duration time.Duration, single bool) (*proc, error) {
	if err := validateDuration(duration); err != nil {
		return nil, err
	}
	begun := time.Now()
	lease, ttl, err := c.store.Grant(ctx, wholeSeconds(duration))
	if err != nil {
		return nil, fmt.Errorf("grant an etcd lease of %v: %w", duration, err)
	}
	p := &proc{name: c.procName(), lease: lease, ttl: ttl, epoch: *c.epoch.Load(), until: begun.Add(ttl)}
	rec := record.Proc{Holder: holder, Started: millis(c.now()), TTL: int64(ttl / time.Second), Single: single}
	put := etcd.Put{Key: c.space.Proc(p.name), Value: rec.Encode(), Lease: lease}
	if _, _, err := fencing.Send(ctx, c.store, &etcd.Txn{Then: []etcd.Op{put}}); err != nil {
		c.revoke(ctx, p)
		return nil, fmt.Errorf("record the holder: %w", err)
	}
	return p, nil
}

// procName returns a name that nobody has had: the process's own, the number of its
// etcd lease, and chance.
func (c *Client) procName() string {
	return fmt.Sprintf("%.64s.%d.%s", c.name, c.leases.Add(1), rand.Text())
}

// revoke ends a proc's etcd lease at once, also when ctx has ended; failing that,
// it ends by itself.
func (c *Client) revoke(ctx context.Context, p *proc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(p.ttl, 5*time.Second))
	defer cancel()
	_ = c.store.Revoke(ctx, p.lease) // it ends by itself
}

// keepAlive renews the proc's etcd lease once.
func (c *Client) keepAlive(ctx context.Context, p *proc) (until time.Time, err error) {
	begun := time.Now()
	ttl, err := c.store.KeepAlive(ctx, p.lease)
	if err != nil {
		return time.Time{}, err
	}
	return begun.Add(ttl), nil
}

func validateDuration(d time.Duration) error {
	if d <= 0 || d > MaxDuration {
		return &execution.InvalidError{What: "lease duration", Value: d.String(), Reason: "is not between 1s and 24h"}
	}
	return nil
}

// wholeSeconds rounds up: etcd counts TTLs in whole seconds.
func wholeSeconds(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}

func (c *Client) validateClaim(req *execution.ClaimRequest) error {
	if req.Limit < 1 {
		return &execution.InvalidError{What: "claim limit", Value: strconv.Itoa(req.Limit), Reason: "is less than 1"}
	}
	if req.Now.IsZero() {
		req.Now = c.now()
	}
	for _, q := range req.Queues {
		if err := execution.ValidateName("queue", q); err != nil {
			return err
		}
	}
	return validateDuration(req.Duration)
}
