package memetcd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/memetcd"
)

func TestNewRefusesABadConfig(t *testing.T) {
	for name, cfg := range map[string]memetcd.Config{
		"negative TTL":        {MinTTL: -time.Second},
		"TTL of half seconds": {MinTTL: 1500 * time.Millisecond},
		"negative operations": {MaxTxnOps: -1},
		"negative size":       {MaxRequestBytes: -1},
	} {
		if _, err := memetcd.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestLimitsAreConfigured(t *testing.T) {
	s, err := memetcd.New(memetcd.Config{MinTTL: 2 * time.Second, MaxTxnOps: 1, MaxRequestBytes: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := s.Client("", nil)
	if _, ttl, err := c.Grant(t.Context(), time.Second); err != nil || ttl != 2*time.Second {
		t.Errorf("granted %v, %v; want 2s", ttl, err)
	}
	if _, err := c.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Get{Key: "a"}, etcd.Get{Key: "b"}}}); !errors.Is(err, etcd.ErrTooManyOps) {
		t.Errorf("two operations: %v", err)
	}
	if _, err := c.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: "a", Value: make([]byte, 100)}}}); !errors.Is(err, etcd.ErrTooLarge) {
		t.Errorf("100 bytes: %v", err)
	}
	wantKeys(t, s)
}

// What a caller does with an answer, or with what it sent, is its own business.
func TestNothingIsShared(t *testing.T) {
	s, c := open(t)
	value := []byte("value")
	revision := do(t, c, etcd.Put{Key: "k", Value: value})
	value[0] = 'X'
	for range 2 {
		got, _, err := c.Get(t.Context(), etcd.Get{Key: "k"})
		if kv, _ := got.One(); err != nil || string(kv.Value) != "value" {
			t.Fatalf("got %q, %v", kv.Value, err)
		} else {
			kv.Value[0] = 'X'
		}
		b := <-c.Watch(t.Context(), "k", "", revision)
		if string(b.Events[0].KV.Value) != "value" {
			t.Fatalf("watched %q", b.Events[0].KV.Value)
		}
		b.Events[0].KV.Value[0] = 'X'
		s.Dump()[0].Value[0] = 'X'
	}
}

func TestAnEndedContextIsTold(t *testing.T) {
	s, c := open(t)
	_, err := c.Txn(canceled(t), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: "k"}}})
	if !errors.Is(err, context.Canceled) || etcd.IsDefinite(err) {
		t.Errorf("got %v", err)
	}
	wantKeys(t, s)
}

func TestClosedServer(t *testing.T) {
	s, c := open(t)
	put(t, c, "k")
	gated := s.Client("gated", func(context.Context, memetcd.Call) error { return nil })
	s.Close()
	s.Close()
	for _, c := range []etcd.Store{c, gated} {
		_, txnErr := c.Txn(t.Context(), &etcd.Txn{})
		_, _, getErr := c.Get(t.Context(), etcd.Get{Key: "k"})
		_, _, grantErr := c.Grant(t.Context(), time.Minute)
		_, keepErr := c.KeepAlive(t.Context(), 1)
		b := <-c.Watch(t.Context(), "k", "", 1)
		for name, err := range map[string]error{
			"txn": txnErr, "get": getErr, "grant": grantErr, "keepalive": keepErr, "revoke": c.Revoke(t.Context(), 1), "watch": b.Err,
		} {
			if err == nil || etcd.IsDefinite(err) {
				t.Errorf("%s: got %v, want an error that is not definite", name, err)
			}
		}
	}
	wantKeys(t, s, "k") // it still shows what it had
	if err := s.Compact(1); err == nil {
		t.Error("compacted")
	}
}

func TestSpaceIsUsedUp(t *testing.T) {
	s, c := open(t)
	put(t, c, "k")
	s.SetSpace(memetcd.SpaceLast)
	if _, err := c.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Delete{Key: "other"}}}); err != nil {
		t.Errorf("a deletion takes no space: %v", err)
	}
	_, err := c.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: "last"}}})
	if !errors.Is(err, etcd.ErrNoSpace) {
		t.Errorf("the last: %v", err)
	}
	wantKeys(t, s, "k", "last")
	for name, txn := range map[string]*etcd.Txn{
		"put":                   {Then: []etcd.Op{etcd.Put{Key: "more"}}},
		"put that would not be": {Else: []etcd.Op{&etcd.Txn{Else: []etcd.Op{etcd.Put{Key: "more"}}}}},
	} {
		if _, err := c.Txn(t.Context(), txn); !errors.Is(err, etcd.ErrNoSpace) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := c.Grant(t.Context(), time.Minute); !errors.Is(err, etcd.ErrNoSpace) {
		t.Errorf("grant: %v", err)
	}
	do(t, c, etcd.Delete{Key: "last"})
	wantKeys(t, s, "k")
	s.SetSpace(memetcd.SpaceLast)
	if _, _, err := c.Grant(t.Context(), time.Minute); !errors.Is(err, etcd.ErrNoSpace) || len(s.Leases()) != 1 {
		t.Errorf("the last grant: %v, etcd leases %v", err, s.Leases())
	}
	s.SetSpace(memetcd.SpaceFree)
	put(t, c, "more")
}
