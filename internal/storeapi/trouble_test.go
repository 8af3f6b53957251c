package storeapi_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/storeapi"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// A troubled etcd calls before and after a transaction, where it has them.
type troubled struct {
	etcd.Store
	before func(ctx context.Context, txn *etcd.Txn) error
	after  func(txn *etcd.Txn) error
}

func (s *troubled) Txn(ctx context.Context, txn *etcd.Txn) (*etcd.TxnResult, error) {
	if s.before != nil {
		if err := s.before(ctx, txn); err != nil {
			return nil, err
		}
	}
	res, err := s.Store.Txn(ctx, txn)
	if err == nil && s.after != nil {
		err = s.after(txn)
	}
	return res, err
}

// writes says whether a transaction may write.
func writes(txn *etcd.Txn) bool { return len(txn.If) > 0 }

const create = `{` + key + `,"state":1}`

// What goes wrong at etcd has a code, and the message says whether a change may have
// been made.
func TestTroublesOfEtcd(t *testing.T) {
	t.Parallel()
	silent := func(ctx context.Context, _ *etcd.Txn) error {
		<-ctx.Done()
		return ctx.Err()
	}
	const unknown = "the change may have been made; send the request again"
	for name, tt := range map[string]struct {
		before func(ctx context.Context, txn *etcd.Txn) error
		code   storeapi.Code
		says   string
	}{
		"never answers": {silent, storeapi.Unavailable, "etcd does not answer"},
		"never answers a write": {func(ctx context.Context, txn *etcd.Txn) error {
			if writes(txn) {
				return silent(ctx, txn)
			}
			return nil
		}, storeapi.Unavailable, unknown},
		"connection breaks": {func(context.Context, *etcd.Txn) error { return errors.New("connection reset") }, storeapi.Unavailable, "etcd does not answer: connection reset"},
		"busy":              {func(context.Context, *etcd.Txn) error { return etcd.ErrBusy }, storeapi.Unavailable, "busy"},
		"out of space": {func(_ context.Context, txn *etcd.Txn) error {
			if writes(txn) {
				return etcd.ErrNoSpace
			}
			return nil
		}, storeapi.Unavailable, "out of space"},
		"request too large": {func(context.Context, *etcd.Txn) error { return etcd.ErrTooLarge }, storeapi.TooLarge, "too large"},
		"not permitted":     {func(context.Context, *etcd.Txn) error { return etcd.ErrPermission }, storeapi.Internal, "permission denied"},
		"panics":            {func(context.Context, *etcd.Txn) error { panic("planted") }, storeapi.Internal, "a fault of the server"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, err := memetcd.New(memetcd.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer server.Close()
				s := newSceneOn(t, &troubled{Store: server.Client("api", nil), before: tt.before})
				began := time.Now()
				if got := s.refused(tt.code, "createStore", create); !strings.Contains(got, tt.says) || strings.Contains(got, unknown) != (tt.says == unknown || name == "out of space") {
					t.Errorf("the message is %q, want %q in it", got, tt.says)
				}
				if took := time.Since(began); took > storeapi.DefaultTimeout {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A commit whose answers were all lost is found by its receipt.
func TestCommitAfterALostAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, err := memetcd.New(memetcd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		store := &troubled{Store: server.Client("api", nil)}
		s := newSceneOn(t, store)
		body := `{` + key + `,"expected":` + s.version("a") + `,"nextState":1,"changedPaths":[[]],"result":"kept",` + step + `}`
		gone := errors.New("connection reset")
		store.after = func(txn *etcd.Txn) error {
			if !writes(txn) {
				return nil
			}
			store.before = func(context.Context, *etcd.Txn) error { return gone }
			return gone
		}
		status, answer := s.post(namespace, "commit", body)
		if s.isFault(storeapi.Unavailable, status, answer); !strings.Contains(message(answer), "may have been made") {
			t.Errorf("the message is %q", message(answer))
		}
		store.before, store.after = nil, nil
		s.expect(`{"status":"already-applied","result":"kept"}`, "commit", body)
		if v := s.snapshot(s.ok("getStore", `{%s}`, key)); v.Version != 1 {
			t.Errorf("version %d, want 1", v.Version)
		}
	})
}

// A record that can't be read is no fault of the caller's.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	at := s.version("a")
	space := spaceOf(t, namespace)
	put(t, s.store, space.Store(keyspace.StoreKey{Name: "n", ID: "a"}), "damaged")
	s.refused(storeapi.Internal, "getStore", `{`+key+`}`)
	s.refused(storeapi.Internal, "commit", `{`+key+`,"expected":`+at+`,"nextState":1,"changedPaths":[[]],"result":0}`)
}

// A namespace that holds an execution of the engine is not dropped.
func TestDropRefusesANamespaceInUse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.version("a")
	admit(t, s, "x")
	s.refused(storeapi.NamespaceInUse, "dropNamespace", `{}`)
}

// A commit of this API wakes an execution of the engine that waits for the store.
func TestCommitWakesAnExecution(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	at := s.version("a")
	l := admit(t, s, "x")
	leases, err := l.ClaimDue(t.Context(), execution.ClaimRequest{Now: time.Now().Add(time.Hour), Limit: 1, Duration: time.Minute})
	if err != nil || len(leases) != 1 {
		t.Fatalf("claim: %v, %v", leases, err)
	}
	if err := l.Acknowledge(t.Context(), leases[0].Lease, execution.Outcome{Kind: execution.Suspended}); err != nil {
		t.Fatal(err)
	}
	client, err := stores.New(stores.Config{
		Store: s.store, Space: spaceOf(t, namespace), Wake: func(context.Context, execution.StepID) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	v := s.snapshot(s.ok("getStore", `{%s}`, key))
	kv := one(t, s.store, spaceOf(t, namespace).State("x"))
	stale, err := client.Register(t.Context(), stores.Waiter{
		Store: execution.StoreID{Name: "n", ID: "a"}, Step: execution.StepID{Execution: "x", Incarnation: kv.Created, Step: "s"},
		Instance: v.InstanceID, Reads: stores.Paths{{}},
	})
	if stale || err != nil {
		t.Fatalf("register: %v, %v", stale, err)
	}
	before, err := l.Get(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	s.ok("commit", `{%s,"expected":%s,"nextState":1,"changedPaths":[[]],"result":0}`, key, at)
	after, err := l.Get(t.Context(), "x")
	if err != nil || !before.Due.IsZero() || after.Due.IsZero() {
		t.Errorf("due at %v, was due at %v: %v", after.Due, before.Due, err)
	}
	s.expect(`{"wakes":[]}`, "pendingWakes", `{}`) // not its own to pull
}

func spaceOf(t *testing.T, ns string) keyspace.Space {
	t.Helper()
	space, err := keyspace.New(prefix, ns)
	if err != nil {
		t.Fatal(err)
	}
	return space
}

func put(t *testing.T, store etcd.Store, key, value string) {
	t.Helper()
	if _, err := store.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key, Value: []byte(value)}}}); err != nil {
		t.Fatal(err)
	}
}

func one(t *testing.T, store etcd.Store, key string) etcd.KV {
	t.Helper()
	res, _, err := store.Get(t.Context(), etcd.Get{Key: key})
	kv, found := res.One()
	if err != nil || !found {
		t.Fatalf("key %q: %v, found %v", key, err, found)
	}
	return kv
}

// admit admits an execution to the scene's namespace.
func admit(t *testing.T, s *scene, id execution.ID) *leasing.Client {
	t.Helper()
	l, err := leasing.New(t.Context(), leasing.Config{Store: s.store, Space: spaceOf(t, namespace)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Admit(t.Context(), execution.AdmitRequest{ID: id, Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	return l
}
