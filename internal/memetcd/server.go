package memetcd

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// What an embedded etcd has, and a cluster with default flags but for the TTL: that
// one grants no etcd lease shorter than 2 s.
const (
	DefaultMinTTL          = time.Second
	DefaultMaxTxnOps       = 128
	DefaultMaxRequestBytes = 1536 * 1024
)

// Config says which limits an etcd in memory has.
type Config struct {
	// MinTTL is the shortest TTL that is granted, in whole seconds. Default
	// DefaultMinTTL. Not negative.
	MinTTL time.Duration

	// MaxTxnOps bounds the operations of a transaction, as etcd counts them: those
	// of the longest list, nested lists on top. Default DefaultMaxTxnOps. Not
	// negative.
	MaxTxnOps int

	// MaxRequestBytes bounds the encoded request of a transaction that does more
	// than read. Default DefaultMaxRequestBytes. Not negative.
	MaxRequestBytes int
}

// withDefaults returns a checked copy.
func (c Config) withDefaults() (Config, error) {
	switch {
	case c.MinTTL < 0 || c.MinTTL%time.Second != 0:
		return c, fmt.Errorf("etcd in memory: shortest TTL %v: want 0 for the default, or whole seconds", c.MinTTL)
	case c.MaxTxnOps < 0:
		return c, fmt.Errorf("etcd in memory: at most %d operations: want 0 for the default, or more", c.MaxTxnOps)
	case c.MaxRequestBytes < 0:
		return c, fmt.Errorf("etcd in memory: at most %d bytes: want 0 for the default, or more", c.MaxRequestBytes)
	}
	if c.MinTTL == 0 {
		c.MinTTL = DefaultMinTTL
	}
	if c.MaxTxnOps == 0 {
		c.MaxTxnOps = DefaultMaxTxnOps
	}
	if c.MaxRequestBytes == 0 {
		c.MaxRequestBytes = DefaultMaxRequestBytes
	}
	return c, nil
}

// errClosed is not definite, like the end of a connection.
var errClosed = errors.New("the etcd in memory is closed")

// A Server is an etcd in memory. Its clients are made by [Server.Client]; its own
// methods pass no gate. They may be called from many goroutines at once.
type Server struct {
	cfg     Config
	closed  context.Context //nolint:containedctx // ends at Close
	close   context.CancelFunc
	running sync.WaitGroup // watches, and requests that pass a gate

	mu       sync.Mutex
	history  history
	lessor   lessor
	watchers []*watcher
	space    Space
}

// New returns an empty etcd at revision 1, or an error that says what is wrong
// with the configuration. It starts nothing.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, history: newHistory(), lessor: newLessor()}
	s.closed, s.close = context.WithCancel(context.Background())
	return s, nil
}

// Close ends every watch and request, and waits for them: a gate that they are in
// must return when its context ends. Closing again does nothing.
func (s *Server) Close() {
	s.mu.Lock()
	s.close()
	s.lessor.stop()
	s.mu.Unlock()
	s.running.Wait()
}

// enter lets a goroutine begin that Close waits for; it calls s.running.Done.
func (s *Server) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed.Err() != nil {
		return errClosed
	}
	s.running.Add(1)
	return nil
}

// beginLocked comes before whatever an operation reads: no etcd lease that has
// expired by now is seen by it.
func (s *Server) beginLocked() error {
	if s.closed.Err() != nil {
		return errClosed
	}
	s.expireLocked(time.Now())
	return nil
}

// commitLocked makes the changes the next revision, if there are any.
func (s *Server) commitLocked(d *draft) {
	c, ok := s.history.commit(d)
	if !ok {
		return
	}
	for _, w := range s.watchers {
		w.push(c)
	}
}

// get is Get of every client.
func (s *Server) get(get etcd.Get) (etcd.Result, int64, error) {
	if get.Key == "" {
		return etcd.Result{}, 0, errEmptyKey
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginLocked(); err != nil {
		return etcd.Result{}, 0, err
	}
	at := get.Revision
	if at <= 0 {
		at = s.history.revision
	}
	if err := s.history.readable(at); err != nil {
		return etcd.Result{}, 0, fmt.Errorf("read at revision %d: %w", get.Revision, err)
	}
	return s.history.read(get, at), s.history.revision, nil
}

// Revision returns the current revision.
func (s *Server) Revision() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.beginLocked() // a closed one still shows what it had
	return s.history.revision
}

// Dump returns every key as it is, in order.
func (s *Server) Dump() []etcd.KV {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.beginLocked() // as Revision
	all := etcd.Get{Key: "\x00", End: "\x00"}
	return s.history.read(all, s.history.revision).KVs
}

// Compact forgets what was before the revision. A watch of a gated client that has
// not yet taken an older event ends with a [*etcd.CompactedError].
func (s *Server) Compact(revision int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginLocked(); err != nil {
		return err
	}
	if err := s.history.compact(revision); err != nil {
		return fmt.Errorf("compact at revision %d: %w", revision, err)
	}
	for _, w := range s.watchers {
		w.compact(revision)
	}
	return nil
}
