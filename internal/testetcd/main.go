package testetcd

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/embedded"
)

// A fixture is the binary's etcd.
type fixture struct {
	mu     sync.Mutex
	inMain bool
	dir    string
	server *embedded.Server
	err    error // of the first start; it is not tried twice
}

var shared fixture

// Main runs the tests, stops the etcd and removes its data. It returns the exit
// code: that of the tests, or 1 where goroutines are left behind.
func Main(m *testing.M) int {
	shared.enter()
	code := m.Run()
	if err := errors.Join(shared.leave(), leaks()); err != nil {
		fmt.Fprintln(os.Stderr, "testetcd:", err)
		code = max(code, 1)
	}
	return code
}

func leaks() error { return goleak.Find() }

// Start returns the shared etcd, through the in-process client.
func Start(t testing.TB) etcd.Store {
	t.Helper()
	client := Client(t)
	return etcdv3.New(client, client)
}

// Dial returns the shared etcd through gRPC, on connections that end with the test.
func Dial(t testing.TB) etcd.Store {
	t.Helper()
	store, closeStore, err := etcdv3.Dial(etcdv3.DialConfig{Endpoints: []string{Endpoint(t)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeStore(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// Client returns the shared etcd's in-process client. Tests do not close it.
func Client(t testing.TB) *clientv3.Client {
	t.Helper()
	return shared.start(t).Client()
}

// Endpoint returns where the shared etcd serves gRPC.
func Endpoint(t testing.TB) string {
	t.Helper()
	return shared.start(t).Endpoint()
}

// Space returns a namespace that is named for the test and that no other call
// has returned.
func Space(t testing.TB) keyspace.Space {
	t.Helper()
	space, err := keyspace.New("/test", namespace(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	return space
}

func (f *fixture) enter() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inMain = true
}

func (f *fixture) start(t testing.TB) *embedded.Server {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.inMain {
		t.Fatal("the package's TestMain must call testetcd.Main, which stops the etcd")
	}
	if f.server == nil && f.err == nil {
		f.err = f.startLocked(t)
	}
	if f.err != nil {
		t.Fatal(f.err)
	}
	return f.server
}

func (f *fixture) startLocked(t testing.TB) (err error) {
	if f.dir, err = os.MkdirTemp("", "testetcd-"); err != nil {
		return err
	}
	f.server, err = embedded.Start(t.Context(), embedded.Config{Dir: f.dir, NoFsync: true})
	return err
}

func (f *fixture) leave() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	if f.server != nil {
		err = f.server.Close()
	}
	if f.dir != "" {
		err = errors.Join(err, os.RemoveAll(f.dir))
	}
	return err
}
