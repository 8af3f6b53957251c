package etcdv3

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// store is an etcd.Store on etcd's client.
type store struct {
	main    *clientv3.Client
	lane    *clientv3.Client
	watches atomic.Uint64 // that were begun
}

// New returns the etcd behind main. Keepalives go through lane, so that they
// never queue behind other traffic of one connection; it may equal main, which
// costs nothing where main is an in-process client. The caller closes both.
func New(main, lane *clientv3.Client) etcd.Store {
	return &store{main: main, lane: lane}
}

// Txn runs the transaction.
func (s *store) Txn(ctx context.Context, txn *etcd.Txn) (*etcd.TxnResult, error) {
	op, err := txnOp(txn)
	if err == nil {
		err = s.open()
	}
	if err != nil {
		return nil, err
	}
	resp, err := s.main.Do(s.leader(ctx), op)
	if err != nil {
		return nil, s.closed(wrap(ctx, payload(txn), err))
	}
	return txnResult(resp.Txn(), resp.Txn().Header.GetRevision()), nil
}

// Get reads linearizably.
func (s *store) Get(ctx context.Context, get etcd.Get) (etcd.Result, int64, error) {
	if err := s.open(); err != nil {
		return etcd.Result{}, 0, err
	}
	resp, err := s.main.Do(s.leader(ctx), getOp(get))
	if err != nil {
		err = s.closed(wrap(ctx, len(get.Key)+len(get.End), err))
		if get.Revision != 0 {
			err = fmt.Errorf("read at revision %d: %w", get.Revision, err)
		}
		return etcd.Result{}, 0, err
	}
	got := resp.Get()
	return etcd.Result{KVs: kvs(got.Kvs), More: got.More, Count: got.Count}, got.Header.GetRevision(), nil
}

// Grant asks for the ttl rounded up to whole seconds.
func (s *store) Grant(ctx context.Context, ttl time.Duration) (etcd.LeaseID, time.Duration, error) {
	if ttl <= 0 {
		return 0, 0, fmt.Errorf("%w: an etcd lease of %v: want a positive duration", etcd.ErrInvalid, ttl)
	}
	seconds := int64(ttl / time.Second)
	if ttl%time.Second != 0 {
		seconds++
	}
	if err := s.open(); err != nil {
		return 0, 0, err
	}
	resp, err := s.main.Grant(s.leader(ctx), seconds)
	if err == nil && resp.Error != "" {
		err = errors.New(resp.Error)
	}
	if err != nil {
		return 0, 0, s.closed(wrap(ctx, 0, err))
	}
	return etcd.LeaseID(resp.ID), time.Duration(resp.TTL) * time.Second, nil
}

// Revoke ends the etcd lease.
func (s *store) Revoke(ctx context.Context, id etcd.LeaseID) error {
	_, err := s.main.Revoke(s.leader(ctx), clientv3.LeaseID(id))
	return wrap(ctx, 0, err)
}

// open returns ErrClosed for a client that was closed: it would be tried for as
// long as the caller waits.
func (s *store) open() error {
	if s.main.Ctx().Err() != nil {
		return etcd.ErrClosed
	}
	return nil
}

// closed says of a failed request that the client was closed meanwhile.
func (s *store) closed(err error) error {
	if s.main.Ctx().Err() != nil {
		return fmt.Errorf("%w: %w", etcd.ErrClosed, err)
	}
	return err
}

// leader makes a member that has no leader refuse at once: it would keep the
// request until its own timeout of several seconds, while another member of the
// cluster could serve it. An in-process member is the only one there is.
func (s *store) leader(ctx context.Context) context.Context {
	if s.main.ActiveConnection() == nil {
		return ctx
	}
	return clientv3.WithRequireLeader(ctx)
}
