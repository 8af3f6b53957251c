package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A LeaseID names an etcd lease.
type LeaseID int64

// A Store is an etcd as the engine uses it. Every method may be called from many
// goroutines at once.
type Store interface {
	// Txn runs one transaction. An error for which [IsDefinite] is false leaves
	// open whether it was applied.
	Txn(ctx context.Context, txn *Txn) (*TxnResult, error)

	// Get reads linearizably.
	Get(ctx context.Context, get Get) (Result, int64, error)

	// Grant makes an etcd lease and returns the TTL that etcd granted, which may be
	// longer than the asked one. TTLs are whole seconds.
	Grant(ctx context.Context, ttl time.Duration) (LeaseID, time.Duration, error)

	// KeepAlive renews an etcd lease once and returns its TTL. It travels in a lane
	// of its own, never behind other traffic. ErrLeaseNotFound: it has ended.
	KeepAlive(ctx context.Context, id LeaseID) (time.Duration, error)

	// Revoke ends an etcd lease and deletes its keys.
	Revoke(ctx context.Context, id LeaseID) error

	// Watch sends the events of the keys in [start, end) from the revision on. The
	// channel closes when ctx ends or the watch breaks; a last batch with Err says
	// why (a [*CompactedError]: read again, then watch from there).
	Watch(ctx context.Context, start, end string, revision int64) <-chan Batch
}

// A Batch is a group of events of a watch, whole revisions only.
type Batch struct {
	Events   []Event
	Revision int64
	Err      error
}

// An Event is a put, or a deletion, of a key. Of a deleted key, KV holds the name
// and the revision of the deletion.
type Event struct {
	KV      KV
	Deleted bool
}

// The errors that callers tell apart. All but ErrNoSpace and ErrClosed are definite:
// the request was refused and changed nothing. Etcd answers that it is out of space
// also after it has applied a write; a connection may be closed under a request.
var (
	ErrNoSpace       = errors.New("etcd is out of space: its backend quota is used up; compact, defragment and disarm the alarm")
	ErrTooManyOps    = errors.New("too many operations in one etcd transaction")
	ErrTooLarge      = errors.New("request is too large for etcd")
	ErrDuplicateKey  = errors.New("etcd transaction writes one key twice")
	ErrLeaseNotFound = errors.New("etcd lease not found")
	ErrPermission    = errors.New("etcd permission denied")
	ErrBusy          = errors.New("etcd is busy")
	ErrInvalid       = errors.New("etcd refused the request")
	ErrClosed        = errors.New("the connection to etcd is closed")
)

// A CompactedError says that the revision to read or watch from is gone. Revision
// is the oldest one that is left, or 0 where etcd does not say it.
type CompactedError struct{ Revision int64 }

func (e *CompactedError) Error() string {
	if e.Revision == 0 {
		return "etcd revision is compacted"
	}
	return fmt.Sprintf("etcd revision is compacted; the oldest is %d", e.Revision)
}

// IsDefinite says whether the error proves that the request changed nothing.
func IsDefinite(err error) bool {
	for _, e := range []error{ErrTooManyOps, ErrTooLarge, ErrDuplicateKey, ErrLeaseNotFound, ErrPermission, ErrBusy, ErrInvalid} {
		if errors.Is(err, e) {
			return true
		}
	}
	var compacted *CompactedError
	return errors.As(err, &compacted)
}

// IsTemporary says whether the same request may succeed later: it was refused for
// a reason that passes, or its outcome is unknown.
func IsTemporary(err error) bool {
	return errors.Is(err, ErrBusy) || !IsDefinite(err)
}
