package integration_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// The cases of TestStoreConnector that are about waiters and wakes.

// A commit that touches what a waiter has read wakes it once and takes its registration;
// one that does not leaves both.
func intersectingWakeConsumed(s *shelf) {
	snap := s.create(first, `{"title":"t","items":["a"],"count":0}`)
	items, count := s.admit("items"), s.admit("count")
	s.register(s.Client, first, items, snap.At(), stores.Path{"items", int64(0)}, stores.Path{"title"})
	s.register(s.Client, first, count, snap.At(), stores.Path{"count"})
	s.register(s.Client, first, foreign("pulls"), snap.At(), stores.Path{"items"})
	s.register(s.Client, first, foreign("reads-nothing"), snap.At())
	s.register(s.Client, first, foreign("other-type"), snap.At(), stores.Path{"items", "0"})
	for range 2 { // the second finds nobody whom it concerns
		s.commit(first, `{"title":"t","items":["b"],"count":0}`, stores.Path{"items", int64(0), "deep"})
		if s.wakes("items") != 1 || s.wakes("count") != 0 {
			s.t.Errorf("woken %d and %d times", s.wakes("items"), s.wakes("count"))
		}
		if ids := s.pending(s.Client); !slices.Equal(ids, []string{"pulls"}) {
			s.t.Errorf("to pull: %q", ids)
		}
		if n := s.count(s.space.Waiters()); n != 3 {
			s.t.Errorf("%d waiters", n)
		}
	}
	s.commit(first, `null`, stores.Path{}) // the root: whoever has read anything
	if n := s.count(s.space.Waiters()); n != 1 || s.wakes("count") != 1 || s.count(s.space.Outbox()) != 0 {
		s.t.Errorf("%d waiters; woken %d times", n, s.wakes("count"))
	}
}

// There, proxies see the paths of what an updater does; here the documents before and
// after are compared. Replacing the state, claiming in a take and cutting out of a list
// name all that differs for a reader, and no more.
func replacementClaimSplicePaths(s *shelf) {
	ctx := s.t.Context()
	h := s.handle(first)
	readers := map[execution.ID]stores.Path{
		"title": {"title"}, "count": {"count"}, "items": {"items"}, "length": {"items", "length"},
		"item-0": {"items", int64(0)}, "item-1": {"items", int64(1)}, "item-2": {"items", int64(2)},
	}
	for id := range readers {
		s.admit(id)
	}
	for _, c := range []struct {
		what   string
		change func() error
		woken  []execution.ID
	}{
		{"replacement by the like", func() error {
			_, err := h.Update(ctx, func(b *box) error { *b = box{Title: "t", Items: []string{"a", "b", "c"}}; return nil })
			return err
		}, nil},
		{"replacement", func() error {
			_, err := h.Update(ctx, func(b *box) error { *b = box{Title: "u", Items: []string{"a", "x", "c"}}; return nil })
			return err
		}, []execution.ID{"item-1", "items", "title"}},
		{"claim", func() error {
			_, err := store.TakeNow(ctx, h, func(b box) (*string, bool) { return &b.Items[2], true }, func(b *box, item *string) error {
				*item, b.Count = "claimed", 1
				return nil
			})
			return err
		}, []execution.ID{"count", "item-2", "items"}},
		{"splice", func() error {
			_, err := h.Update(ctx, func(b *box) error { b.Items = slices.Delete(b.Items, 1, 2); return nil })
			return err
		}, []execution.ID{"item-1", "item-2", "items", "length"}},
		{"append", func() error {
			_, err := h.Update(ctx, func(b *box) error { b.Items = append(b.Items, "d"); return nil })
			return err
		}, []execution.ID{"item-2", "items", "length"}},
	} {
		_, err := h.GetOrCreate(ctx, box{Title: "t", Items: []string{"a", "b", "c"}})
		s.must(err)
		seen := s.read(first).At()
		before := map[execution.ID]int{}
		for id, path := range readers {
			before[id] = s.wakes(id)
			kv, _ := s.key(s.space.State(string(id)))
			s.register(s.Client, first, execution.StepID{Execution: id, Incarnation: kv.Created, Step: "step"}, seen, path)
		}
		s.must(c.change())
		var woken []execution.ID
		for id := range readers {
			if s.wakes(id) > before[id] {
				woken = append(woken, id)
			}
		}
		slices.Sort(woken)
		if !slices.Equal(woken, c.woken) {
			s.t.Errorf("%s woke %q, want %q", c.what, woken, c.woken)
		}
	}
}

// Whoever registers with what is not there any more (another version, another instance,
// no store) is woken at once, and not kept.
func staleRegistration(s *shelf) {
	ctx := s.t.Context()
	snap := s.create(first, "0")
	if s.register(s.Client, first, foreign("in-time"), snap.At(), stores.Path{}) {
		s.t.Error("a registration in time is stale")
	}
	s.must(s.Unregister(ctx, first, foreign("in-time")))
	s.commit(first, "1", stores.Path{"title"})
	late := func(id execution.ID, at stores.Version) {
		s.t.Helper()
		step := s.admit(id)
		if !s.register(s.Client, first, step, at, stores.Path{"count"}) || !s.register(s.Client, first, foreign(id), at, stores.Path{"count"}) {
			s.t.Errorf("%q is kept", id)
		}
		if s.wakes(id) != 1 {
			s.t.Errorf("%q was woken %d times", id, s.wakes(id))
		}
		s.settled()
	}
	late("version", snap.At())
	if ids := s.pending(s.Client); !slices.Equal(ids, []string{"version"}) {
		s.t.Errorf("to pull: %q", ids)
	}
	s.must(s.Delete(ctx, first))
	late("gone", snap.At())
	if ids := s.pending(s.Client); !slices.Equal(ids, []string{"gone"}) {
		s.t.Errorf("to pull: %q", ids)
	}
	s.create(first, "0")
	late("instance", snap.At())
	if ids := s.pending(s.Client); !slices.Contains(ids, "instance") {
		s.t.Errorf("to pull: %q", ids)
	}
}

// A registration whose answer was lost is sent again when a commit that does not concern
// it has come: it is stale by its version, whatever the commit has changed. It is woken,
// and its first registration does not stay.
func staleRetryAfterUnrelatedCommit(s *shelf) {
	snap := s.create(first, `{"title":"t","count":0}`)
	step := s.admit("x")
	for _, by := range []execution.StepID{step, foreign("pulls")} {
		if s.register(s.Client, first, by, snap.At(), stores.Path{"title"}) {
			s.t.Fatal("stale at once")
		}
	}
	s.commit(first, `{"title":"t","count":1}`, stores.Path{"count"})
	if s.wakes("x") != 0 || s.count(s.space.Waiters()) != 2 {
		s.t.Fatalf("woken %d times; %d waiters", s.wakes("x"), s.count(s.space.Waiters()))
	}
	for _, by := range []execution.StepID{step, foreign("pulls")} {
		if !s.register(s.Client, first, by, snap.At(), stores.Path{"title"}) {
			s.t.Errorf("%q: the retry is kept", by.Execution)
		}
	}
	if ids := s.pending(s.Client); s.wakes("x") != 1 || !slices.Equal(ids, []string{"pulls"}) {
		s.t.Errorf("woken %d times; to pull: %q", s.wakes("x"), ids)
	}
	s.settled()
	s.commit(first, `{"title":"u","count":1}`, stores.Path{"title"})
	if ids := s.pending(s.Client); s.wakes("x") != 1 || len(ids) != 1 {
		s.t.Errorf("woken %d times; to pull: %q", s.wakes("x"), ids)
	}
}

// Registrations and commits of two processes, all at once: in whichever order etcd takes
// them, each who registers is either told that it is late, or woken by the commit; and a
// commit that slips in between a look and its registration makes that one late.
func registerCommitRace(s *shelf) {
	ctx := s.t.Context()
	snap, step := s.create(first, "0"), s.admit("gap")
	key := s.space.Waiter(keyspace.StoreKey{Name: first.Name, ID: first.ID}, keyspace.CallKey{ID: "gap", Incarnation: step.Incarnation, Step: step.Step})
	came := false
	gap := s.peer(&testetcd.Hook{Store: s.store, BeforeTxn: func(txn *etcd.Txn) error {
		if !came && writes(txn, key) {
			came = true
			s.commit(first, "1", stores.Path{})
		}
		return nil
	}})
	if !s.register(gap, first, step, snap.At(), stores.Path{}) || s.wakes("gap") != 1 || !came {
		s.t.Errorf("the gap: woken %d times", s.wakes("gap"))
	}
	peers := []*stores.Client{s.peer(s.store), s.peer(s.store)}
	stale := 0
	const rounds, waiters = 15, 4
	for round := range rounds {
		now := s.read(first).At()
		var group sync.WaitGroup
		var mu sync.Mutex
		for i := range waiters {
			group.Go(func() {
				w := stores.Waiter{
					Store: first, Step: foreign(execution.ID(fmt.Sprint(round, "-", i))), Instance: now.Instance, Since: now.Version,
					Reads: stores.Paths{{}}, Event: []byte(event("racer")),
				}
				late, err := peers[0].Register(ctx, w)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					s.t.Error(err)
				}
				if late {
					stale++
				}
			})
		}
		group.Go(func() {
			if _, err := peers[1].Update(ctx, first, nil, "update", set("1", "null", stores.Path{})); err != nil {
				s.t.Error(err)
			}
		})
		group.Wait()
		if got := len(s.pending(s.Client)); got != (round+1)*waiters {
			s.t.Fatalf("round %d: %d wakes, want %d", round, got, (round+1)*waiters)
		}
	}
	s.settled()
	s.t.Logf("%d of %d were late", stale, rounds*waiters)
}

// A wake that fails hinders no other, does not fail the commit that owes it, and stays
// owed until it is delivered.
func failedWakeIsolation(s *shelf) {
	snap := s.create(first, "0")
	ids := []execution.ID{"a", "b", "unreachable", "c", "d"}
	for _, id := range ids {
		s.register(s.Client, first, s.admit(id), snap.At(), stores.Path{})
	}
	s.register(s.Client, first, foreign("pulls"), snap.At(), stores.Path{})
	s.reach("unreachable", false)
	s.commit(first, "1", stores.Path{})
	for _, id := range ids {
		if want := map[bool]int{true: 1}[id != "unreachable"]; s.wakes(id) != want {
			s.t.Errorf("%q was woken %d times", id, s.wakes(id))
		}
	}
	if got := s.pending(s.Client); !slices.Equal(got, []string{"pulls"}) {
		s.t.Errorf("to pull: %q", got)
	}
	// The execution waits anew, for another change; the wake that is owed takes nothing
	// from that.
	kv, _ := s.key(s.space.State("unreachable"))
	again := execution.StepID{Execution: "unreachable", Incarnation: kv.Created, Step: "step"}
	s.register(s.Client, first, again, s.read(first).At(), stores.Path{"title"})
	s.reach("unreachable", true)
	s.commit(first, "2", stores.Path{"count"})
	if s.wakes("unreachable") != 1 || s.count(s.space.Waiters()) != 1 || s.count(s.space.Outbox()) != 0 {
		s.t.Errorf("woken %d times; %d waiters", s.wakes("unreachable"), s.count(s.space.Waiters()))
	}
	s.commit(first, "3", stores.Path{"title"})
	if s.wakes("unreachable") != 2 {
		s.t.Errorf("woken %d times", s.wakes("unreachable"))
	}
	s.settled()
}

// What a store owes when it is deleted is owed by nobody: it is not delivered by the
// store that is created with its name, nor does that one know the waiters.
func noTransferToRecreated(s *shelf) {
	ctx := s.t.Context()
	old := s.create(first, "0")
	owed, waiting := s.admit("owed"), s.admit("waiting")
	s.reach("owed", false)
	s.register(s.Client, first, owed, old.At(), stores.Path{})
	s.commit(first, "1", stores.Path{})
	s.register(s.Client, first, waiting, s.read(first).At(), stores.Path{})
	untold := s.dying(first)
	_, err := untold.Update(ctx, first, nil, "update", set("2", "null", stores.Path{}))
	s.must(err)
	if s.count(s.space.AllOwed()) != 1 || s.count(s.space.AllChanges()) != 1 || s.count(s.space.Waiters()) != 1 {
		s.t.Fatal("there is nothing to be lost")
	}
	s.must(s.Delete(ctx, first))
	s.settled()
	later := s.create(first, "0")
	s.reach("owed", true)
	fresh := s.admit("fresh")
	s.register(s.Client, first, fresh, later.At(), stores.Path{})
	for range 3 {
		s.commit(first, "1", stores.Path{})
		s.must(s.Drain(ctx, first))
	}
	if s.wakes("owed")+s.wakes("waiting") != 0 || s.wakes("fresh") != 1 {
		s.t.Errorf("woken %d, %d and %d times", s.wakes("owed"), s.wakes("waiting"), s.wakes("fresh"))
	}
	// A registration of the old instance is stale, and waits for nothing of the new one.
	if !s.register(s.Client, first, waiting, old.At(), stores.Path{}) || s.wakes("waiting") != 1 {
		s.t.Errorf("woken %d times", s.wakes("waiting"))
	}
	s.settled()
}

// Two processes share the stores: what one writes the other reads, and its waiters are
// woken by either. One dies between a commit and its wakes; a process that starts
// afterwards finds them, and the executions that waited become claimable.
func peersAndRestart(s *shelf) {
	ctx := s.t.Context()
	one, two := s.peer(s.store), s.peer(s.store)
	made, err := one.Create(ctx, first, func() ([]byte, error) { return []byte("0"), nil })
	s.must(err)
	for version := int64(1); version <= 6; version++ {
		c := []*stores.Client{one, two}[version%2]
		_, err := c.Update(ctx, first, nil, "update", set(fmt.Sprint(version), "null"))
		s.must(err)
		for _, reader := range []*stores.Client{one, two} {
			if got, err := reader.Get(ctx, first); err != nil || got.Instance != made.Instance || got.Version != version || string(got.State) != fmt.Sprint(version) {
				s.t.Errorf("read %+v, %v; want version %d", got, err, version)
			}
		}
	}
	step := s.suspended("sleeper")
	s.register(one, first, step, s.read(first).At(), stores.Path{})
	s.register(one, first, foreign("pulls"), s.read(first).At(), stores.Path{})
	by := s.admit("committer")
	_, err = s.dying(first).Update(ctx, first, &by, "update", set("7", `"seven"`, stores.Path{}))
	s.must(err)
	if s.wakes("sleeper") != 0 {
		s.t.Fatal("it did not die")
	}
	restarted := s.peer(s.store)
	running, stop := context.WithTimeout(ctx, patience)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- restarted.Run(running) }()
	if !s.becomesClaimable(running, "sleeper") {
		s.t.Error("the execution that waited was not woken")
	}
	stop()
	s.must(<-ended)
	if res, err := restarted.Update(ctx, first, &by, "update", s.uncalled); err != nil || string(res.Raw) != `"seven"` {
		s.t.Errorf("the step again: %+v, %v", res, err)
	}
	for range 2 { // pulled, and pulled again after another restart
		if ids := s.pending(s.peer(s.store)); !slices.Equal(ids, []string{"pulls"}) {
			s.t.Errorf("to pull: %q", ids)
		}
	}
	wakes, err := restarted.Pending(ctx)
	s.must(err)
	s.must(two.AckWake(ctx, wakes[0].ID))
	if ids := s.pending(one); len(ids) != 0 {
		s.t.Errorf("to pull after the acknowledgement: %q", ids)
	}
	s.settled()
}

// suspended returns a step of an execution that was delivered and waits.
func (s *shelf) suspended(id execution.ID) execution.StepID {
	s.t.Helper()
	step := s.admit(id)
	ds, err := s.main.ClaimDue(s.t.Context(), execution.ClaimRequest{Now: time.Now(), Limit: 1, Duration: longLease})
	s.must(err)
	if len(ds) != 1 || ds[0].ID != id {
		s.t.Fatalf("claimed %+v", ds)
	}
	s.must(s.main.Acknowledge(s.t.Context(), ds[0].Lease, execution.Outcome{Kind: execution.Suspended}))
	return step
}

// becomesClaimable claims until it is given the execution, or ctx ends.
func (s *shelf) becomesClaimable(ctx context.Context, id execution.ID) bool {
	s.t.Helper()
	for ; ; wait(ctx, 20*time.Millisecond) {
		ds, err := s.main.ClaimDue(s.t.Context(), execution.ClaimRequest{Now: time.Now(), Limit: 10, Duration: longLease})
		s.must(err)
		if slices.ContainsFunc(ds, func(d execution.Delivery) bool { return d.ID == id }) {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
	}
}

// wait waits for so long, or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
