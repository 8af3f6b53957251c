package stores_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// events returns the events that wait to be pulled.
func (b *bench) events() []string {
	b.t.Helper()
	wakes, err := b.Pending(b.t.Context())
	b.must(err)
	events := make([]string, len(wakes))
	for i, w := range wakes {
		events[i] = string(w.Event)
	}
	return events
}

// A registration is kept where the store is as it was looked at. Anywhere else it is
// stale: the wake is owed at once, and the registration is not kept, nor is an earlier
// one of the same step.
func TestRegister(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		moved func(*bench)
		stale bool
	}{
		{"current", func(*bench) {}, false},
		{"a later version", func(b *bench) { b.add(counter, 1) }, true},
		{"deleted", func(b *bench) { b.must(b.Delete(b.t.Context(), counter)) }, true},
		{"another instance", func(b *bench) { b.must(b.Delete(b.t.Context(), counter)); b.create(counter, "0") }, true},
	} {
		for _, event := range []string{"", `{ "b":1,"a":"🙂" }`} {
			t.Run(fmt.Sprintf("%s, pulled: %v", c.name, event != ""), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				s := b.admit("x")
				snap := b.create(counter, "0")
				c.moved(b)
				if c.stale && c.name != "deleted" {
					b.wait(s, counter, `"earlier"`)
				}
				stale, err := b.Register(t.Context(), waiter(s, counter, snap, event))
				if err != nil || stale != c.stale {
					t.Fatalf("got %v, %v", stale, err)
				}
				if !stale {
					b.none(b.space.Outbox(), b.space.AllPulled())
					if n := len(b.keys(b.space.Waiters())); n != 1 || b.wakes.triesOf(s) != 0 {
						t.Fatalf("%d waiters, %d wakes", n, b.wakes.triesOf(s))
					}
					return
				}
				b.none(b.space.Waiters(), b.space.Outbox())
				if events := b.events(); event != "" && (len(events) != 1 || events[0] != event) || event == "" && len(events) > 0 {
					t.Fatalf("to pull: %q", events)
				}
				if want := map[bool]int{true: 1}[event == ""]; b.wakes.of(s) != want {
					t.Fatalf("%d wakes", b.wakes.of(s))
				}
			})
		}
	}
}

// The record says who waits for what since when.
func TestRegistrationsRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	snap := b.create(counter, "0")
	w := waiter(s, counter, snap, "[ 1 ]")
	w.Reads, w.Workflow = stores.Paths{{"a", int64(0)}, {"b"}}, "approval"
	for range 2 { // the second takes the first one's place
		if stale, err := b.Register(t.Context(), w); stale || err != nil {
			t.Fatal(stale, err)
		}
	}
	res, _, err := b.store.Get(t.Context(), etcd.Get{Key: b.space.Waiter(storeKey(counter), callKey(s))})
	b.must(err)
	kv, _ := res.One()
	rec, err := record.DecodeWaiter(kv.Value)
	if err != nil || rec.Instance != snap.Instance || rec.Since != 0 || string(rec.Paths) != `[["a",0],["b"]]` ||
		!rec.Pulled || rec.Workflow != "approval" || string(rec.Event) != "[ 1 ]" || rec.Registered == 0 {
		t.Fatalf("got %+v, %v", rec, err)
	}
	if n := len(b.keys(b.space.Waiters())); n != 1 {
		t.Fatalf("%d waiters", n)
	}
}

func TestRegisterRefuses(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	good := waiter(step("x"), counter, b.create(counter, "0"), "1")
	before := b.dump()
	for name, spoil := range map[string]func(*stores.Waiter){
		"store name":   func(w *stores.Waiter) { w.Store.Name = "" },
		"execution id": func(w *stores.Waiter) { w.Step.Execution = "" },
		"step key":     func(w *stores.Waiter) { w.Step.Step = "\x00" },
		"instance":     func(w *stores.Waiter) { w.Instance = "" },
		"version":      func(w *stores.Waiter) { w.Since = -1 },
		"event":        func(w *stores.Waiter) { w.Event = []byte("{") },
	} {
		w := good
		spoil(&w)
		_, registerErr := b.Register(t.Context(), w)
		_, armErr := b.Arm(t.Context(), w, 0)
		for _, err := range []error{registerErr, armErr} {
			if bad, is := errors.AsType[*execution.InvalidError](err); !is || bad.What != name {
				t.Errorf("%s: got %v", name, err)
			}
		}
	}
	w := good
	w.Event = []byte(`"` + strings.Repeat("x", execution.MaxPayloadBytes) + `"`)
	if _, err := b.Register(t.Context(), w); err == nil {
		t.Error("an event that is too large is accepted")
	}
	b.unchanged(before)
}

// The largest event goes with paths without end: of these it is kept that everything
// was read.
func TestLargestRegistration(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := waiter(step("x"), counter, b.create(counter, "0"), `"`+strings.Repeat("x", execution.MaxPayloadBytes-2)+`"`)
	w.Reads = nil
	for i := range 100_000 {
		w.Reads = append(w.Reads, stores.Path{"member", int64(i)})
	}
	if stale, err := b.Register(t.Context(), w); stale || err != nil {
		t.Fatal(stale, err)
	}
	_, err := b.Update(t.Context(), counter, nil, "update", func(stores.Snapshot) (*stores.Mutation, error) {
		return &stores.Mutation{State: []byte("1"), Result: []byte("1"), Changed: stores.Paths{{"another"}}}, nil
	})
	b.must(err)
	if events := b.events(); len(events) != 1 || events[0] != string(w.Event) {
		t.Fatalf("%d events", len(events))
	}
}

// gaps are what can happen between the look at a store and the registration (B73).
var gaps = []struct {
	name string
	do   func(*bench)
	arm  string // what a step of the engine is given: the state, or that it is gone
}{
	{"an update", func(b *bench) { b.add(counter, 1) }, "1"},
	{"two updates", func(b *bench) { b.add(counter, 1); b.add(counter, 1) }, "2"},
	{"a deletion", func(b *bench) { b.must(b.Delete(b.t.Context(), counter)) }, "gone"},
	{"a deletion and a creation", func(b *bench) { b.must(b.Delete(b.t.Context(), counter)); b.create(counter, "7") }, "7"},
	{"an update, a deletion and a creation", func(b *bench) {
		b.add(counter, 1)
		b.must(b.Delete(b.t.Context(), counter))
		b.create(counter, "7")
	}, "7"},
}

func TestNothingIsMissedBeforeARegistration(t *testing.T) {
	t.Parallel()
	for _, gap := range gaps {
		for _, pulled := range []string{"", `"event"`} {
			t.Run(fmt.Sprintf("%s, pulled: %v", gap.name, pulled != ""), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				s := b.admit("x")
				snap := b.create(counter, "0")
				peer := b.peer(b.before(b.space.Waiter(storeKey(counter), callKey(s)), then(func() { gap.do(b) })))
				stale, err := peer.Register(t.Context(), waiter(s, counter, snap, pulled))
				if err != nil || !stale {
					t.Fatalf("got %v, %v", stale, err)
				}
				if got := b.wakes.of(s) + len(b.events()); got != 1 {
					t.Fatalf("%d wakes", got)
				}
				b.none(b.space.Waiters(), b.space.Outbox())
			})
		}
	}
}

func TestNothingIsMissedBeforeArming(t *testing.T) {
	t.Parallel()
	for _, gap := range gaps {
		t.Run(gap.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s := b.admit("x")
			snap := b.create(counter, "0")
			peer := b.peer(b.before(b.space.Waiter(storeKey(counter), callKey(s)), then(func() { gap.do(b) })))
			got, err := peer.Arm(t.Context(), waiter(s, counter, snap, ""), 0)
			if gap.arm == "gone" {
				if !errors.Is(err, execution.ErrNotFound) {
					t.Fatalf("got %+v, %v", got, err)
				}
			} else if err != nil || got.Armed || got.Resolved || string(got.Current.State) != gap.arm || got.Current.At() != b.get(counter).At() {
				t.Fatalf("got %+v, %v", got, err)
			}
			// The caller, who has been told, is not woken too.
			b.none(b.space.Waiters(), b.space.Outbox(), b.space.AllPulled())
			if b.wakes.triesOf(s) > 0 {
				t.Fatal("woken")
			}
		})
	}
}

func TestArm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	snap := b.create(counter, "0")
	for range 2 {
		if got, err := b.Arm(t.Context(), waiter(s, counter, snap, ""), 1); err != nil || !got.Armed {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	b.add(counter, 1)
	if b.wakes.of(s) != 1 {
		t.Fatalf("woken %d times", b.wakes.of(s))
	}
	if got, err := b.Arm(t.Context(), waiter(s, counter, snap, ""), 1); err != nil || got.Armed || got.Resolved || got.Current.Version != 1 {
		t.Fatalf("late: %+v, %v", got, err)
	}
	b.none(b.space.Waiters())
}

// Another holder records the step's answer, before the look or after it; then nothing is
// left registered. The record of another attempt is none.
func TestArmOfAResolvedStep(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late: ", late), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			s := b.admit("x")
			w := waiter(s, counter, b.create(counter, "0"), "")
			key := func(attempt int64) string {
				return b.space.Step(keyspace.Step{ID: "x", Incarnation: s.Incarnation, Key: s.Step, Attempt: attempt})
			}
			b.txn(etcd.Put{Key: key(0)})
			resolve := func() { b.txn(etcd.Put{Key: key(1)}) }
			client := b.Client
			if late {
				client = b.peer(b.before(b.space.Waiter(storeKey(counter), callKey(s)), then(resolve)))
			} else {
				resolve()
			}
			if got, err := client.Arm(t.Context(), w, 1); err != nil || got.Armed || !got.Resolved {
				t.Fatalf("got %+v, %v", got, err)
			}
			b.none(b.space.Waiters())
			if got, err := client.Arm(t.Context(), w, 2); err != nil || !got.Armed {
				t.Fatalf("another attempt: %+v, %v", got, err)
			}
		})
	}
}

// The answer of the registration is lost, and perhaps the store is changed before it is
// sent again.
func TestUnansweredRegistration(t *testing.T) {
	t.Parallel()
	for _, changed := range []bool{false, true} {
		for _, event := range []string{"", `"event"`} {
			t.Run(fmt.Sprintf("changed: %v, pulled: %v", changed, event != ""), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				s := b.admit("x")
				snap := b.create(counter, "0")
				peer := b.peer(b.unanswered(b.space.Waiter(storeKey(counter), callKey(s)), func() {
					if changed {
						b.add(counter, 1)
					}
				}))
				stale, err := peer.Register(t.Context(), waiter(s, counter, snap, event))
				if err != nil || stale != changed {
					t.Fatalf("got %v, %v", stale, err)
				}
				waiting, woken := len(b.keys(b.space.Waiters())), b.wakes.of(s)+len(b.events())
				if changed && (waiting != 0 || woken < 1) || !changed && (waiting != 1 || woken != 0) {
					t.Fatalf("%d waiters, %d wakes", waiting, woken)
				}
			})
		}
	}
}

// A stale registration whose answer is lost owes one wake, not two.
func TestUnansweredStaleRegistration(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := step("x")
	peer := b.peer(b.unanswered(b.space.Waiter(storeKey(counter), callKey(s)), nothing, nothing))
	stale, err := peer.Register(t.Context(), waiter(s, counter, stores.Snapshot{Instance: "0-0"}, `"event"`))
	if events := b.events(); err != nil || !stale || len(events) != 1 {
		t.Fatalf("got %v, %v; events %q", stale, err, events)
	}
}

// The one who committed died before he woke anybody. A step that registers anew finds
// what he left, and is woken by it if its earlier registration was to be.
func TestRegistrationComesAfterWhatIsUntold(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := step("x")
	b.create(counter, "0")
	b.wait(s, counter, `"first"`)
	b.commitAndDie(counter)
	if stale, err := b.Register(t.Context(), waiter(s, counter, b.get(counter), `"second"`)); stale || err != nil {
		t.Fatal(stale, err)
	}
	if n := len(b.keys(b.space.Waiters())); n != 1 {
		t.Fatalf("%d waiters", n)
	}
	b.none(b.space.Outbox())
	if events := b.events(); len(events) != 1 || events[0] != `"first"` {
		t.Fatalf("got %q", events)
	}
}

// commitAndDie adds 1 to the number in the store, and does not get to waking anybody.
func (b *bench) commitAndDie(key execution.StoreID) {
	b.t.Helper()
	dead := false
	hook := &testetcd.Hook{Store: b.store, BeforeGet: func(etcd.Get) error {
		if dead {
			return etcd.ErrClosed
		}
		return nil
	}}
	hook.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		dead = dead || puts(txn, b.space.Store(storeKey(key)))
		return res, err
	}
	_, err := b.peer(hook).Update(b.t.Context(), key, nil, "update", add(1))
	b.must(err)
}

func TestUnregister(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	s, other := b.admit("x"), b.admit("x/")
	b.wait(s, counter, "")
	b.wait(other, counter, "")
	for range 2 {
		b.must(b.Unregister(t.Context(), counter, s))
	}
	b.add(counter, 1)
	if b.wakes.of(s) != 0 || b.wakes.of(other) != 1 {
		t.Fatalf("woken %d and %d times", b.wakes.of(s), b.wakes.of(other))
	}
	if err := b.Unregister(t.Context(), counter, execution.StepID{}); err == nil {
		t.Error("no step is accepted")
	}
}

// The step registers again while an unregistration, which was applied, is sent again.
func TestUnregisterLeavesALaterRegistrationAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.admit("x")
	b.create(counter, "0")
	b.wait(s, counter, "")
	peer := b.peer(b.unanswered(b.space.Waiter(storeKey(counter), callKey(s)), func() { b.wait(s, counter, "") }))
	b.must(peer.Unregister(t.Context(), counter, s))
	b.add(counter, 1)
	if b.wakes.of(s) != 1 {
		t.Fatalf("woken %d times", b.wakes.of(s))
	}
}

// Steps look, register and are woken while others commit, all at once. Whoever is
// registered or stale is woken: each step goes on until it sees the last version.
func TestRegistrationsAmongCommits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.create(counter, "0")
	const waiters, commits = 8, 40
	peer := b.peer(b.store)
	came := make(chan struct{}, 1)
	woken := make([]chan struct{}, waiters)
	steps := make([]execution.StepID, waiters)
	for i := range steps {
		woken[i] = make(chan struct{}, 1)
		steps[i] = b.admit(execution.ID(fmt.Sprint("w", i)))
	}
	b.wakes.failing(func(_ context.Context, s execution.StepID) error {
		for i := range steps {
			if steps[i] == s {
				select {
				case woken[i] <- struct{}{}:
				default: // it is awake already
				}
			}
		}
		return nil
	})
	done := make(chan error, waiters)
	for i, s := range steps {
		go func() { done <- b.follow(s, woken[i], commits) }()
	}
	go func() {
		defer close(came)
		for range commits {
			if _, err := peer.Update(t.Context(), counter, nil, "update", add(1)); err != nil {
				t.Error(err)
			}
		}
	}()
	<-came
	for range waiters {
		b.must(<-done)
	}
	b.none(b.space.Outbox(), b.space.Waiters())
}

// follow waits until the store has come to the version.
func (b *bench) follow(s execution.StepID, woken <-chan struct{}, version int64) error {
	for {
		snap, err := b.Get(b.t.Context(), counter)
		if err != nil || snap.Version == version {
			return err
		}
		if _, err := b.Register(b.t.Context(), waiter(s, counter, snap, "")); err != nil {
			return err
		}
		select {
		case <-woken:
		case <-b.t.Context().Done():
			return fmt.Errorf("step %q was not woken after version %d", s.Execution, snap.Version)
		}
	}
}
