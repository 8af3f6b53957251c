package memetcd

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// maxTTL is the longest that etcd grants.
const maxTTL = 9_000_000_000 * time.Second

// A Lease is an etcd lease.
type Lease struct {
	ID      etcd.LeaseID
	TTL     time.Duration
	Expires time.Time // unless it is kept alive
	Keys    []string  // that end with it, in order
}

// A lease is an etcd lease that has not ended.
type lease struct {
	id      etcd.LeaseID
	ttl     time.Duration
	expires time.Time
	keys    map[string]bool
}

// A lessor holds the etcd leases. The timer, where there is one, fires no later
// than the first of them expires.
type lessor struct {
	last  etcd.LeaseID // ids count up and are not used again
	byID  map[etcd.LeaseID]*lease
	timer *time.Timer
	fires time.Time // when the timer fires; zero: it does not
}

func newLessor() lessor { return lessor{byID: map[etcd.LeaseID]*lease{}} }

// has says whether a key can be put on the etcd lease; 0 is none.
func (l *lessor) has(id etcd.LeaseID) bool { return id == 0 || l.byID[id] != nil }

func (l *lessor) attach(id etcd.LeaseID, key string) {
	if id != 0 {
		l.byID[id].keys[key] = true
	}
}

func (l *lessor) detach(id etcd.LeaseID, key string) {
	if id != 0 {
		delete(l.byID[id].keys, key)
	}
}

// inOrder returns the etcd leases in the order in which they expire.
func (l *lessor) inOrder() []*lease {
	return slices.SortedFunc(maps.Values(l.byID), func(a, b *lease) int {
		return cmp.Or(a.expires.Compare(b.expires), cmp.Compare(a.id, b.id))
	})
}

func (l *lessor) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.fires = time.Time{}
}

// arm makes the timer fire at the time, unless it fires earlier.
func (l *lessor) arm(at time.Time, fire func()) {
	if !l.fires.IsZero() && !at.Before(l.fires) {
		return
	}
	l.fires = at
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(at), fire)
		return
	}
	l.timer.Reset(time.Until(at))
}

// grant is Grant of every client.
func (s *Server) grant(ttl time.Duration) (etcd.LeaseID, time.Duration, error) {
	if ttl <= 0 {
		return 0, 0, fmt.Errorf("%w: an etcd lease of %v: want a positive duration", etcd.ErrInvalid, ttl)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginLocked(); err != nil {
		return 0, 0, err
	}
	if err := s.spaceLocked(); err != nil {
		return 0, 0, err
	}
	if ttl > maxTTL {
		return 0, 0, fmt.Errorf("%w: an etcd lease of %v: want at most %v", etcd.ErrInvalid, ttl, maxTTL)
	}
	ttl = max((ttl + time.Second - 1).Truncate(time.Second), s.cfg.MinTTL)
	s.lessor.last++
	l := &lease{id: s.lessor.last, ttl: ttl, expires: time.Now().Add(ttl), keys: map[string]bool{}}
	s.lessor.byID[l.id] = l
	s.lessor.arm(l.expires, s.expire)
	if err := s.usedLocked(); err != nil {
		return 0, 0, err
	}
	return l.id, ttl, nil
}

// keepAlive is KeepAlive of every client. It is too late at the moment of expiry.
func (s *Server) keepAlive(id etcd.LeaseID) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.leaseLocked(id)
	if err != nil {
		return 0, err
	}
	l.expires = time.Now().Add(l.ttl) // the timer fires too early, and looks again
	return l.ttl, nil
}

// revoke is Revoke of every client.
func (s *Server) revoke(id etcd.LeaseID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.leaseLocked(id)
	if err != nil {
		return err
	}
	s.endLocked(l)
	return nil
}

// leaseLocked returns an etcd lease that has not ended.
func (s *Server) leaseLocked(id etcd.LeaseID) (*lease, error) {
	if err := s.beginLocked(); err != nil {
		return nil, err
	}
	l, ok := s.lessor.byID[id]
	if !ok {
		return nil, fmt.Errorf("%w: %d", etcd.ErrLeaseNotFound, id)
	}
	return l, nil
}

// endLocked ends an etcd lease and deletes its keys at one revision of its own, if
// it has any.
func (s *Server) endLocked(l *lease) {
	d := &draft{history: &s.history, lessor: &s.lessor}
	for _, key := range slices.Sorted(maps.Keys(l.keys)) {
		d.delete(span{start: key})
	}
	delete(s.lessor.byID, l.id)
	s.commitLocked(d)
}

// expireLocked ends the etcd leases that have expired, each at a revision of its
// own, in the order of their expiries.
func (s *Server) expireLocked(now time.Time) {
	if s.lessor.fires.IsZero() || now.Before(s.lessor.fires) {
		return
	}
	s.lessor.fires = time.Time{}
	for _, l := range s.lessor.inOrder() {
		if now.Before(l.expires) {
			s.lessor.arm(l.expires, s.expire)
			return
		}
		s.endLocked(l)
	}
}

// expire is what the timer calls.
func (s *Server) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.beginLocked() // closed: no more
}

// ExpireLease lets an etcd lease expire now.
func (s *Server) ExpireLease(id etcd.LeaseID) error { return s.revoke(id) }

// Leases returns the etcd leases that have not ended, in the order in which they
// expire.
func (s *Server) Leases() []Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.beginLocked() // as Revision
	var all []Lease
	for _, l := range s.lessor.inOrder() {
		all = append(all, Lease{l.id, l.ttl, l.expires, slices.Sorted(maps.Keys(l.keys))})
	}
	return all
}
