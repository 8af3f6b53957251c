package leasing

import (
	"sync"

	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// claimCache remembers the state that a claim wrote, so that ending the delivery
// needs no read, and the process of a direct caller's claim, which ends with it. It
// is a cache: a state that it lacks is read, a process ends by itself.
type claimCache struct {
	mu    sync.Mutex
	known map[claimKey]knownClaim
}

type claimKey struct {
	id    execution.ID
	token execution.Token
}

type knownClaim struct {
	state *record.State
	proc  *proc // nil: the process of a holder, which has other claims
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
		m.known = map[claimKey]knownClaim{}
	}
	m.known[claimKey{lease.ID, lease.Token}] = knownClaim{state: s}
}

// single notes the process that serves this claim only.
func (m *claimCache) single(lease execution.Lease, p *proc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := claimKey{lease.ID, lease.Token}
	if k, ok := m.known[key]; ok {
		k.proc = p
		m.known[key] = k
	}
}

func (m *claimCache) get(lease execution.Lease) *record.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known[claimKey{lease.ID, lease.Token}].state
}

// drop forgets the claim and returns the process that served it only, or nil.
func (m *claimCache) drop(lease execution.Lease) *proc {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := claimKey{lease.ID, lease.Token}
	p := m.known[key].proc
	delete(m.known, key)
	return p
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

// onceSet remembers what was reported of which key.
type onceSet struct {
	mu   sync.Mutex
	said map[string]string
}

// first says whether this was not the last thing that was said of the key.
func (s *onceSet) first(key, what string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said[key] == what {
		return false
	}
	if s.said == nil || len(s.said) >= maxOutdated {
		s.said = map[string]string{}
	}
	s.said[key] = what
	return true
}
