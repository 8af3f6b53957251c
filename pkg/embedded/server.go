package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A Server is an etcd of one member in this process.
type Server struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	dir    string
	listen string
	lock   *os.File
	level  zap.AtomicLevel
	gate   *gate

	close    sync.Once
	closeErr error
}

// Start starts the etcd and returns when it serves, or an error that names what
// is wrong with the configuration. A second process on the same directory gets an
// error at once. The context bounds the start only.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	lock, before, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	cfg.Listen = prefer(cfg.Listen, before)
	logger, level := newLogger(cfg.Logger)
	s := &Server{dir: cfg.Dir, listen: cfg.Listen, lock: lock, level: level, gate: newGate()}
	if err := s.start(ctx, cfg.etcdConfig(logger, s.gate)); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if err := sign(lock, s.Endpoint()); err != nil {
		s.stop()
		return nil, errors.Join(fmt.Errorf("embedded etcd: data directory %q is not writable: %w", cfg.Dir, err), lock.Close())
	}
	s.client = v3client.New(s.etcd.Server)
	s.gate.open()
	return s, nil
}

func (s *Server) start(ctx context.Context, cfg *embed.Config) (err error) {
	if err := begin(s.dir); err != nil {
		return fmt.Errorf("embedded etcd: data directory %q: %w", s.dir, err)
	}
	if err := checkDatabase(cfg.Dir); err != nil {
		return fmt.Errorf("embedded etcd: data directory %q is damaged: %w", s.dir, err)
	}
	s.etcd, err = launch(cfg)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("embedded etcd: listen address %q is in use: give another, or port 0 for any free one: %w", s.listen, err)
	}
	if err != nil {
		return fmt.Errorf("embedded etcd in %q, listening on %q: %w", s.dir, s.listen, err)
	}
	if err := s.ready(ctx); err != nil {
		s.stop()
		return fmt.Errorf("embedded etcd in %q did not become ready: %w", s.dir, err)
	}
	return nil
}

// launch starts an etcd. Etcd panics where it can't make sense of its data; where it
// does so here and not in a goroutine of its own, that is an error like another, but
// that etcd's goroutines and files stay until the process ends.
func launch(cfg *embed.Config) (e *embed.Etcd, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("its data is damaged; restore the directory from a copy, or move it away to begin anew: %v", p)
		}
	}()
	return embed.StartEtcd(cfg)
}

func (s *Server) ready(ctx context.Context) error {
	select {
	case <-s.etcd.Server.ReadyNotify():
		return settle(s.dir)
	case <-s.etcd.Server.StopNotify():
		return errors.New("it stopped")
	case err := <-s.etcd.Err():
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Client returns the in-process client, which needs no network and no encoding.
// Close closes it.
func (s *Server) Client() *clientv3.Client { return s.client }

// Endpoint returns where other processes reach the etcd, like
// "http://127.0.0.1:2379". For one that listens on all addresses it is the local one.
func (s *Server) Endpoint() string {
	host, _, _ := net.SplitHostPort(s.listen)
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	_, port, _ := net.SplitHostPort(s.etcd.Clients[0].Addr().String())
	return "http://" + net.JoinHostPort(host, port)
}

// Close stops the etcd and unlocks its directory. Requests and watches of other
// processes end without an answer. A second Close returns what the first did.
func (s *Server) Close() error {
	s.close.Do(func() {
		_ = s.client.Close() // returns its own context's error, always
		s.stop()
		s.closeErr = s.lock.Close()
	})
	return s.closeErr
}

// stop stops the server before its listeners: these wait, in a server that has
// not become ready, until it does. Etcd logs errors when it closes cleanly.
func (s *Server) stop() {
	s.gate.close()
	s.level.SetLevel(zapcore.FatalLevel)
	select {
	case <-s.etcd.Server.ReadyNotify():
	default:
		s.etcd.Server.Stop()
	}
	s.etcd.Close()
}
