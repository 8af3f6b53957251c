package testetcd_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }

func write(t *testing.T, store etcd.Store, key string) int64 {
	t.Helper()
	result, err := store.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key}}})
	if err != nil {
		t.Fatal(err)
	}
	return result.Revision
}

func exists(t *testing.T, store etcd.Store, key string) bool {
	t.Helper()
	result, _, err := store.Get(t.Context(), etcd.Get{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	return len(result.KVs) == 1
}

func TestAllSeeOneEtcd(t *testing.T) {
	key := testetcd.Space(t).Epoch()
	write(t, testetcd.Start(t), key)
	if !exists(t, testetcd.Start(t), key) || !exists(t, testetcd.Dial(t), key) {
		t.Fatal("what one store wrote, another does not read")
	}
}

func TestSpacesAreDistinct(t *testing.T) {
	for _, name := range []string{"short", strings.Repeat("ä", 300)} {
		t.Run(name, func(t *testing.T) {
			one, another := testetcd.Space(t), testetcd.Space(t)
			if one == another {
				t.Fatal("two calls returned the same space")
			}
		})
	}
}

func TestRecorderCounts(t *testing.T) {
	key := testetcd.Space(t).Epoch()
	store, counts := testetcd.Recorder(t, testetcd.Start(t))
	id, _, err := store.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.KeepAlive(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := store.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	from := write(t, store, key)
	exists(t, store, key)
	nested := &etcd.Txn{Then: []etcd.Op{&etcd.Txn{Else: []etcd.Op{etcd.Delete{Key: key}}}}}
	read := &etcd.Txn{Then: []etcd.Op{&etcd.Txn{Else: []etcd.Op{etcd.Get{Key: key}}}}}
	for _, txn := range []*etcd.Txn{nested, read} {
		if _, err := store.Txn(t.Context(), txn); err != nil {
			t.Fatal(err)
		}
	}
	if b := <-store.Watch(t.Context(), key, "", from); b.Err != nil {
		t.Fatal(b.Err)
	}
	if got, want := counts.String(), "3 transactions (1 of them reads), 1 gets, 1 grants, 1 keepalives, 1 revokes, 1 watches"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := counts.Total(); got != 8 {
		t.Errorf("total: got %d, want 8", got)
	}
	counts.Reset()
	if got := counts.Total(); got != 0 {
		t.Errorf("total after the reset: got %d", got)
	}
}

func TestHookRefusesAndDrops(t *testing.T) {
	key, store := testetcd.Space(t).Epoch(), testetcd.Start(t)
	refused := &testetcd.Hook{Store: store, BeforeTxn: func(*etcd.Txn) error { return etcd.ErrBusy }}
	if _, err := refused.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key}}}); !errors.Is(err, etcd.ErrBusy) || exists(t, store, key) {
		t.Fatalf("refused: got %v, written %v", err, exists(t, store, key))
	}
	dropped := &testetcd.Hook{Store: store, AfterTxn: func(_ *etcd.Txn, result *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if err != nil || !result.Succeeded {
			t.Errorf("the hook got %+v, %v", result, err)
		}
		return nil, context.DeadlineExceeded
	}}
	if _, err := dropped.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key}}}); !errors.Is(err, context.DeadlineExceeded) || !exists(t, store, key) {
		t.Fatalf("dropped: got %v, written %v", err, exists(t, store, key))
	}
}

func TestHookRunsBetweenReadAndWrite(t *testing.T) {
	key, store := testetcd.Space(t).Epoch(), testetcd.Start(t)
	var once sync.Once
	hook := &testetcd.Hook{Store: store, AfterGet: func(_ etcd.Get, result etcd.Result, revision int64, err error) (etcd.Result, int64, error) {
		once.Do(func() { write(t, store, key) })
		return result, revision, err
	}}
	if exists(t, hook, key) {
		t.Fatal("the read saw what was written after it")
	}
	result, err := hook.Txn(t.Context(), &etcd.Txn{If: []etcd.Compare{etcd.Absent(key)}, Then: []etcd.Op{etcd.Put{Key: key}}})
	if err != nil || result.Succeeded {
		t.Fatalf("the write after it: got %+v, %v", result, err)
	}
	failing := &testetcd.Hook{Store: store, BeforeGet: func(etcd.Get) error { return etcd.ErrBusy }}
	if _, _, err := failing.Get(t.Context(), etcd.Get{Key: key}); !errors.Is(err, etcd.ErrBusy) {
		t.Fatalf("refused read: got %v", err)
	}
}

func TestHookOfKeepAlives(t *testing.T) {
	store := testetcd.Start(t)
	id, _, err := store.Grant(t.Context(), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	refused := &testetcd.Hook{Store: store, BeforeKeepAlive: func(etcd.LeaseID) error { return etcd.ErrLeaseNotFound }}
	if _, err := refused.KeepAlive(t.Context(), id); !errors.Is(err, etcd.ErrLeaseNotFound) {
		t.Fatalf("refused: got %v", err)
	}
	dropped := &testetcd.Hook{Store: store, AfterKeepAlive: func(_ etcd.LeaseID, ttl time.Duration, err error) (time.Duration, error) {
		if ttl != time.Minute || err != nil {
			t.Errorf("the hook got %v, %v", ttl, err)
		}
		return 0, context.DeadlineExceeded
	}}
	if _, err := dropped.KeepAlive(t.Context(), id); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("dropped: got %v", err)
	}
	plain := &testetcd.Hook{Store: store}
	if ttl, err := plain.KeepAlive(t.Context(), id); ttl != time.Minute || err != nil {
		t.Fatalf("without functions: got %v, %v", ttl, err)
	}
	if err := plain.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}
