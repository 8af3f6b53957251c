package integration_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// TestField replays what went wrong in engines in the field, each under the number
// that it has in the list of such cases.
func TestField(t *testing.T) {
	for _, c := range []struct {
		name string
		run  trace
	}{
		{"B77", fieldDeletedExecutionComesBack},
		{"B83", fieldEffectWithUnknownOutcome},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, onEmbedded)
		})
	}
}

// tally is the store of these tests.
var tally = execution.StoreID{Name: "tally", ID: "all/of them"}

// stores returns a client of the namespace's stores.
func (s *stage) stores() *stores.Client {
	s.t.Helper()
	c, err := stores.New(stores.Config{Store: s.store, Space: s.space, Wake: func(ctx context.Context, step execution.StepID) error {
		return s.RequestWake(ctx, step.Execution, time.Now())
	}})
	s.must(err)
	return c
}

// add adds one to the tally in the name of the lease's step.
func (s *stage) add(l execution.Lease) (stores.Result, error) {
	s.t.Helper()
	step := stepOf(l, "add")
	return s.stores().Update(s.t.Context(), tally, &step, "update", func(seen stores.Snapshot) (*stores.Mutation, error) {
		n, err := strconv.Atoi(string(seen.State))
		next := []byte(strconv.Itoa(n + 1))
		return &stores.Mutation{State: next, Changed: stores.Paths{{}}, Result: next}, err
	})
}

func stepOf(l execution.Lease, step string) execution.StepID {
	return execution.StepID{Execution: l.ID, Incarnation: l.Incarnation, Run: l.Run, Step: step}
}

// await records that the step waits at the tally, and registers it there.
func (s *stage) await(l execution.Lease) {
	s.t.Helper()
	_, err := s.WriteStep(s.t.Context(), l, execution.StepWrite{Key: "wait", Response: []byte(`1`), Waiter: &tally})
	s.must(err)
	armed, err := s.arm(l)
	s.must(err)
	if !armed.Armed {
		s.t.Fatalf("%+v, want it armed", armed)
	}
}

func (s *stage) arm(l execution.Lease) (stores.Arming, error) {
	s.t.Helper()
	c := s.stores()
	seen, err := c.Get(s.t.Context(), tally)
	s.must(err)
	return c.Arm(s.t.Context(), stores.Waiter{
		Store: tally, Step: stepOf(l, "wait"), Instance: seen.Instance, Since: seen.Version, Reads: stores.Paths{{}}, Workflow: suiteWorkflow,
	}, 1)
}

// all renders the namespace's keys with their revisions, but for those of processes.
func (s *stage) all() string {
	s.t.Helper()
	var b strings.Builder
	for _, kv := range s.kvs() {
		if k, err := s.space.Parse(kv.Key); err != nil || k.Kind != keyspace.KindProc {
			fmt.Fprintf(&b, "%s at %d\n", kv.Key, kv.Modified)
		}
	}
	return b.String()
}

func (s *stage) kvs() []etcd.KV {
	s.t.Helper()
	span := s.space.All()
	res, _, err := s.store.Get(s.t.Context(), etcd.Get{Key: span.Start, End: span.End})
	s.must(err)
	return res.KVs
}

// nothingOf demands that no key belongs to the id, but for what tells its holder.
func (s *stage) nothingOf(id execution.ID) {
	s.t.Helper()
	for _, kv := range s.kvs() {
		if k, err := s.space.Parse(kv.Key); err != nil || k.ID == string(id) && k.Kind != keyspace.KindEvict {
			s.t.Errorf("key %q is left, %v", kv.Key, err)
		}
	}
}

// refusedWhole demands that all that the holder of the lease can do is lost, and
// changes no key of anybody.
func (s *stage) refusedWhole(l execution.Lease) {
	s.t.Helper()
	before := s.all()
	s.allLost(l)
	_, err := s.add(l)
	s.lost(err)
	_, err = s.arm(l)
	s.lost(err)
	if after := s.all(); after != before {
		s.t.Errorf("refused writes changed\n%s\nto\n%s", before, after)
	}
}

// An execution is deleted while its holder is in the middle of a step; the holder then
// comes back with the step's result. Its id is used again, by an execution that has
// nothing of the first: no step, no receipt, no registration, no result.
func fieldDeletedExecutionComesBack(t *testing.T, th theatre) {
	s := th.stage(t)
	_, err := s.stores().Create(t.Context(), tally, func() ([]byte, error) { return []byte(`0`), nil })
	s.must(err)
	old := s.begin("order")
	s.step(old.Lease, "charge")
	if _, err = s.add(old.Lease); err != nil {
		t.Fatal(err)
	}
	s.await(old.Lease)
	holder := s.caller(before(s.stepKey(old.Lease, "late"), func() {
		s.must(s.Cancel(t.Context(), "order", "by an operator"))
		s.must(s.Delete(t.Context(), "order"))
	}))
	_, err = holder.WriteStep(t.Context(), old.Lease, stepWrite("late"))
	s.lost(err)
	s.nothingOf("order")
	s.refusedWhole(old.Lease)
	if _, err := s.Get(t.Context(), "order"); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("%v, want not found", err)
	}

	s.admit("order")
	s.refusedWhole(old.Lease)
	fresh := s.claim("order")
	if !fresh.First || fresh.Incarnation == old.Incarnation || fresh.Token <= old.Token {
		t.Errorf("delivery %+v after %+v; want another incarnation, its first", fresh, old)
	}
	s.refusedWhole(old.Lease)
	if steps, err := s.Read(t.Context(), fresh.Lease); err != nil || len(steps) != 0 {
		t.Errorf("%v, %v; want no step of the deleted one", steps, err)
	}
	if r, err := s.add(fresh.Lease); err != nil || r.Repeated || string(r.Raw) != "2" {
		t.Errorf("%+v, %v; want a mutation of its own", r, err)
	}
	if kv := s.keysOf(s.space.WaitersOf(keyspace.StoreKey(tally))); len(kv) != 0 {
		t.Errorf("%q: want no registration of the deleted one", kv)
	}
	s.await(fresh.Lease)
	s.step(fresh.Lease, "charge")
	s.refusedWhole(old.Lease)
	s.complete(fresh.Lease)
	if r := s.get("order"); r.Status != execution.StatusCompleted || r.Claims != 1 {
		t.Errorf("%+v, want what its own delivery made of it", r)
	}
	s.must(s.Delete(t.Context(), "order"))
	s.nothingOf("order")
}

func (s *stage) keysOf(span keyspace.Span) (keys []string) {
	s.t.Helper()
	for _, kv := range s.kvs() {
		if kv.Key >= span.Start && kv.Key < span.End {
			keys = append(keys, kv.Key)
		}
	}
	return keys
}
