package testetcd

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// A Hook is a store that calls functions of the test around its requests. Nil
// functions do nothing. They are set before the first request and called by
// whichever goroutines send requests, several at once; a function may use the
// wrapped Store, which calls no hook.
//
// A Before function that returns an error keeps the request from being sent. An
// After function's result is the caller's: to drop an answer, return an error that
// is not definite, like context.DeadlineExceeded.
type Hook struct {
	etcd.Store

	BeforeTxn       func(*etcd.Txn) error
	AfterTxn        func(*etcd.Txn, *etcd.TxnResult, error) (*etcd.TxnResult, error)
	BeforeGet       func(etcd.Get) error
	AfterGet        func(etcd.Get, etcd.Result, int64, error) (etcd.Result, int64, error)
	BeforeKeepAlive func(etcd.LeaseID) error
	AfterKeepAlive  func(etcd.LeaseID, time.Duration, error) (time.Duration, error)
}

// Txn runs the transaction between BeforeTxn and AfterTxn.
func (h *Hook) Txn(ctx context.Context, txn *etcd.Txn) (*etcd.TxnResult, error) {
	if h.BeforeTxn != nil {
		if err := h.BeforeTxn(txn); err != nil {
			return nil, err
		}
	}
	result, err := h.Store.Txn(ctx, txn)
	if h.AfterTxn != nil {
		return h.AfterTxn(txn, result, err)
	}
	return result, err
}

// Get reads between BeforeGet and AfterGet.
func (h *Hook) Get(ctx context.Context, get etcd.Get) (etcd.Result, int64, error) {
	if h.BeforeGet != nil {
		if err := h.BeforeGet(get); err != nil {
			return etcd.Result{}, 0, err
		}
	}
	result, revision, err := h.Store.Get(ctx, get)
	if h.AfterGet != nil {
		return h.AfterGet(get, result, revision, err)
	}
	return result, revision, err
}

// KeepAlive renews between BeforeKeepAlive and AfterKeepAlive.
func (h *Hook) KeepAlive(ctx context.Context, id etcd.LeaseID) (time.Duration, error) {
	if h.BeforeKeepAlive != nil {
		if err := h.BeforeKeepAlive(id); err != nil {
			return 0, err
		}
	}
	ttl, err := h.Store.KeepAlive(ctx, id)
	if h.AfterKeepAlive != nil {
		return h.AfterKeepAlive(id, ttl, err)
	}
	return ttl, err
}
