package etcdv3_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

func puts(prefix string, n int) []etcd.Op {
	var ops []etcd.Op
	for i := range n {
		ops = append(ops, etcd.Put{Key: fmt.Sprint(prefix, i)})
	}
	return ops
}

func big(key string, size int) *etcd.Txn {
	return &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key, Value: make([]byte, size)}}}
}

func TestRefusedTxns(t *testing.T) {
	const noLease = 7
	both(t, func(t *testing.T, store etcd.Store, p string) {
		for name, tc := range map[string]struct {
			txn  *etcd.Txn
			want error
		}{
			"key put twice":          {&etcd.Txn{Then: []etcd.Op{etcd.Put{Key: p + "k"}, etcd.Put{Key: p + "k"}}}, etcd.ErrDuplicateKey},
			"key put and deleted":    {&etcd.Txn{Then: []etcd.Op{etcd.Put{Key: p + "k"}, etcd.Delete{Key: p + "k"}}}, etcd.ErrDuplicateKey},
			"put and range deletion": {&etcd.Txn{Then: []etcd.Op{etcd.Put{Key: p + "k"}, etcd.Delete{Key: p, End: p + "~"}}}, etcd.ErrDuplicateKey},
			"key put twice, nested":  {&etcd.Txn{Then: []etcd.Op{etcd.Put{Key: p + "k"}, &etcd.Txn{Else: []etcd.Op{etcd.Put{Key: p + "k"}}}}}, etcd.ErrDuplicateKey},
			"129 operations":         {&etcd.Txn{Then: puts(p, 129)}, etcd.ErrTooManyOps},
			"100 and 29 nested":      {&etcd.Txn{Then: append(puts(p, 99), &etcd.Txn{Then: puts(p+"x", 29)})}, etcd.ErrTooManyOps},
			"1.6 MiB":                {big(p+"k", 16<<20/10), etcd.ErrTooLarge},
			"2 MiB":                  {big(p+"k", 2<<20), etcd.ErrTooLarge},
			"etcd lease not found":   {&etcd.Txn{Then: []etcd.Op{etcd.Put{Key: p + "a"}, etcd.Put{Key: p + "k", Lease: noLease}}}, etcd.ErrLeaseNotFound},
			"empty key":              {&etcd.Txn{Then: []etcd.Op{etcd.Put{Key: p + "a"}, etcd.Put{}}}, etcd.ErrInvalid},
			"empty key compared":     {&etcd.Txn{If: []etcd.Compare{etcd.Absent("")}, Then: puts(p, 1)}, etcd.ErrInvalid},
			"no operation":           {&etcd.Txn{Then: []etcd.Op{etcd.Put{Key: p + "a"}, nil}}, etcd.ErrInvalid},
			"strange compare":        {&etcd.Txn{If: []etcd.Compare{{Key: p, Target: 99}}, Then: puts(p, 1)}, etcd.ErrInvalid},
			"future revision":        {&etcd.Txn{Then: []etcd.Op{etcd.Put{Key: p + "a"}, etcd.Get{Key: p, Revision: 1 << 40}}}, etcd.ErrInvalid},
		} {
			t.Run(name, func(t *testing.T) {
				_, err := store.Txn(t.Context(), tc.txn)
				if !errors.Is(err, tc.want) || !etcd.IsDefinite(err) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
				if left := keys(get(t, store, etcd.Get{Key: p, End: p + "~"})); len(left) > 0 {
					t.Errorf("it wrote %q", left)
				}
			})
		}
	})
}

func TestLargestTxns(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		for name, tx := range map[string]*etcd.Txn{
			"128 operations":     {Then: puts(p, 128), Else: puts(p, 128)},
			"100 and 28 nested":  {Then: append(puts(p, 99), &etcd.Txn{Then: puts(p+"x", 28)}, &etcd.Txn{Then: puts(p+"y", 28)})[:100]},
			"one MiB":            big(p+"k", 1<<20),
			"one key, two sides": {If: []etcd.Compare{etcd.Absent(p)}, Then: puts(p, 1), Else: puts(p, 1)},
			"nested, two sides":  {Then: []etcd.Op{&etcd.Txn{If: []etcd.Compare{etcd.Absent(p)}, Then: puts(p, 1), Else: puts(p, 1)}}},
		} {
			if _, err := store.Txn(t.Context(), tx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestEndedLease(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, _ string) {
		id, _, err := store.Grant(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Revoke(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		_, err = store.KeepAlive(t.Context(), id)
		for name, err := range map[string]error{"keepalive": err, "second revocation": store.Revoke(t.Context(), id)} {
			if !errors.Is(err, etcd.ErrLeaseNotFound) || !etcd.IsDefinite(err) {
				t.Errorf("%s: got %v, want %v", name, err, etcd.ErrLeaseNotFound)
			}
		}
		if _, _, err := store.Grant(t.Context(), math.MaxInt64); !errors.Is(err, etcd.ErrInvalid) {
			t.Errorf("grant of 292 years: got %v, want %v", err, etcd.ErrInvalid)
		}
	})
}

func TestCompacted(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		first := put(t, store, p+"k")
		last := put(t, store, p+"k")
		if _, err := testetcd.Client(t).Compact(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		var compacted *etcd.CompactedError
		if _, _, err := store.Get(t.Context(), etcd.Get{Key: p + "k", Revision: first}); !errors.As(err, &compacted) || !etcd.IsDefinite(err) {
			t.Errorf("read: got %v", err)
		}
		_, err := store.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: p + "x"}, etcd.Get{Key: p + "k", Revision: first}}})
		if !errors.As(err, &compacted) || !etcd.IsDefinite(err) {
			t.Errorf("transaction: got %v", err)
		}
		if kv, ok := get(t, store, etcd.Get{Key: p + "k", Revision: last}).One(); !ok || kv.Modified != last {
			t.Errorf("at the compacted revision itself: got %+v, %v", kv, ok)
		}
		watch := store.Watch(t.Context(), p, p+"~", first)
		b := <-watch
		if !errors.As(b.Err, &compacted) || compacted.Revision != last || len(b.Events) != 0 {
			t.Errorf("watch: got %+v, want an error with revision %d", b, last)
		}
		if b, open := <-watch; open {
			t.Errorf("after the error: got %+v", b)
		}
		if b := <-store.Watch(t.Context(), p, p+"~", compacted.Revision); len(b.Events) != 1 || b.Revision != last {
			t.Errorf("watch from the error's revision: got %+v", b)
		}
	})
}

func TestContextErrorsAreNotDefinite(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for want, ctx := range map[error]context.Context{context.DeadlineExceeded: expired(t), context.Canceled: cancelled} {
			_, txnErr := store.Txn(ctx, &etcd.Txn{Then: puts(p, 1)})
			_, _, getErr := store.Get(ctx, etcd.Get{Key: p})
			_, _, grantErr := store.Grant(ctx, time.Minute)
			_, keepAliveErr := store.KeepAlive(ctx, 7)
			for name, err := range map[string]error{
				"transaction": txnErr, "read": getErr, "grant": grantErr, "keepalive": keepAliveErr, "revocation": store.Revoke(ctx, 7),
			} {
				if !errors.Is(err, want) || etcd.IsDefinite(err) || !etcd.IsTemporary(err) {
					t.Errorf("%s: got %v, want %v", name, err, want)
				}
			}
		}
	})
}
