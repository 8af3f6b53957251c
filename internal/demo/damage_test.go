package demo_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-io/holdfast/internal/connect"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
)

// Records that somebody has damaged are named, and hide no other.
func TestCommandsNameDamagedRecords(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	w := start(t, "run", "--data-dir="+data, "--provider=http://127.0.0.1:1")
	w.await(t, "worker runs until Ctrl-C")
	if _, status := run(t, "submit", "--data-dir="+data, "--orders="+file(t, order("whole", 1, "ok"), order("spoilt", 1, "ok"))); status != 0 {
		t.Fatalf("submit: exit status %d, want 0", status)
	}
	damage(t, data)

	p, status := run(t, "ls", "--data-dir="+data)
	if status != 1 || !strings.Contains(p.stdout.String(), `"whole"`) || !strings.Contains(p.log(), "state/torn\" can't be read") {
		t.Errorf("ls: exit status %d, want 1 and the damaged record's key", status)
	}
	if p, status := run(t, "get", "spoilt", "--data-dir="+data); status != 1 || !strings.Contains(p.log(), `execution "spoilt": its spec is damaged`) {
		t.Errorf("get: exit status %d, want 1 and that the spec is damaged", status)
	}
	if p, status := run(t, "get", "torn", "--data-dir="+data); status != 1 || !strings.Contains(p.log(), "torn") {
		t.Errorf("get: exit status %d, want 1 and the id", status)
	}
}

// A worker names the directory whose data it can't serve.
func TestRunNamesADamagedDirectory(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	w := start(t, "run", "--data-dir="+data)
	w.await(t, "worker runs until Ctrl-C")
	w.signal(t, syscall.SIGTERM)
	if status := w.exit(t); status != 0 {
		t.Fatalf("run: exit status %d, want 0", status)
	}
	member := filepath.Join(data, "etcd", "member")
	for _, pattern := range []string{filepath.Join(member, "wal", "*.wal"), filepath.Join(member, "snap", "db")} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("nothing is at %s: %v", pattern, err)
		}
		for _, f := range files {
			if err := os.WriteFile(f, bytes.Repeat([]byte("garbage"), 10_000), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if p, status := run(t, "run", "--data-dir="+data); status != 1 || !strings.Contains(p.log(), data) || strings.Contains(p.log(), "goroutine ") {
			t.Errorf("run: exit status %d, want 1 and the directory", status)
		}
	}
}

// damage makes the params of one execution nonsense, and the state of another.
func damage(t *testing.T, data string) {
	t.Helper()
	found, err := connect.Find(connect.Config{DataDir: data})
	if err != nil {
		t.Fatal(err)
	}
	store, closeStore, err := etcdv3.Dial(etcdv3.DialConfig{Endpoints: found.Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeStore(); err != nil {
			t.Error(err)
		}
	})
	space, err := keyspace.New("/holdfast", "default")
	if err != nil {
		t.Fatal(err)
	}
	res, _, err := store.Get(t.Context(), etcd.Get{Key: space.Spec("spoilt")})
	kv, there := res.One()
	if err != nil || !there {
		t.Fatalf("no spec: %v", err)
	}
	spec, err := record.DecodeSpec(kv.Value)
	if err != nil {
		t.Fatal(err)
	}
	spec.Params = []byte("nonsense")
	_, err = store.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{
		etcd.Put{Key: kv.Key, Value: spec.Encode()}, etcd.Put{Key: space.State("torn"), Value: []byte("{")},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// The address that a killed worker leaves is not believed, and its successor has it again.
func TestCommandsAfterAKilledWorker(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	address := func() string {
		t.Helper()
		found, err := connect.Find(connect.Config{DataDir: data})
		if err != nil {
			t.Fatal(err)
		}
		return found.Where
	}
	w := start(t, "run", "--data-dir="+data)
	w.await(t, "worker runs until Ctrl-C")
	before := address()
	w.signal(t, syscall.SIGKILL)
	w.exit(t)
	for _, args := range [][]string{{"ls"}, {"get", "a"}, {"submit"}} {
		if p, status := run(t, append(args, "--data-dir="+data)...); status != 1 || !strings.Contains(p.log(), "no process serves it now; start one with: worker run --data-dir "+data) {
			t.Errorf("%s: exit status %d, want 1 and that nobody serves the directory", args[0], status)
		}
	}
	start(t, "run", "--data-dir="+data).await(t, "worker runs until Ctrl-C")
	if after := address(); after != before {
		t.Logf("served at %s, and then at %s: somebody had taken the port", before, after)
	}
}
