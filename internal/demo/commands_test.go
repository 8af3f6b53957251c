package demo_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The commands by themselves, as a newcomer uses them: a provider, a worker with
// an embedded etcd, orders submitted, read and listed.
func TestCommandsOfTheShop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, ledger := filepath.Join(dir, "data"), filepath.Join(dir, "ledger.jsonl")
	provider := start(t, "provider", "--listen=127.0.0.1:0", "--ledger="+ledger)
	provider.await(t, "payment provider: http://")
	_, url, _ := strings.Cut(provider.log(), "payment provider: ")
	url, _, _ = strings.Cut(url, ",")
	w := start(t, "run", "--data-dir="+data, "--provider="+url, "--lease=5s")
	w.await(t, "worker runs until Ctrl-C")

	orders := file(t, order("a/b", 42, "ok"), "", order("no", 1, "declined"), "nonsense")
	p, status := run(t, "submit", "--data-dir="+data, "--orders="+orders, "--wait")
	if status != 3 || !strings.Contains(p.log(), "line 4 skipped") {
		t.Errorf("submit: exit status %d, want 3", status)
	}
	for _, want := range []string{"\"a/b\"\tstarted\n", "\"a/b\"\tcompleted\t42 EUR, charge ch_1", "\"no\"\tfailed\tthe card was declined\n"} {
		if !strings.Contains(p.stdout.String(), want) {
			t.Errorf("submit does not say %q", want)
		}
	}
	p, status = run(t, "submit", "--data-dir="+data, "--orders="+file(t, order("a/b", 42, "ok"), order("no", 2, "declined")))
	if out := p.stdout.String(); status != 1 || !strings.Contains(out, "\"a/b\"\twas there already") || !strings.Contains(out, "another order has this id") {
		t.Errorf("submit of a taken id: exit status %d, want 1", status)
	}
	p, status = run(t, "get", "a/b", "--data-dir="+data)
	var record struct{ ID, Status string }
	if err := json.Unmarshal(p.stdout.Bytes(), &record); status != 0 || err != nil || record.ID != "a/b" || record.Status != "completed" {
		t.Errorf("get: exit status %d, %+v, %v", status, record, err)
	}
	if p, status = run(t, "get", "nobody", "--data-dir="+data); status != 1 || !strings.Contains(p.log(), "not found") {
		t.Errorf("get of an unknown id: exit status %d, want 1", status)
	}
	if p, status = run(t, "ls", "--data-dir="+data, "--status=failed"); status != 0 || p.stdout.String() != "\"no\"\tfailed\t0\n" {
		t.Errorf("ls: exit status %d", status)
	}
	if p, status = run(t, "get", "a/b", "--data-dir="+data, "--namespace=mistyped"); status != 1 || !strings.Contains(p.log(), `namespace "mistyped" is empty`) {
		t.Errorf("get in a namespace that is not there: exit status %d, want 1", status)
	}
	for range 2 { // the first did not make it
		if p, status = run(t, "ls", "--data-dir="+data, "--namespace=mistyped"); status != 0 || !strings.Contains(p.log(), `namespace "mistyped" has no executions`) {
			t.Errorf("ls of a namespace that is not there: exit status %d, want 0 and a note", status)
		}
	}
	if p, status = run(t, "run", "--data-dir="+data); status != 1 || !strings.Contains(p.log(), "in use") {
		t.Errorf("a second run in the directory: exit status %d, want 1", status)
	}

	w.signal(t, syscall.SIGTERM)
	if status := w.exit(t); status != 0 {
		t.Errorf("run: exit status %d after SIGTERM, want 0", status)
	}
	if _, err := os.Stat(filepath.Join(data, "etcd.endpoint")); !os.IsNotExist(err) {
		t.Errorf("the address is still there: %v", err)
	}
	if p, status = run(t, "ls", "--data-dir="+data); status != 1 || !strings.Contains(p.log(), "no process serves it now") {
		t.Errorf("ls without a worker: exit status %d, want 1", status)
	}
	provider.signal(t, syscall.SIGINT)
	if status := provider.exit(t); status != 0 {
		t.Errorf("provider: exit status %d after Ctrl-C, want 0", status)
	}
}

// A worker in mid-charge waits when it is told to stop, and ends at once when told again.
func TestSecondInterruptEndsAWorkerAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	provider := start(t, "provider", "--listen=127.0.0.1:0", "--ledger="+filepath.Join(dir, "ledger.jsonl"), "--think=1h")
	provider.await(t, "payment provider: http://")
	_, url, _ := strings.Cut(provider.log(), "payment provider: ")
	url, _, _ = strings.Cut(url, ",")
	w := start(t, "run", "--data-dir="+data, "--provider="+url, "--drain-timeout=1h", "--charge-timeout=1h", "--log-level=debug")
	w.await(t, "worker runs until Ctrl-C")
	if _, status := run(t, "submit", "--data-dir="+data, "--orders="+file(t, order("slow", 1, "ok"))); status != 0 {
		t.Errorf("submit: exit status %d, want 0", status)
	}
	w.await(t, `"operation": "invoice"`) // the charge is next
	w.signal(t, syscall.SIGINT)
	w.await(t, "another Ctrl-C")
	w.signal(t, syscall.SIGINT)
	if status := w.exit(t); status != 130 {
		t.Errorf("run: exit status %d after the second Ctrl-C, want 130", status)
	}
}

func TestRunRefusesContradictoryFlags(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	t.Cleanup(func() {
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Errorf("the data directory was made: %v", err)
		}
	})
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"run"}, "--etcd-endpoints for a cluster or --data-dir"},
		{[]string{"run", "--data-dir=" + data, "--etcd-endpoints=http://127.0.0.1:1"}, "exclude each other"},
		{[]string{"run", "--data-dir=" + data, "--etcd-user=me"}, "go with --etcd-endpoints"},
		{[]string{"run", "--data-dir=" + data, "--provider=nowhere"}, `provider "nowhere"`},
		{[]string{"run", "--data-dir=" + data, "--log-level=loud"}, "--log-level"},
		{[]string{"run", "--data-dir=" + data, "--lease=1ms"}, "lease duration"},
		{[]string{"run", "--data-dir=" + data, "--lease=0s"}, "--lease 0s: want more than 0"},
		{[]string{"run", "--data-dir=" + data, "--renew-every=0s"}, "--renew-every 0s"},
		{[]string{"run", "--data-dir=" + data, "--renew-every=20s"}, "renewal interval"},
		{[]string{"run", "--data-dir=" + data, "--concurrency=0"}, "--concurrency 0"},
		{[]string{"run", "--data-dir=" + data, "--concurrency=-1"}, "concurrency"},
		{[]string{"run", "--data-dir=" + data, "--charge-timeout=0"}, "--charge-timeout 0s"},
		{[]string{"run", "--data-dir=" + data, "--drain-timeout=-1s"}, "drain timeout"},
		{[]string{"run", "--data-dir=" + data, "--namespace="}, "--namespace is empty"},
		{[]string{"run", "--data-dir=" + data, "--namespace=" + strings.Repeat("x", 129)}, "--namespace: "},
		{[]string{"run", "--data-dir=" + data, "--name="}, "--name is empty"},
		{[]string{"run", "--data-dir=" + data, "--listen=shop"}, `listen address "shop"`},
		{[]string{"run", "--etcd-endpoints=http://127.0.0.1:1", "--listen=127.0.0.1:0"}, "goes with --data-dir"},
		{[]string{"ls", "--data-dir=" + data, "--status=lost"}, "--status"},
		{[]string{"get", "", "--data-dir=" + data}, "id"},
		{[]string{"submit", "--data-dir=" + data, "--orders="}, "--orders is empty"},
		{[]string{"provider", "--ledger=" + data, "--think=-1s"}, "--think -1s"},
		{[]string{"provider"}, "ledger"},
		{[]string{"get"}, "arg"},
		{[]string{"nonsense"}, "unknown command"},
	} {
		t.Run(strings.Join(tt.args[:min(2, len(tt.args))], " ")+" "+tt.says, func(t *testing.T) {
			t.Parallel()
			if p, status := run(t, tt.args...); status != 2 || !strings.Contains(p.log(), tt.says) {
				t.Errorf("exit status %d, want 2 and %q", status, tt.says)
			}
		})
	}
}
