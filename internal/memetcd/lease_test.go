package memetcd_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

func grant(t *testing.T, store etcd.Store, ttl time.Duration) etcd.LeaseID {
	t.Helper()
	id, granted, err := store.Grant(t.Context(), ttl)
	if err != nil || granted != ttl {
		t.Fatalf("granted %v, %v; want %v", granted, err, ttl)
	}
	return id
}

// An etcd lease ends by itself, on time, though nobody calls.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := open(t)
		begun := time.Now()
		id := grant(t, c, 10*time.Second)
		other := grant(t, c, 10*time.Second)
		revision := do(t, c, etcd.Put{Key: "b", Lease: id}, etcd.Put{Key: "a", Lease: id}, etcd.Put{Key: "own"}, etcd.Put{Key: "other", Lease: other})
		watch := c.Watch(t.Context(), "a", "z", revision+1)
		wantBatch(t, watch, revision+1, "-a", "-b")
		wantBatch(t, watch, revision+2, "-other")
		if passed := time.Since(begun); passed != 10*time.Second {
			t.Errorf("ended after %v, want 10s", passed)
		}
		if _, err := c.KeepAlive(t.Context(), id); !errors.Is(err, etcd.ErrLeaseNotFound) {
			t.Errorf("keepalive after the end: %v", err)
		}
		if len(s.Leases()) != 0 {
			t.Errorf("etcd leases %v are left", s.Leases())
		}
	})
}

func TestKeepAliveInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := open(t)
		id := grant(t, c, 3*time.Second)
		do(t, c, etcd.Put{Key: "k", Lease: id})
		for range 5 {
			time.Sleep(3*time.Second - time.Nanosecond)
			if ttl, err := c.KeepAlive(t.Context(), id); err != nil || ttl != 3*time.Second {
				t.Fatalf("kept alive for %v, %v", ttl, err)
			}
		}
		wantKeys(t, s, "k")
		if l := s.Leases(); len(l) != 1 || l[0].ID != id || l[0].TTL != 3*time.Second || !l[0].Expires.Equal(time.Now().Add(3*time.Second)) || !slices.Equal(l[0].Keys, []string{"k"}) {
			t.Errorf("etcd leases %+v", l)
		}
		time.Sleep(3 * time.Second) // the keepalive comes at the same moment as the timer
		if _, err := c.KeepAlive(t.Context(), id); !errors.Is(err, etcd.ErrLeaseNotFound) {
			t.Errorf("kept alive at the moment of expiry: %v", err)
		}
		wantKeys(t, s)
	})
}

// A shorter etcd lease that is granted later ends first.
func TestTheFirstToExpireIsTheFirstToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := open(t)
		long, short := grant(t, c, time.Minute), grant(t, c, time.Second)
		do(t, c, etcd.Put{Key: "long", Lease: long}, etcd.Put{Key: "short", Lease: short})
		time.Sleep(time.Second)
		wantKeys(t, s, "long")
		time.Sleep(59*time.Second - time.Nanosecond)
		wantKeys(t, s, "long")
		time.Sleep(time.Nanosecond)
		wantKeys(t, s)
	})
}

// A key belongs to the etcd lease of its last put.
func TestPutsMoveKeysBetweenLeases(t *testing.T) {
	s, c := open(t)
	first, second := grant(t, c, time.Minute), grant(t, c, time.Minute)
	do(t, c, etcd.Put{Key: "moved", Lease: first}, etcd.Put{Key: "freed", Lease: first}, etcd.Put{Key: "kept", Lease: first}, etcd.Put{Key: "gone", Lease: first})
	do(t, c, etcd.Put{Key: "moved", Lease: second}, etcd.Put{Key: "freed"}, etcd.Delete{Key: "gone"})
	put(t, c, "gone")
	if err := s.ExpireLease(first); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, "freed", "gone", "moved")
	if err := c.Revoke(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	wantKeys(t, s, "freed", "gone")
	if err := s.ExpireLease(first); !errors.Is(err, etcd.ErrLeaseNotFound) {
		t.Errorf("ended twice: %v", err)
	}
}

// An etcd lease without keys ends without a revision.
func TestALeaseWithoutKeysTakesNoRevision(t *testing.T) {
	s, c := open(t)
	before := s.Revision()
	if err := c.Revoke(t.Context(), grant(t, c, time.Minute)); err != nil {
		t.Fatal(err)
	}
	if s.Revision() != before {
		t.Errorf("revision %d after %d", s.Revision(), before)
	}
}

func TestNothingExpiresAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := open(t)
		do(t, c, etcd.Put{Key: "k", Lease: grant(t, c, time.Second)})
		s.Close()
		time.Sleep(time.Hour)
		wantKeys(t, s, "k")
	})
}
