package memetcd_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

// TestMain fails the run when goroutines are left behind.
func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }

// open returns a server that is closed with the test, and a client without a gate.
func open(t *testing.T) (*memetcd.Server, etcd.Store) {
	t.Helper()
	server, err := memetcd.New(memetcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server, server.Client("", nil)
}

// do runs operations in one transaction and returns its revision.
func do(t *testing.T, store etcd.Store, ops ...etcd.Op) int64 {
	t.Helper()
	result, err := store.Txn(t.Context(), &etcd.Txn{Then: ops})
	if err != nil {
		t.Fatal(err)
	}
	return result.Revision
}

// put writes keys, each with its own name as value, at one revision.
func put(t *testing.T, store etcd.Store, keys ...string) int64 {
	t.Helper()
	var ops []etcd.Op
	for _, key := range keys {
		ops = append(ops, etcd.Put{Key: key, Value: []byte(key)})
	}
	return do(t, store, ops...)
}

// keys returns what is there.
func keys(s *memetcd.Server) []string {
	names := []string{}
	for _, kv := range s.Dump() {
		names = append(names, kv.Key)
	}
	return names
}

func wantKeys(t *testing.T, s *memetcd.Server, want ...string) {
	t.Helper()
	if got := keys(s); !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
}

// brief describes events as "+key" and "-key".
func brief(b etcd.Batch) []string {
	var out []string
	for _, e := range b.Events {
		sign := "+"
		if e.Deleted {
			sign = "-"
		}
		out = append(out, sign+e.KV.Key)
	}
	return out
}

func wantBatch(t *testing.T, batches <-chan etcd.Batch, revision int64, want ...string) {
	t.Helper()
	b, ok := <-batches
	if got := brief(b); !ok || b.Err != nil || b.Revision != revision || !slices.Equal(got, want) {
		t.Errorf("batch %q at %d, error %v, open %t; want %q at %d", got, b.Revision, b.Err, ok, want, revision)
	}
}

func wantEnd(t *testing.T, batches <-chan etcd.Batch) {
	t.Helper()
	if b, ok := <-batches; ok {
		t.Errorf("got %+v, want the end of the watch", b)
	}
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
