package testetcd

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// Counts holds how many requests of each kind were sent, also those that failed.
type Counts struct {
	Txns       atomic.Int64 // transactions, also those that only read
	Reads      atomic.Int64 // the transactions among them that hold no put and no deletion
	Gets       atomic.Int64
	Grants     atomic.Int64
	KeepAlives atomic.Int64
	Revokes    atomic.Int64
	Watches    atomic.Int64
}

// Reset sets every count to 0.
func (c *Counts) Reset() {
	for _, n := range []*atomic.Int64{&c.Txns, &c.Reads, &c.Gets, &c.Grants, &c.KeepAlives, &c.Revokes, &c.Watches} {
		n.Store(0)
	}
}

// Total returns the number of requests.
func (c *Counts) Total() int64 {
	return c.Txns.Load() + c.Gets.Load() + c.Grants.Load() + c.KeepAlives.Load() + c.Revokes.Load() + c.Watches.Load()
}

// String returns the counts on one line.
func (c *Counts) String() string {
	return fmt.Sprintf("%d transactions (%d of them reads), %d gets, %d grants, %d keepalives, %d revokes, %d watches",
		c.Txns.Load(), c.Reads.Load(), c.Gets.Load(), c.Grants.Load(), c.KeepAlives.Load(), c.Revokes.Load(), c.Watches.Load())
}

type recorder struct {
	store  etcd.Store
	counts *Counts
}

// Recorder returns the store and what counts its requests.
func Recorder(t testing.TB, store etcd.Store) (etcd.Store, *Counts) {
	t.Helper()
	counts := &Counts{}
	return &recorder{store, counts}, counts
}

func (r *recorder) Txn(ctx context.Context, txn *etcd.Txn) (*etcd.TxnResult, error) {
	r.counts.Txns.Add(1)
	if !writes(txn) {
		r.counts.Reads.Add(1)
	}
	return r.store.Txn(ctx, txn)
}

func (r *recorder) Get(ctx context.Context, get etcd.Get) (etcd.Result, int64, error) {
	r.counts.Gets.Add(1)
	return r.store.Get(ctx, get)
}

func (r *recorder) Grant(ctx context.Context, ttl time.Duration) (etcd.LeaseID, time.Duration, error) {
	r.counts.Grants.Add(1)
	return r.store.Grant(ctx, ttl)
}

func (r *recorder) KeepAlive(ctx context.Context, id etcd.LeaseID) (time.Duration, error) {
	r.counts.KeepAlives.Add(1)
	return r.store.KeepAlive(ctx, id)
}

func (r *recorder) Revoke(ctx context.Context, id etcd.LeaseID) error {
	r.counts.Revokes.Add(1)
	return r.store.Revoke(ctx, id)
}

func (r *recorder) Watch(ctx context.Context, start, end string, revision int64) <-chan etcd.Batch {
	r.counts.Watches.Add(1)
	return r.store.Watch(ctx, start, end, revision)
}

func writes(txn *etcd.Txn) bool {
	for _, branch := range [][]etcd.Op{txn.Then, txn.Else} {
		for _, op := range branch {
			switch op := op.(type) {
			case etcd.Put, etcd.Delete:
				return true
			case *etcd.Txn:
				if writes(op) {
					return true
				}
			}
		}
	}
	return false
}
