package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/connect"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/embedded"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/heap"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }

// A site is a namespace that the engine has filled with one execution of each
// sort, named for it.
type site struct {
	t         *testing.T
	store     etcd.Store
	namespace string
	space     keyspace.Space
	engine    *leasing.Client
	steps     *heap.Client
	leases    map[string]execution.Lease // the latest
}

func newSite(t *testing.T) *site {
	t.Helper()
	namespace := strings.ReplaceAll(t.Name(), "/", " ")
	space, err := keyspace.New("/holdfast", namespace)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, store: testetcd.Start(t), namespace: namespace, space: space, leases: map[string]execution.Lease{}}
	s.engine, err = leasing.New(t.Context(), leasing.Config{Store: s.store, Space: space, Delay: leasing.DelayPolicy{Base: time.Hour}})
	s.must(err)
	s.steps, err = heap.New(heap.Config{Store: s.store, Space: space})
	s.must(err)
	for _, id := range []string{"admitted", "claimed", "completed", "reaped", "released", "suspended"} {
		_, err := s.engine.Admit(t.Context(), execution.AdmitRequest{ID: execution.ID(id), Workflow: "w", Queue: id})
		s.must(err)
		if id != "admitted" {
			s.claim(id)
		}
	}
	s.must(s.engine.Acknowledge(t.Context(), s.leases["completed"], execution.Outcome{Kind: execution.Completed}))
	s.must(s.engine.Acknowledge(t.Context(), s.leases["suspended"], execution.Outcome{Kind: execution.Suspended}))
	s.must(s.engine.Release(t.Context(), s.leases["released"], "test"))
	s.reap("reaped")
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// claim claims the execution with the id, which has a queue of its own, and records
// one step of it.
func (s *site) claim(id string) {
	s.t.Helper()
	ds, err := s.engine.ClaimDue(s.t.Context(), execution.ClaimRequest{Limit: 1, Duration: time.Minute, Queues: []string{id}})
	s.must(err)
	if len(ds) != 1 {
		s.t.Fatalf("%q is not due", id)
	}
	s.leases[id] = ds[0].Lease
	_, err = s.steps.WriteStep(s.t.Context(), ds[0].Lease, execution.StepWrite{Key: "one", Done: true, Response: []byte(`1`)})
	s.must(err)
}

// reap ends the execution's etcd lease, and has that noticed.
func (s *site) reap(id string) {
	s.t.Helper()
	kv := s.kv(s.space.Live(id))
	live, err := record.DecodeLive(kv.Value, kv.Modified)
	s.must(err)
	s.must(s.store.Revoke(s.t.Context(), s.kv(s.space.Proc(live.Proc)).Lease))
	another, err := leasing.New(s.t.Context(), leasing.Config{Store: s.store, Space: s.space, Delay: leasing.DelayPolicy{Base: time.Hour}})
	s.must(err)
	_, err = another.ClaimDue(s.t.Context(), execution.ClaimRequest{Now: time.UnixMilli(0), Limit: 1, Duration: time.Minute})
	s.must(err)
}

func (s *site) kv(key string) etcd.KV {
	s.t.Helper()
	res, _, err := s.store.Get(s.t.Context(), etcd.Get{Key: key})
	s.must(err)
	kv, ok := res.One()
	if !ok {
		s.t.Fatalf("no key %q", key)
	}
	return kv
}

// write applies raw operations.
func (s *site) write(ops ...etcd.Op) {
	s.t.Helper()
	_, err := s.store.Txn(s.t.Context(), &etcd.Txn{Then: ops})
	s.must(err)
}

// edit rewrites the execution's state.
func (s *site) edit(id string, change func(*record.State)) {
	s.t.Helper()
	kv := s.kv(s.space.State(id))
	state, err := record.DecodeState(kv.Value)
	s.must(err)
	change(state)
	s.write(etcd.Put{Key: kv.Key, Value: state.Encode()})
}

// entry returns the execution's entry in the due index.
func (s *site) entry(id string) etcd.KV {
	s.t.Helper()
	span := s.space.Dues(id)
	res, _, err := s.store.Get(s.t.Context(), etcd.Get{Key: span.Start, End: span.End})
	s.must(err)
	kv, ok := res.One()
	if !ok {
		s.t.Fatalf("%q has no entry", id)
	}
	return kv
}

func (s *site) stepKey(id, key string) string {
	return s.space.Step(keyspace.Step{ID: id, Incarnation: s.leases[id].Incarnation, Key: key})
}

func (s *site) putStep(id, key string) {
	s.t.Helper()
	s.write(etcd.Put{Key: s.stepKey(id, key), Value: (&record.Step{Token: s.leases[id].Token, Response: []byte(`2`)}).Encode()})
}

// check runs the command.
func (s *site) check(more ...string) (audit.Report, string) {
	s.t.Helper()
	var out bytes.Buffer
	args := append([]string{"--etcd-endpoints", testetcd.Endpoint(s.t), "--namespace", s.namespace}, more...)
	report, err := run(s.t.Context(), args, &out)
	s.must(err)
	return report, out.String()
}

func TestCheckAcceptsAHealthyNamespace(t *testing.T) {
	s := newSite(t)
	report, text := s.check()
	if !report.OK() || !strings.Contains(text, "no violation") {
		t.Errorf("%v, want no violation:\n%s", report.Violations, text)
	}
	if report.Keys[keyspace.KindState] != 6 || report.Keys[keyspace.KindStep] != 5 || report.Executions[execution.StatusRunning] != 1 {
		t.Errorf("%v, %v; want 6 states, 5 steps, 1 running", report.Keys, report.Executions)
	}
	_, text = s.check("--json")
	var parsed audit.Report
	if err := json.Unmarshal([]byte(text), &parsed); err != nil || parsed.Revision != report.Revision {
		t.Errorf("%v: %s; want the report as JSON", err, text)
	}
}

// I4, I10 and I11 are about answers and clocks, and I9 about what was promised:
// none of them leaves a trace that a snapshot shows.
func TestCheckFindsPlantedViolations(t *testing.T) {
	for _, c := range []struct {
		invariant audit.Invariant
		id        string
		plant     func(s *site)
	}{
		{audit.I1, "released", func(s *site) {
			s.edit("released", func(st *record.State) { st.Deliveries[0].Token = 1 })
		}},
		{audit.I2, "claimed", func(s *site) { s.write(etcd.Delete{Key: s.space.Live("claimed")}) }},
		{audit.I3, "released", func(s *site) { s.putStep("released", "late") }},
		{audit.I5, "claimed", func(s *site) { s.putStep("claimed", "one") }},
		{audit.I6, "admitted", func(s *site) { s.write(etcd.Delete{Key: s.entry("admitted").Key}) }},
		{audit.I7, "released", func(s *site) { s.edit("released", func(st *record.State) { st.Unacked = 7 }) }},
		{audit.I8, "released", func(s *site) {
			old := s.entry("released")
			k, err := s.space.Parse(old.Key)
			s.must(err)
			k.Due.At = time.UnixMilli(1)
			s.write(etcd.Delete{Key: old.Key}, etcd.Put{Key: s.space.Due(k.Due), Value: old.Value})
		}},
		{audit.Format, "completed", func(s *site) { s.write(etcd.Put{Key: s.space.State("completed"), Value: []byte("{")}) }},
	} {
		t.Run(string(c.invariant), func(t *testing.T) {
			s := newSite(t)
			c.plant(s)
			report, text := s.check()
			found := false
			for _, v := range report.Violations {
				found = found || v.Invariant == c.invariant && v.ID == c.id
			}
			if !found || !strings.Contains(text, string(c.invariant)) {
				t.Errorf("want a violation of %s by %q:\n%s", c.invariant, c.id, text)
			}
		})
	}
}

// Of a data directory it finds the etcd that serves it now, and no other.
func TestCheckFindsTheEtcdOfADataDirectory(t *testing.T) {
	dir := t.TempDir()
	args := []string{"--data-dir", dir, "--namespace", "n"}
	if err := os.WriteFile(filepath.Join(dir, connect.EndpointFile), []byte(testetcd.Endpoint(t)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), args, &bytes.Buffer{}); !errors.Is(err, embedded.ErrNotServed) {
		t.Errorf("%v, want that nobody serves it", err)
	}
	served, err := connect.Serve(t.Context(), connect.Config{DataDir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := served.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := run(t.Context(), args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), `namespace "n" under the prefix "/holdfast" is empty`) {
		t.Errorf("%v, want that the namespace is empty", err)
	}
	client, err := holdfast.Open(t.Context(), append(served.Options, holdfast.Namespace("n"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	report, err := run(t.Context(), args, &bytes.Buffer{})
	if err != nil || len(report.Keys) == 0 {
		t.Errorf("%v, %v; want what opening writes", report.Keys, err)
	}
}

func TestCheckRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"--etcd-endpoints", "http://127.0.0.1:1", "--data-dir", "x"},
		{"--etcd-endpoints", "http://127.0.0.1:1", "--namespace", ""},
		{"--etcd-endpoints", "http://127.0.0.1:1", "--prefix", "/"},
		{"--etcd-endpoints", "http://127.0.0.1:1", "--etcd-user", "nobody"},
		{"--etcd-endpoints", "http://127.0.0.1:1", "extra"},
		{"--etcd-endpoints", "http://127.0.0.1:1", "--timeout", "1ms"},
	} {
		if _, err := run(t.Context(), args, &bytes.Buffer{}); err == nil || errors.Is(err, flag.ErrHelp) {
			t.Errorf("%s: %v, want an error", fmt.Sprint(args), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := run(ctx, []string{"--etcd-endpoints", testetcd.Endpoint(t)}, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want it to be cancelled", err)
	}
}
