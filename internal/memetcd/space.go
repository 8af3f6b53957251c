package memetcd

import "github.com/holdfast-io/holdfast/internal/etcd"

// A Space says how much of etcd's quota is left.
type Space int

// How much is left.
const (
	// SpaceFree: enough.
	SpaceFree Space = iota
	// SpaceLast: other requests use it up while the next one is on its way. That one
	// is applied, answered with [etcd.ErrNoSpace] all the same, and then it is
	// SpaceFull. Etcd looks twice, and the second time when it is too late.
	SpaceLast
	// SpaceFull: the alarm stands. Every transaction with a put in one of its
	// branches is refused, whether or not that branch would be taken, and so is
	// every grant. Whatever else there is passes.
	SpaceFull
)

// SetSpace says how much is left, until it is set again.
func (s *Server) SetSpace(space Space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.space = space
}

// spaceLocked is asked before a request that takes space is applied.
func (s *Server) spaceLocked() error {
	if s.space == SpaceFull {
		return etcd.ErrNoSpace
	}
	return nil
}

// usedLocked is asked after a request that takes space was applied.
func (s *Server) usedLocked() error {
	if s.space == SpaceLast {
		s.space = SpaceFull
	}
	return s.spaceLocked()
}
