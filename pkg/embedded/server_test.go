package embedded_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/holdfast-io/holdfast/pkg/embedded"
)

func start(t *testing.T, cfg embedded.Config) *embedded.Server {
	t.Helper()
	cfg.NoFsync = true
	s, err := embedded.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeServer(t, s) })
	return s
}

func closeServer(t *testing.T, s *embedded.Server) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func dial(t *testing.T, endpoint string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func get(t *testing.T, c *clientv3.Client, key string) string {
	t.Helper()
	resp, err := c.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Kvs) == 0 {
		return ""
	}
	return string(resp.Kvs[0].Value)
}

func put(t *testing.T, c *clientv3.Client, key, value string) {
	t.Helper()
	if _, err := c.Put(t.Context(), key, value); err != nil {
		t.Fatal(err)
	}
}

func TestServesInProcessAndOnItsEndpoint(t *testing.T) {
	s := start(t, embedded.Config{Dir: t.TempDir()})
	put(t, s.Client(), "k", "v")
	if got := get(t, dial(t, s.Endpoint()), "k"); got != "v" {
		t.Fatalf("through %s: got %q, want %q", s.Endpoint(), got, "v")
	}
	u, err := url.Parse(s.Endpoint())
	if err != nil || u.Scheme != "http" || u.Hostname() != "127.0.0.1" || u.Port() == "0" {
		t.Fatalf("endpoint %q: want http://127.0.0.1 with a real port", s.Endpoint())
	}
}

func TestDataOutlivesARestartOnAnotherPort(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embedded.Config{Dir: dir})
	put(t, first.Client(), "k", "v")
	before := first.Endpoint()
	closeServer(t, first)

	// The old port is kept busy, so that the restart can't have it.
	l, err := net.Listen("tcp", strings.TrimPrefix(before, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	second := start(t, embedded.Config{Dir: dir})
	if second.Endpoint() == before {
		t.Fatalf("both listen on %s", before)
	}
	for name, c := range map[string]*clientv3.Client{"in process": second.Client(), "endpoint": dial(t, second.Endpoint())} {
		if got := get(t, c, "k"); got != "v" {
			t.Errorf("%s: got %q after the restart, want %q", name, got, "v")
		}
	}
	put(t, second.Client(), "k", "w")
}

func TestDirectoryInUseFailsAtOnce(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embedded.Config{Dir: dir})
	_, err := embedded.Start(t.Context(), embedded.Config{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "in use by process ") {
		t.Fatalf("got %v, want an error that names the directory and its process", err)
	}
	put(t, first.Client(), "k", "v")
	closeServer(t, first)
	start(t, embedded.Config{Dir: dir})
}

func TestStartRefuses(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		cfg  embedded.Config
		want []string
	}{
		"no directory":              {embedded.Config{}, []string{"no data directory"}},
		"directory is a file":       {embedded.Config{Dir: file}, []string{file, "can't be made"}},
		"directory inside a file":   {embedded.Config{Dir: filepath.Join(file, "x")}, []string{file, "can't be made"}},
		"lock can't be written":     {embedded.Config{Dir: dirWithLockDir(t)}, []string{"not writable"}},
		"negative quota":            {embedded.Config{Dir: t.TempDir(), QuotaBytes: -1}, []string{"-1"}},
		"listen without a port":     {embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1"}, []string{`"127.0.0.1"`}},
		"listen on a host name":     {embedded.Config{Dir: t.TempDir(), Listen: "example.com:1"}, []string{`"example.com:1"`}},
		"listen without a host":     {embedded.Config{Dir: t.TempDir(), Listen: ":2379"}, []string{`":2379"`}},
		"listen with a URL":         {embedded.Config{Dir: t.TempDir(), Listen: "http://127.0.0.1:1"}, []string{`"http://127.0.0.1:1"`}},
		"listen on a strange port":  {embedded.Config{Dir: t.TempDir(), Listen: "127.0.0.1:65536"}, []string{`"65536"`}},
		"listen address in use":     {embedded.Config{Dir: t.TempDir(), Listen: busy.Addr().String()}, []string{busy.Addr().String(), "in use"}},
		"listen on another machine": {embedded.Config{Dir: t.TempDir(), Listen: "192.0.2.1:0"}, []string{"192.0.2.1:0"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := embedded.Start(t.Context(), tc.cfg)
			if err == nil {
				closeServer(t, s)
				t.Fatal("it started")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
		})
	}
}

// dirWithLockDir returns a directory in which the lock file can't be made, also
// not by root.
func dirWithLockDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "holdfast.lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFailedStartUnlocksTheDirectory(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	dir := t.TempDir()
	if _, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, Listen: busy.Addr().String()}); err == nil {
		t.Fatal("it started on an address in use")
	}
	start(t, embedded.Config{Dir: dir})
}

// Etcd's first start, cut off before its log holds an entry, leaves data with
// which it never becomes ready.
func TestStartAfterAFirstStartThatWasCutOff(t *testing.T) {
	dir := t.TempDir()
	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no patience")
	cancel(cause)
	if s, err := embedded.Start(ended, embedded.Config{Dir: dir}); err == nil {
		closeServer(t, s) // it was ready at once
	} else if !errors.Is(err, cause) {
		t.Fatalf("got %v, want the cause of the context", err)
	}
	s := start(t, embedded.Config{Dir: dir})
	put(t, s.Client(), "k", "v")
	closeServer(t, s)
	if got := get(t, start(t, embedded.Config{Dir: dir}).Client(), "k"); got != "v" {
		t.Fatalf("got %q after the second start, want %q", got, "v")
	}
}

func TestListenOnAllAddressesHasALocalEndpoint(t *testing.T) {
	s := start(t, embedded.Config{Dir: t.TempDir(), Listen: "0.0.0.0:0"})
	if !strings.HasPrefix(s.Endpoint(), "http://127.0.0.1:") {
		t.Fatalf("endpoint %q", s.Endpoint())
	}
	put(t, dial(t, s.Endpoint()), "k", "v")
}

func TestCloseTwiceAndAtOnce(t *testing.T) {
	s := start(t, embedded.Config{Dir: t.TempDir()})
	done := make(chan error, 2)
	for range cap(done) {
		go func() { done <- s.Close() }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	closeServer(t, s)
}

func TestCloseDoesNotWaitForWatchesOfOthers(t *testing.T) {
	s := start(t, embedded.Config{Dir: t.TempDir()})
	c := dial(t, s.Endpoint())
	watch := c.Watch(clientv3.WithRequireLeader(t.Context()), "k", clientv3.WithRev(1))
	put(t, s.Client(), "k", "v")
	if resp := <-watch; resp.Err() != nil || len(resp.Events) != 1 {
		t.Fatalf("got %v, %v", resp.Events, resp.Err())
	}
	closeServer(t, s)
	if _, err := c.Get(soon(t), "k"); err == nil {
		t.Fatal("a closed server answered")
	}
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestCleanRunLogsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	for _, run := range []string{"first start", "second start"} {
		logs, seen := observer.New(zapcore.DebugLevel)
		s := start(t, embedded.Config{Dir: dir, Logger: zap.New(logs)})
		put(t, dial(t, s.Endpoint()), "k", "v")
		closeServer(t, s)
		for _, e := range seen.All() {
			t.Errorf("%s logged %s: %s %v", run, e.Level, e.Message, e.ContextMap())
		}
	}
}

func TestWarningsReachTheLogger(t *testing.T) {
	logs, seen := observer.New(zapcore.DebugLevel)
	s := start(t, embedded.Config{Dir: t.TempDir(), Logger: zap.New(logs)})
	if _, err := s.Client().Put(t.Context(), "k", "v", clientv3.WithLease(7)); err == nil {
		t.Fatal("a key was bound to an etcd lease that does not exist")
	}
	for _, e := range seen.FilterMessage("failed to apply request").All() {
		if e.LoggerName == "etcd" && e.Level == zapcore.WarnLevel {
			return
		}
	}
	t.Fatalf("the failed request is not among %v", seen.All())
}

func TestQuotaBoundsTheData(t *testing.T) {
	s := start(t, embedded.Config{Dir: t.TempDir(), QuotaBytes: 1}) // less than an empty store takes
	if _, err := s.Client().Put(t.Context(), "k", "v"); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Fatalf("got %v, want that there is no space", err)
	}
}
