package stores_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// to makes an update whose state and result are the given ones.
func to(state, result string) func(stores.Snapshot) (*stores.Mutation, error) {
	return func(stores.Snapshot) (*stores.Mutation, error) {
		return &stores.Mutation{State: []byte(state), Result: []byte(result), Changed: everything}, nil
	}
}

func never(t *testing.T) func(stores.Snapshot) (*stores.Mutation, error) {
	t.Helper()
	return func(stores.Snapshot) (*stores.Mutation, error) {
		t.Error("the updater was called")
		return nil, errRefused
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.create(counter, "1")
	const state, result = "{ \"z\" : 1.50,\n\"a\":\"\\u00e9🙂\" }", "\n[12345678901234567890123, 1.0 ]"
	nextState, nextResult := []byte(state), []byte(result)
	res, err := b.Update(t.Context(), counter, nil, "update", func(s stores.Snapshot) (*stores.Mutation, error) {
		if string(s.State) != "1" || s.At() != first.At() {
			t.Errorf("the updater was given %+v", s)
		}
		s.State[0] = '9' // the updater's own
		return &stores.Mutation{State: nextState, Result: nextResult}, nil
	})
	if err != nil || string(res.Raw) != result || res.Repeated || res.Missed {
		t.Fatalf("got %+v, %v", res, err)
	}
	nextState[0], nextResult[0] = '!', '!' // what was supplied is the caller's
	got := b.get(counter)
	if string(res.Raw) != result {
		t.Fatalf("returned %q", res.Raw)
	}
	if string(got.State) != state || got.Instance != first.Instance || got.Version != 1 {
		t.Fatalf("stored %+v", got)
	}
	for want := int64(2); want < 12; want++ {
		_, err := b.Update(t.Context(), counter, nil, "update", to("0", "0"))
		if got := b.get(counter); err != nil || got.Version != want || got.Instance != first.Instance {
			t.Fatalf("got %+v, %v; want version %d", got, err, want)
		}
	}
	if _, rec := b.stored(counter); len(rec.Recent) != 8 {
		t.Fatalf("%d nonces are kept", len(rec.Recent))
	}
}

// A miss changes nothing and leaves no receipt, so that the step may try again.
func TestMissChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	snap, s := b.create(counter, "1"), step("x")
	before := b.dump()
	res, err := b.Update(t.Context(), counter, &s, "take", func(seen stores.Snapshot) (*stores.Mutation, error) {
		seen.State[0] = '9' // the updater's own
		return nil, nil     //nolint:nilnil // a miss
	})
	if err != nil || !res.Missed || res.Snapshot.At() != snap.At() || string(res.Snapshot.State) != "1" || res.Raw != nil {
		t.Fatalf("got %+v, %v", res, err)
	}
	b.unchanged(before)
	if res, err = b.Update(t.Context(), counter, &s, "take", add(1)); err != nil || res.Missed || res.Repeated || string(res.Raw) != "2" {
		t.Fatalf("then it matches: %+v, %v", res, err)
	}
}

// Two commits come in between, one after the other; the updater is run on what each has
// left.
func TestUpdaterRunsOnceForEachRace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	race := then(func() { b.add(counter, 10) })
	peer := b.peer(b.before(b.space.Store(storeKey(counter)), race, race))
	var seen []string
	res, err := peer.Update(t.Context(), counter, nil, "update", func(s stores.Snapshot) (*stores.Mutation, error) {
		seen = append(seen, fmt.Sprintf("%s@%d", s.State, s.Version))
		return add(1)(s)
	})
	if got := b.get(counter); err != nil || string(res.Raw) != "21" || got.Version != 3 || fmt.Sprint(seen) != "[0@0 10@1 20@2]" {
		t.Fatalf("got %s, %v; stored %+v; the updater saw %v", res.Raw, err, got, seen)
	}
}

func TestManyUpdateAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	clients := []*stores.Client{b.Client, b.peer(b.store), b.peer(b.store)}
	const callers, times = 12, 8
	var group sync.WaitGroup
	var mu sync.Mutex
	sums := map[string]bool{}
	for i := range callers {
		group.Go(func() {
			for j := range times {
				s := execution.StepID{Execution: execution.ID(fmt.Sprint("x", i)), Step: fmt.Sprint(j)}
				res, err := clients[i%len(clients)].Update(t.Context(), counter, &s, "update", add(1))
				if err != nil || res.Repeated {
					t.Error(res, err)
				}
				mu.Lock()
				sums[string(res.Raw)] = true
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if got := b.get(counter); string(got.State) != fmt.Sprint(callers*times) || got.Version != callers*times || len(sums) != callers*times {
		t.Fatalf("stored %s at version %d; %d different sums", got.State, got.Version, len(sums))
	}
	if got := len(b.keys(b.space.Receipts())); got != callers*times {
		t.Fatalf("%d receipts", got)
	}
}

func TestUpdateRefuses(t *testing.T) {
	t.Parallel()
	text := func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }
	invalid := func(what string) func(error) bool {
		return func(err error) bool {
			bad, is := errors.AsType[*execution.InvalidError](err)
			return is && bad.What == what
		}
	}
	good := step("x")
	for _, c := range []struct {
		name   string
		key    execution.StoreID
		step   execution.StepID
		change func(stores.Snapshot) (*stores.Mutation, error)
		want   func(error) bool
	}{
		{"no name", execution.StoreID{ID: "x"}, good, never(t), invalid("store name")},
		{"a NUL in the id", execution.StoreID{Name: "x", ID: "\x00"}, good, never(t), invalid("store id")},
		{"no execution", counter, execution.StepID{Step: "s"}, never(t), invalid("execution id")},
		{"no step", counter, execution.StepID{Execution: "x"}, never(t), invalid("step key")},
		{"a negative incarnation", counter, execution.StepID{Execution: "x", Step: "s", Incarnation: -1}, never(t), invalid("incarnation")},
		{"no store", execution.StoreID{Name: "counter", ID: "two"}, good, never(t), func(err error) bool { return errors.Is(err, execution.ErrNotFound) }},
		{"an error", counter, good, func(stores.Snapshot) (*stores.Mutation, error) { return nil, errRefused }, func(err error) bool { return errors.Is(err, errRefused) }},
		{"a mutation with an error", counter, good, func(s stores.Snapshot) (*stores.Mutation, error) {
			m, _ := add(1)(s)
			return m, errRefused
		}, func(err error) bool { return errors.Is(err, errRefused) }},
		{"a state that is no JSON", counter, good, to("{", "1"), invalid("state")},
		{"no state", counter, good, to("", "1"), invalid("state")},
		{"a result that is no JSON", counter, good, to("1", "nul"), invalid("result")},
		{"a state that is too large", counter, good, to(text(execution.MaxPayloadBytes+1), "1"), invalid("state")},
		{"a result that is too large", counter, good, to("1", text(execution.MaxPayloadBytes+1)), invalid("result")},
		{"too large together", counter, good, to(text(1<<20), text(1<<18+1)), invalid("state")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.create(counter, "1")
			before := b.dump()
			if res, err := b.Update(t.Context(), c.key, &c.step, "update", c.change); !c.want(err) {
				t.Fatalf("got %+v, %v", res, err)
			}
			if c.step == good && c.key == counter {
				from := b.get(counter).At()
				if res, err := b.Commit(t.Context(), c.key, &c.step, "updateFrom", from, c.change); !c.want(err) {
					t.Fatalf("from a snapshot: got %+v, %v", res, err)
				}
			}
			b.unchanged(before)
		})
	}
}

// The largest state, with the largest result that goes with it and the longest names,
// fits into etcd's transaction.
func TestLargestCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	name := strings.Repeat("\x01", execution.MaxNameBytes)
	key := execution.StoreID{Name: name, ID: name}
	s := execution.StepID{Execution: execution.ID(name), Step: name}
	b.create(key, "1")
	b.wait(s, key, `"event"`)
	var changed stores.Paths
	for range 64 { // as JSON six times as long as the names
		changed = append(changed, stores.Path{strings.Repeat("\x01", 1000)})
	}
	state, result := `"`+strings.Repeat("s", 1<<20-2)+`"`, `"`+strings.Repeat("r", 1<<18-2)+`"`
	res, err := b.Update(t.Context(), key, &s, "update", func(stores.Snapshot) (*stores.Mutation, error) {
		return &stores.Mutation{State: []byte(state), Result: []byte(result), Changed: changed}, nil
	})
	if err != nil || string(res.Raw) != result || string(b.get(key).State) != state {
		t.Fatal(err)
	}
	wakes, err := b.Pending(t.Context())
	if err != nil || len(wakes) != 1 {
		t.Fatalf("%d wakes, %v", len(wakes), err)
	}
}

func TestManyPathsWakeEverybody(t *testing.T) {
	t.Parallel()
	many := make(stores.Paths, 5000)
	for i := range many {
		many[i] = stores.Path{int64(i)}
	}
	long := stores.Paths{{strings.Repeat("x", 70<<10)}}
	for name, changed := range map[string]stores.Paths{"many paths": many, "a long path": long} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			snap, s := b.create(counter, "1"), step("x")
			w := waiter(s, counter, snap, `"event"`)
			w.Reads = stores.Paths{{"elsewhere"}}
			if stale, err := b.Register(t.Context(), w); stale || err != nil {
				t.Fatal(stale, err)
			}
			_, err := b.Update(t.Context(), counter, nil, "update", func(stores.Snapshot) (*stores.Mutation, error) {
				return &stores.Mutation{State: []byte("2"), Result: []byte("2"), Changed: changed}, nil
			})
			b.must(err)
			if wakes, err := b.Pending(t.Context()); err != nil || len(wakes) != 1 {
				t.Fatalf("%d wakes, %v", len(wakes), err)
			}
		})
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	zero, s := b.create(counter, "1"), step("x")
	done, err := b.Commit(t.Context(), counter, &s, "updateFrom", zero.At(), add(1))
	if err != nil || done.Status != stores.Committed || string(done.Result) != "2" {
		t.Fatalf("at its version: %+v, %v", done, err)
	}
	one, before := b.get(counter), b.dump()
	for name, at := range map[string]stores.Version{
		"an older version":          zero.At(),
		"a later version":           {Instance: zero.Instance, Version: 2},
		"another instance":          {Instance: "0-0", Version: 1},
		"another instance, older":   {Instance: "0-0"},
		"a version below the first": {Instance: zero.Instance, Version: -1},
	} {
		other := step("y")
		done, err := b.Commit(t.Context(), counter, &other, "updateFrom", at, never(t))
		if err != nil || done.Status != stores.Conflict || done.Current.At() != one.At() || string(done.Current.State) != "2" || done.Result != nil {
			t.Fatalf("%s: %+v, %v", name, done, err)
		}
	}
	if done, err = b.Commit(t.Context(), counter, &s, "updateFrom", one.At(), never(t)); err != nil || done.Status != stores.AlreadyApplied || string(done.Result) != "2" {
		t.Fatalf("again: %+v, %v", done, err)
	}
	b.unchanged(before)
}

// Somebody commits after the updater has run: that is a conflict, and it is not tried
// again.
func TestCommitThatLosesALateRace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	snap, runs := b.create(counter, "0"), 0
	peer := b.peer(b.before(b.space.Store(storeKey(counter)), then(func() { b.add(counter, 10) })))
	s := step("x")
	done, err := peer.Commit(t.Context(), counter, &s, "updateFrom", snap.At(), func(s stores.Snapshot) (*stores.Mutation, error) {
		runs++
		return add(1)(s)
	})
	if err != nil || done.Status != stores.Conflict || runs != 1 || done.Current.Version != 1 || string(done.Current.State) != "10" {
		t.Fatalf("got %+v, %v; %d runs", done, err, runs)
	}
	b.none(b.space.Receipts())
}

// Of what is wrong at once, the first in the order is the answer: receipt, missing
// instance, missing store, version.
func TestRulesInTheirOrder(t *testing.T) {
	t.Parallel()
	missing := func(err error) bool {
		_, is := errors.AsType[*execution.InvalidError](err)
		return is && strings.Contains(err.Error(), "missing instanceId")
	}
	for _, c := range []struct {
		name            string
		receipt, there  bool
		instance        string
		commit, deleted func(error, string) bool
	}{
		{
			"a receipt, no instance, no store", true, false, "",
			func(err error, s string) bool { return err == nil && s == "already-applied" },
			func(err error, s string) bool { return err == nil && s == "deleted" },
		},
		{
			"no instance, no store", false, false, "",
			func(err error, _ string) bool { return missing(err) },
			func(err error, _ string) bool { return missing(err) },
		},
		{
			"no instance", false, true, "",
			func(err error, _ string) bool { return missing(err) },
			func(err error, _ string) bool { return missing(err) },
		},
		{
			"no store", false, false, "0-0",
			func(err error, _ string) bool { return errors.Is(err, execution.ErrNotFound) },
			func(err error, s string) bool { return err == nil && s == stores.ReasonNotFound },
		},
		{
			"another instance", false, true, "0-0",
			func(err error, s string) bool { return err == nil && s == "conflict" },
			func(err error, s string) bool { return err == nil && s == stores.ReasonConflict },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s, other, snap := step("x"), step("y"), b.create(counter, "1")
			if c.receipt {
				_, err := b.Commit(t.Context(), counter, &s, stores.KindUpdateFrom, snap.At(), add(1))
				b.must(err)
				_, err = b.DeleteFrom(t.Context(), counter, &other, b.get(counter).At())
				b.must(err)
			}
			if !c.there {
				b.must(b.Delete(t.Context(), counter))
			}
			before, at := b.dump(), stores.Version{Instance: c.instance, Version: 7}
			done, err := b.Commit(t.Context(), counter, &s, "updateFrom", at, never(t))
			if !c.commit(err, string(done.Status)) {
				t.Errorf("commit: %+v, %v", done, err)
			}
			deletion, err := b.DeleteFrom(t.Context(), counter, &other, at)
			if outcome := deletion.Reason; !c.deleted(err, map[bool]string{true: "deleted", false: outcome}[deletion.Deleted]) {
				t.Errorf("deletion: %+v, %v", deletion, err)
			}
			b.unchanged(before)
		})
	}
}

// A store whose record can't be read is not overwritten.
func TestUnreadableStoreIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := b.space.Store(storeKey(counter))
	b.txn(etcd.Put{Key: key, Value: []byte("?")})
	before := b.dump()
	_, getErr := b.Get(t.Context(), counter)
	_, updateErr := b.Update(t.Context(), counter, nil, "update", never(t))
	_, createErr := b.Create(t.Context(), counter, func() ([]byte, error) { return []byte("1"), nil })
	_, deletionErr := b.DeleteFrom(t.Context(), counter, nil, stores.Version{Instance: "0-0"})
	_, registerErr := b.Register(t.Context(), waiter(step("x"), counter, stores.Snapshot{Instance: "0-0"}, ""))
	for _, err := range []error{getErr, updateErr, createErr, deletionErr, registerErr} {
		if err == nil || errors.Is(err, execution.ErrNotFound) || !strings.Contains(err.Error(), key) {
			t.Errorf("got %v, which does not name key %q", err, key)
		}
	}
	b.unchanged(before)
}
