package fencing

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// ErrUnknown says that no answer came, and that whether the write was applied could
// not be found out. It is never [execution.ErrLost]; read the execution, or try again.
var ErrUnknown = errors.New("outcome unknown")

// How long one try of a request may take, and the pauses between tries.
const (
	tryTimeout = 5 * time.Second
	minPause   = 20 * time.Millisecond
	maxPause   = time.Second
	// maxSpacePause is the longest pause while etcd is out of space.
	maxSpacePause = 10 * time.Second
)

// Send sends the same transaction until etcd answers definitely, says that it is
// out of space, the connection is closed, or ctx ends. It says whether an earlier try was left without an
// answer and may have been applied. An error is either definite (nothing was
// changed) or wraps [ErrUnknown].
func Send(ctx context.Context, store etcd.Store, txn *etcd.Txn) (res *etcd.TxnResult, again bool, err error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		if res, err = try(ctx, store, txn); err == nil {
			return res, again, nil
		}
		definite := etcd.IsDefinite(err)
		again = again || !definite
		if definite && !errors.Is(err, etcd.ErrBusy) || errors.Is(err, etcd.ErrNoSpace) || errors.Is(err, etcd.ErrClosed) {
			if again {
				err = fmt.Errorf("%w: %w", ErrUnknown, err)
			}
			return nil, again, err
		}
		select {
		case <-ctx.Done():
			if again {
				err = fmt.Errorf("%w: %w", ErrUnknown, err)
			}
			return nil, again, err
		case <-time.After(pause/2 + spread(txn, pause)):
		}
	}
}

// spread returns a part of half the pause that differs from execution to
// execution, so that the calls that one trouble has failed do not all come back at
// the same instant.
func spread(txn *etcd.Txn, pause time.Duration) time.Duration {
	h := fnv.New32a()
	remembered(txn, h)
	return pause / 2 * time.Duration(h.Sum32()%1024) / 1024
}

// remembered writes the keys whose revisions a transaction remembers: those of the
// executions that it is about.
func remembered(txn *etcd.Txn, w io.Writer) {
	for _, c := range txn.If {
		if c.Target == etcd.ModRevision {
			_, _ = io.WriteString(w, c.Key) // a hash takes everything
		}
	}
	for _, op := range txn.Then {
		if nested, ok := op.(*etcd.Txn); ok {
			remembered(nested, w)
		}
	}
}

func try(ctx context.Context, store etcd.Store, txn *etcd.Txn) (*etcd.TxnResult, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	return store.Txn(ctx, txn)
}
