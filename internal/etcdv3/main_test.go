package etcdv3_test

import (
	"context"
	"os"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }

// both runs the test on the in-process client and through gRPC, each with a prefix
// of its own for keys.
func both(t *testing.T, test func(t *testing.T, store etcd.Store, prefix string)) {
	t.Helper()
	for name, open := range map[string]func(testing.TB) etcd.Store{"in process": testetcd.Start, "grpc": testetcd.Dial} {
		t.Run(name, func(t *testing.T) {
			test(t, open(t), testetcd.Space(t).All().Start)
		})
	}
}

func txn(t *testing.T, store etcd.Store, txn *etcd.Txn) *etcd.TxnResult {
	t.Helper()
	result, err := store.Txn(t.Context(), txn)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// put writes the keys in one transaction, each with its own name as value, and
// returns the revision.
func put(t *testing.T, store etcd.Store, keys ...string) int64 {
	t.Helper()
	write := &etcd.Txn{}
	for _, key := range keys {
		write.Then = append(write.Then, etcd.Put{Key: key, Value: []byte(key)})
	}
	return txn(t, store, write).Revision
}

func get(t *testing.T, store etcd.Store, g etcd.Get) etcd.Result {
	t.Helper()
	result, _, err := store.Get(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func expired(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	t.Cleanup(cancel)
	return ctx
}
