package integration_test

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The cost of each operation in etcd requests, exact. This is what keeps the
// engine's speed: times say little on a shared machine.
func TestRequestsPerOperation(t *testing.T) {
	e := newEngine(t)
	e.counts.Reset()
	expect := func(what string, writes, reads int64) {
		t.Helper()
		e.expect(t, what, writes, reads)
	}
	e.admit(t, "x", 64)
	expect("64 admissions", 64, 0)
	ds := e.claim(t, 64)
	expect("claiming 64 of 64", 2, 1)
	first := ds[0]
	if !first.First {
		t.Error("a first delivery is not known as such")
	}
	e.step(t, first, "load")
	expect("a step", 1, 0)
	e.step(t, first, "load")
	expect("the same step again", 1, 0)
	e.acknowledge(t, first)
	expect("an acknowledgement", 1, 0)
	if err := e.holder.Acknowledge(t.Context(), ds[1].Lease, execution.Outcome{Kind: execution.Suspended, Wake: time.Now()}); err != nil {
		t.Fatal(err)
	}
	expect("a suspension with a wake of its own", 1, 0)
	again := e.claim(t, 1)[0]
	expect("claiming 1", 1, 1)
	if again.First {
		t.Error("a second delivery is taken for a first one")
	}
	if _, err := e.steps.Read(t.Context(), again.Lease); err != nil {
		t.Fatal(err)
	}
	expect("reading the recorded steps", 0, 1)
	if err := e.holder.Release(t.Context(), again.Lease, "no"); err != nil {
		t.Fatal(err)
	}
	expect("a release", 1, 0)
	e.step(t, ds[2], "load")
	e.counts.Reset()
	if err := e.holder.Acknowledge(t.Context(), ds[2].Lease, execution.Outcome{Kind: execution.Continued}); err != nil {
		t.Fatal(err)
	}
	expect("a turnover, with the clean-up after a run of one step", 2, 1)
	next := e.claim(t, 1)[0]
	if next.Run != 1 {
		t.Errorf("run %d, want the next one", next.Run)
	}
	expect("claiming the next run", 1, 1)
	if err := e.holder.Acknowledge(t.Context(), next.Lease, execution.Outcome{Kind: execution.Suspended}); err != nil {
		t.Fatal(err)
	}
	expect("a suspension in a later run", 1, 0)
}

// What many executions and many events cost.
func TestRequestsOfMany(t *testing.T) {
	e := newEngine(t)
	e.counts.Reset()
	e.admitMany(t, "x", 10_000)
	e.expect(t, "10,000 admissions at once", 81, 0)
	d := e.claim(t, 1)[0]
	e.counts.Reset()
	for range 1000 {
		e.send(t, d.ID)
	}
	e.expect(t, "1,000 events", 1000, 1000)
	e.receive(t, d, 100)
	e.expect(t, "applying 100 of 1,000 events", 100, 101)
	if _, err := e.executions.Get(t.Context(), d.ID); err != nil {
		t.Fatal(err)
	}
	e.expect(t, "a look at it", 0, 2)
}

// Renewals write nothing: an idle dispatcher leaves etcd's revision alone.
func TestRenewalsCreateNoRevision(t *testing.T) {
	e := newEngine(t)
	e.admit(t, "x", 1)
	e.claim(t, 1)
	revision := func() int64 {
		res, err := testetcd.Client(t).Get(t.Context(), "revision")
		if err != nil {
			t.Fatal(err)
		}
		return res.Header.Revision
	}
	e.counts.Reset()
	before := revision()
	for range 10 {
		if _, _, err := e.holder.KeepAlive(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := revision(); after != before {
		t.Errorf("%d revisions for 10 renewals", after-before)
	}
	if e.counts.KeepAlives.Load() != 10 || e.counts.Total() != 10 {
		t.Errorf("10 renewals: %v", e.counts)
	}
}
