package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
)

// marker names a process that nobody is. Its record tells that a watch has come as
// far as the end of a test.
const marker = "the end of the test"

// verify follows the namespace from its first revision on. When the test has ended
// it audits what is left, and demands that no revision violated an invariant and
// no stale write was accepted.
func verify(t *testing.T, store etcd.Store, space keyspace.Space) {
	t.Helper()
	_, revision, err := store.Get(t.Context(), etcd.Get{Key: space.Epoch()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	replay := audit.NewReplay(space)
	end, broken := space.Proc(marker), make(chan error, 1)
	span := space.All()
	go func() {
		broken <- follow(store.Watch(ctx, span.Start, span.End, revision+1), replay, end)
	}()
	t.Cleanup(func() {
		defer cancel()
		audited(t, store, space)
		mark(t, store, end)
		select {
		case err := <-broken:
			if err != nil {
				t.Errorf("the watch of the namespace broke: %v", err)
			}
		case <-time.After(time.Minute):
			cancel()
			err := <-broken // and so the replay is not in use any more
			t.Fatalf("the watch of the namespace does not come to its end; it is at revision %d: %v", replay.Revision(), err)
		}
		for _, v := range replay.Violations() {
			t.Errorf("replay: %v", v)
		}
		if replay.Stale() > 0 {
			t.Errorf("%d stale writes were accepted", replay.Stale())
		}
	})
}

// follow replays the batches until the key at the end is put.
func follow(batches <-chan etcd.Batch, replay *audit.Replay, end string) error {
	for b := range batches {
		if b.Err != nil {
			return b.Err
		}
		replay.Apply(b) // the last one too: it may hold more than the end
		for _, e := range b.Events {
			if e.KV.Key == end {
				return nil
			}
		}
	}
	return context.Canceled
}

// audited demands that what is stored violates no invariant.
func audited(t *testing.T, store etcd.Store, space keyspace.Space) audit.Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	report, err := audit.Check(ctx, store, space)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Errorf("audit: %v", v)
	}
	return report
}

func mark(t *testing.T, store etcd.Store, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lease, _, err := store.Grant(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	put := etcd.Put{Key: key, Value: (&record.Proc{Holder: marker}).Encode(), Lease: lease}
	if _, err := store.Txn(ctx, &etcd.Txn{Then: []etcd.Op{put}}); err != nil {
		t.Fatal(err)
	}
	if err := store.Revoke(ctx, lease); err != nil {
		t.Fatal(err)
	}
}
