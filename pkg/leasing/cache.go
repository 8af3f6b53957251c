package leasing

import (
	"sync"

	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// claimCache remembers the state that a claim wrote, so that ending the delivery
// needs no read. It is a cache: what it lacks is read.
type claimCache struct {
	mu    sync.Mutex
	known map[claimKey]*record.State
}

type claimKey struct {
	id    execution.ID
	token execution.Token
}

// maxKnownClaims bounds the cache against callers that never end their leases.
const maxKnownClaims = 1 << 16

func (m *claimCache) put(lease execution.Lease, s *record.State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= maxKnownClaims {
		for k := range m.known {
			delete(m.known, k)
			break
		}
	}
	if m.known == nil {
		m.known = map[claimKey]*record.State{}
	}
	m.known[claimKey{lease.ID, lease.Token}] = s
}

func (m *claimCache) get(lease execution.Lease) *record.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[claimKey{lease.ID, lease.Token}]
}

func (m *claimCache) drop(lease execution.Lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, claimKey{lease.ID, lease.Token})
}

// entrySet remembers due entries whose claim was refused. An entry is for certain
// revisions, which never come back, so one that is still there afterwards can never
// be claimed: it must not take the place of those that can.
type entrySet struct {
	mu   sync.Mutex
	revs map[string]int64
}

// maxOutdated bounds the set; a forgotten entry costs one more refused claim.
const maxOutdated = 1 << 12

func (s *entrySet) add(key string, rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.revs == nil || len(s.revs) >= maxOutdated {
		s.revs = map[string]int64{}
	}
	s.revs[key] = rev
}

func (s *entrySet) has(key string, rev int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revs[key] == rev
}
