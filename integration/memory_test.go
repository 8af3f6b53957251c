package integration_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/integration/conformance"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
)

// TestConformanceInMemory is the suite on an etcd in memory. Each case has one of
// its own, in a bubble of its own, so that leases, delays and polls take virtual
// time only. What needs processes is left out.
func TestConformanceInMemory(t *testing.T) {
	conformance.RunAround(t,
		func(t *testing.T) conformance.Harness { return newMemory(t) },
		func(t *testing.T, leaf func(*testing.T)) {
			t.Parallel()
			synctest.Test(t, leaf)
		})
}

// A memory is a harness on an etcd in memory.
type memory struct{ *harness }

func newMemory(t *testing.T) *memory {
	t.Helper()
	h := newMemoryHarness(t)
	verify(t, h.store, h.space)
	h.main = h.newClient(h.store)
	return &memory{h}
}

// newMemoryHarness returns a harness without a caller, whose revisions nobody
// verifies.
func newMemoryHarness(t *testing.T) *harness {
	t.Helper()
	server, err := memetcd.New(memetcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	space, err := keyspace.New(keyPrefix, "memory")
	if err != nil {
		t.Fatal(err)
	}
	return &harness{t: t, store: server.Client("", nil), namespace: "memory", space: space}
}

// inMemory has each stage on an etcd in memory of its own, and each test in a
// bubble of its own.
var inMemory = theatre{
	stage:      func(t *testing.T) *stage { return newMemory(t).stage() },
	unverified: func(t *testing.T) *stage { return newMemoryHarness(t).stage() },
	around:     synctest.Test,
	many:       1000, // not 5000: virtual time saves waiting, not computing, which takes 6 times as long then
}

// ShortestLease is the shortest TTL of an etcd in memory.
func (m *memory) ShortestLease() time.Duration { return memetcd.DefaultMinTTL }

// Supports says no to processes: what is in memory can't be shared by several.
func (m *memory) Supports(f conformance.Feature) bool { return f != conformance.Processes }
