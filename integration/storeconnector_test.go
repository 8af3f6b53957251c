package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// TestStoreConnector: the suite that every connector of stores must pass, on real etcd.
// Its cases come from a world of asynchronous callbacks and of proxies that see what is
// read and written; what each means here is said above it.
func TestStoreConnector(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*shelf){
		"create-read-list-delete-recreate":   createReadListDeleteRecreate,
		"async-callbacks":                    asyncCallbacks,
		"cas-race":                           casRace,
		"receipt-race-and-recreation":        receiptRaceAndRecreation,
		"receipt-scope":                      receiptScope,
		"no-step-id-detached":                noStepIDDetached,
		"no-proxies":                         noProxies,
		"no-deep-diff":                       noDeepDiff,
		"conditional-update-ledger-first":    conditionalUpdateLedgerFirst,
		"take":                               takeCase,
		"conditional-delete-receipt":         conditionalDeleteReceipt,
		"conditional-delete-purges":          conditionalDeletePurges,
		"intersecting-wake-consumed":         intersectingWakeConsumed,
		"replacement-claim-splice-paths":     replacementClaimSplicePaths,
		"stale-registration":                 staleRegistration,
		"stale-retry-after-unrelated-commit": staleRetryAfterUnrelatedCommit,
		"register-commit-race":               registerCommitRace,
		"failed-wake-isolation":              failedWakeIsolation,
		"no-transfer-to-recreated":           noTransferToRecreated,
		"peers-and-restart":                  peersAndRestart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(newShelf(t))
		})
	}
}

// A box is the state of the suite's stores.
type box struct {
	Title string   `json:"title"`
	Items []string `json:"items"`
	Count int      `json:"count"`
}

var (
	boxes  = store.Define[box]("box")
	first  = execution.StoreID{Name: "box", ID: "one"}
	second = execution.StoreID{Name: "box", ID: "two"}
)

var (
	errUnreachable = errors.New("the execution can't be reached")
	errWithdrawn   = errors.New("the updater has thought better of it")
)

// A shelf is a namespace with a client of its stores, which wakes real executions.
type shelf struct {
	*harness
	*stores.Client

	mu          sync.Mutex
	woken       map[execution.ID]int
	unreachable map[execution.ID]bool
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{harness: newHarness(t), woken: map[execution.ID]int{}, unreachable: map[execution.ID]bool{}}
	s.Client = s.peer(s.store)
	return s
}

// peer returns another client: another process.
func (s *shelf) peer(over etcd.Store) *stores.Client {
	s.t.Helper()
	c, err := stores.New(stores.Config{Store: over, Space: s.space, Wake: s.wake})
	s.must(err)
	return c
}

func (s *shelf) wake(ctx context.Context, step execution.StepID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreachable[step.Execution] {
		return errUnreachable
	}
	s.woken[step.Execution]++
	return s.main.RequestWake(ctx, step.Execution, time.Now())
}

func (s *shelf) reach(id execution.ID, can bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unreachable[id] = !can
}

func (s *shelf) wakes(id execution.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.woken[id]
}

func (s *shelf) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// admit admits an execution and returns a step of it.
func (s *shelf) admit(id execution.ID) execution.StepID {
	s.t.Helper()
	_, err := s.main.Admit(s.t.Context(), execution.AdmitRequest{ID: id, Workflow: suiteWorkflow})
	s.must(err)
	kv, _ := s.key(s.space.State(string(id)))
	return execution.StepID{Execution: id, Incarnation: kv.Created, Step: "step"}
}

// foreign returns a step of another runtime's execution.
func foreign(id execution.ID) execution.StepID { return execution.StepID{Execution: id, Step: "step"} }

// handle returns the typed handle to a store.
func (s *shelf) handle(id execution.StoreID) store.Handle[box] {
	return boxes.At(id.ID).On(stores.NewAccess(s.Client))
}

func (s *shelf) create(id execution.StoreID, state string) stores.Snapshot {
	s.t.Helper()
	snap, err := s.Create(s.t.Context(), id, func() ([]byte, error) { return []byte(state), nil })
	s.must(err)
	return snap
}

func (s *shelf) read(id execution.StoreID) stores.Snapshot {
	s.t.Helper()
	snap, err := s.Get(s.t.Context(), id)
	s.must(err)
	return snap
}

// set makes an update to the given state that says what it has changed.
func set(state, result string, changed ...stores.Path) func(stores.Snapshot) (*stores.Mutation, error) {
	return func(stores.Snapshot) (*stores.Mutation, error) {
		return &stores.Mutation{State: []byte(state), Result: []byte(result), Changed: changed}, nil
	}
}

func (s *shelf) commit(id execution.StoreID, state string, changed ...stores.Path) {
	s.t.Helper()
	_, err := s.Update(s.t.Context(), id, nil, "update", set(state, "null", changed...))
	s.must(err)
}

// uncalled is an updater that must not be run.
func (s *shelf) uncalled(stores.Snapshot) (*stores.Mutation, error) {
	s.t.Error("the updater was run")
	return nil, errWithdrawn
}

// register registers a step as of the snapshot. One of another runtime pulls its wake.
func (s *shelf) register(c *stores.Client, id execution.StoreID, step execution.StepID, seen stores.Version, reads ...stores.Path) (stale bool) {
	s.t.Helper()
	w := stores.Waiter{Store: id, Step: step, Instance: seen.Instance, Since: seen.Version, Reads: reads}
	if step.Incarnation == 0 {
		w.Event = []byte(event(step.Execution))
	}
	stale, err := c.Register(s.t.Context(), w)
	s.must(err)
	return stale
}

// event is what another runtime's execution is woken with.
func event(id execution.ID) string { return fmt.Sprintf("{ \"execution\":%q, \"n\":1.50 }", id) }

// pending returns the executions whose wakes wait to be pulled, in order.
func (s *shelf) pending(c *stores.Client) []string {
	s.t.Helper()
	wakes, err := c.Pending(s.t.Context())
	s.must(err)
	var ids []string
	for _, w := range wakes {
		var of struct{ Execution string }
		s.must(json.Unmarshal(w.Event, &of))
		if string(w.Event) != event(execution.ID(of.Execution)) {
			s.t.Errorf("the event is %s", w.Event)
		}
		ids = append(ids, of.Execution)
	}
	slices.Sort(ids)
	return ids
}

// count returns how many keys there are.
func (s *shelf) count(span keyspace.Span) int {
	s.t.Helper()
	res, _, err := s.store.Get(s.t.Context(), etcd.Get{Key: span.Start, End: span.End, KeysOnly: true})
	s.must(err)
	return len(res.KVs)
}

// settled fails if a store has still to wake somebody, or somebody waits.
func (s *shelf) settled() {
	s.t.Helper()
	if n, m := s.count(s.space.Outbox()), s.count(s.space.Waiters()); n+m > 0 {
		s.t.Errorf("%d wakes are owed and %d waiters registered", n, m)
	}
}

// racing returns a client that lets something happen before its first write of a store.
func (s *shelf) racing(id execution.StoreID, happens ...func()) *stores.Client {
	s.t.Helper()
	key := s.space.Store(keyspace.StoreKey{Name: id.Name, ID: id.ID})
	return s.peer(&testetcd.Hook{Store: s.store, BeforeTxn: func(txn *etcd.Txn) error {
		if len(happens) > 0 && writes(txn, key) {
			next := happens[0]
			happens = happens[1:]
			next()
		}
		return nil
	}})
}

// dying returns a client whose process ends once it has written the store: it wakes
// nobody.
func (s *shelf) dying(id execution.StoreID) *stores.Client {
	s.t.Helper()
	key, dead := s.space.Store(keyspace.StoreKey{Name: id.Name, ID: id.ID}), false
	return s.peer(&testetcd.Hook{
		Store: s.store,
		BeforeGet: func(etcd.Get) error {
			if dead {
				return etcd.ErrClosed
			}
			return nil
		},
		AfterTxn: func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
			dead = dead || writes(txn, key)
			return res, err
		},
	})
}

// A store is created once, read, listed in order, deleted, and is another one when it is
// created again.
func createReadListDeleteRecreate(s *shelf) {
	ctx := s.t.Context()
	if _, err := s.Get(ctx, first); err == nil || !strings.Contains(err.Error(), "does not exist") {
		s.t.Errorf("a store that is not there: %v", err)
	}
	if _, err := s.Update(ctx, first, nil, "update", s.uncalled); err == nil || !strings.Contains(err.Error(), "does not exist") {
		s.t.Errorf("an update of it: %v", err)
	}
	const state = `{ "title":"é\u00e9", "count":12345678901234567890.50 }`
	made := s.create(first, state)
	if again := s.create(first, `"other"`); made.Version != 0 || string(made.State) != state || again.At() != made.At() || string(again.State) != state {
		s.t.Errorf("created %+v, then %+v", made, again)
	}
	if _, err := s.Create(ctx, first, func() ([]byte, error) { s.t.Error("initial was called"); return nil, errWithdrawn }); err != nil {
		s.t.Error(err)
	}
	s.create(execution.StoreID{Name: "box", ID: "a/b"}, "0")
	s.create(execution.StoreID{Name: "box", ID: "Z"}, "0")
	s.create(execution.StoreID{Name: "boxes", ID: "elsewhere"}, "0")
	if ids, err := s.List(ctx, "box"); err != nil || !slices.Equal(ids, []string{"Z", "a/b", "one"}) {
		s.t.Errorf("listed %q, %v", ids, err)
	}
	for range 2 {
		s.must(s.Delete(ctx, first))
	}
	if ids, err := s.List(ctx, "box"); err != nil || !slices.Equal(ids, []string{"Z", "a/b"}) {
		s.t.Errorf("listed %q, %v", ids, err)
	}
	if later := s.create(first, "1"); later.Version != 0 || later.Instance == made.Instance {
		s.t.Errorf("created anew: %+v", later)
	}
}

// There, an updater that returns a promise is refused. Here the like of it is an updater
// that keeps its pointer, or gives it to a goroutine, and writes when the commit is made:
// what is stored, and what the update returned, stays as the updater left it.
func asyncCallbacks(s *shelf) {
	ctx := s.t.Context()
	h := s.handle(first)
	_, err := h.GetOrCreate(ctx, box{Title: "t", Items: []string{"a"}})
	s.must(err)
	var kept *box
	result, err := h.Update(ctx, func(b *box) error {
		kept = b
		b.Count = 1
		return nil
	})
	s.must(err)
	kept.Count, kept.Items[0], kept.Title = 99, "late", "late"
	done := make(chan struct{})
	go func() {
		defer close(done)
		kept.Items = append(kept.Items, "later")
	}()
	<-done
	want := box{Title: "t", Items: []string{"a"}, Count: 1}
	if got, err := h.Get(ctx); err != nil || !reflect.DeepEqual(got.State, want) || got.Version != 1 {
		s.t.Errorf("stored %+v, %v", got, err)
	}
	if !reflect.DeepEqual(result.State, want) {
		s.t.Errorf("returned %+v", result.State)
	}
	_, err = h.Update(ctx, func(b *box) error {
		b.Count = 50
		return errWithdrawn
	})
	if got, _ := h.Get(ctx); !errors.Is(err, errWithdrawn) || !reflect.DeepEqual(got.State, want) || got.Version != 1 {
		s.t.Errorf("an updater that fails: %v; stored %+v", err, got)
	}
}

// Two commits come in between: the updater is run three times, each time on what is
// there, and its last result is committed.
func casRace(s *shelf) {
	s.create(first, "[]")
	peer := s.racing(first, func() { s.commit(first, `["x"]`) }, func() { s.commit(first, `["x","y"]`) })
	var seen []string
	res, err := peer.Update(s.t.Context(), first, nil, "update", func(now stores.Snapshot) (*stores.Mutation, error) {
		seen = append(seen, string(now.State))
		var items []string
		s.must(json.Unmarshal(now.State, &items))
		next, err := json.Marshal(append(items, "mine"))
		return &stores.Mutation{State: next, Result: next}, err
	})
	got := s.read(first)
	if want := []string{"[]", `["x"]`, `["x","y"]`}; err != nil || !slices.Equal(seen, want) {
		s.t.Errorf("the updater saw %q, %v", seen, err)
	}
	if want := `["x","y","mine"]`; string(got.State) != want || string(res.Raw) != want || got.Version != 3 {
		s.t.Errorf("stored %s at version %d, returned %s", got.State, got.Version, res.Raw)
	}
}

// Two holders make the same step's update at once. One commits; the other finds the
// receipt in its own transaction, though its updater has run, and returns the first
// one's result. So does whoever comes when the store is deleted, and when it is created
// again, whose new instance is not touched.
func receiptRaceAndRecreation(s *shelf) {
	ctx := s.t.Context()
	step := s.admit("x")
	s.create(first, "0")
	runs := 0
	peer := s.racing(first, func() {
		_, err := s.Update(ctx, first, &step, "update", set("1", `"the first"`))
		s.must(err)
	})
	res, err := peer.Update(ctx, first, &step, "update", func(stores.Snapshot) (*stores.Mutation, error) {
		runs++
		return set("2", `"the second"`)(stores.Snapshot{})
	})
	if got := s.read(first); err != nil || string(res.Raw) != `"the first"` || !res.Repeated || runs != 1 || string(got.State) != "1" || got.Version != 1 {
		s.t.Errorf("got %+v, %v after %d runs; stored %+v", res, err, runs, got)
	}
	s.must(s.Delete(ctx, first))
	for range 2 {
		res, err := peer.Update(ctx, first, &step, "update", s.uncalled)
		if err != nil || string(res.Raw) != `"the first"` {
			s.t.Errorf("got %+v, %v", res, err)
		}
		s.create(first, "7")
	}
	if got := s.read(first); string(got.State) != "7" || got.Version != 0 {
		s.t.Errorf("the new instance: %+v", got)
	}
}

// A receipt is of one store's name, one store's id, one execution and one step.
func receiptScope(s *shelf) {
	ctx := s.t.Context()
	x, y := s.admit("x"), s.admit("y")
	otherStep := x
	otherStep.Step = "step/2"
	ids := []execution.StoreID{first, second, {Name: "crate", ID: "one"}, {Name: "box", ID: "one/step"}}
	steps := []execution.StepID{x, otherStep, y, foreign("x"), foreign("y"), foreign("x/step")}
	for _, id := range ids {
		s.create(id, "0")
		for _, step := range steps {
			if _, found, err := s.Receipt(ctx, id, step); err != nil || found {
				s.t.Errorf("%v has a receipt of %+v before: %v", id, step, err)
			}
			want := fmt.Sprintf("[%q, %q, %d]", id.ID, step.Execution, step.Incarnation)
			res, err := s.Update(ctx, id, &step, "update", set("1", want))
			raw, found, receiptErr := s.Receipt(ctx, id, step)
			if err != nil || res.Repeated || receiptErr != nil || !found || string(raw) != want {
				s.t.Errorf("%v by %+v: %+v, %v; receipt %s, %v", id, step, res, err, raw, receiptErr)
			}
		}
		if got := s.read(id); got.Version != int64(len(steps)) {
			s.t.Errorf("%v is at version %d", id, got.Version)
		}
	}
}

// Without a step nothing is recorded and everything is done each time. What was supplied
// and what is returned belongs to the caller.
func noStepIDDetached(s *shelf) {
	ctx := s.t.Context()
	s.create(first, "[0]")
	state, result := []byte("[1]"), []byte(`"result"`)
	for version := int64(1); version <= 2; version++ {
		res, err := s.Update(ctx, first, nil, "update", func(now stores.Snapshot) (*stores.Mutation, error) {
			now.State[1] = '8'
			return &stores.Mutation{State: state, Result: result}, nil
		})
		if err != nil || string(res.Raw) != `"result"` || res.Repeated {
			s.t.Fatalf("got %+v, %v", res, err)
		}
		res.Raw[1] = 'X'
		got := s.read(first)
		got.State[1] = '9'
		if again := s.read(first); string(again.State) != "[1]" || again.Version != version {
			s.t.Errorf("stored %s at version %d", again.State, again.Version)
		}
	}
	state[1], result[1] = '7', 'X'
	if got := s.read(first); string(got.State) != "[1]" {
		s.t.Errorf("stored %s", got.State)
	}
	if n := s.count(s.space.Receipts()); n != 0 {
		s.t.Errorf("%d receipts", n)
	}
}

// There, what an updater is given is a proxy, which must not get into results. Here it
// is a plain value: a selector that changes it changes nothing, what a take has selected
// is no part of the state, and values within it may be moved about.
func noProxies(s *shelf) {
	ctx := s.t.Context()
	h := s.handle(first)
	initial := box{Title: "t", Items: []string{"a", "b"}}
	_, err := h.GetOrCreate(ctx, initial)
	s.must(err)
	taken, err := store.TakeNow(ctx, h, func(b box) (*box, bool) {
		b.Title, b.Items[0] = "by the selector", "by the selector"
		return &b, false
	}, func(*box, *box) error { return nil })
	if got, _ := h.Get(ctx); err != nil || taken.Matched || got.Version != 0 || !reflect.DeepEqual(got.State, initial) {
		s.t.Errorf("a miss: %+v, %v; stored %+v", taken, err, got)
	}
	_, err = h.Update(ctx, func(b *box) error {
		b.Items = slices.Insert(b.Items[:1:1], 0, b.Items[1]) // the parts of the state, elsewhere in it
		return nil
	})
	s.must(err)
	items, err := store.TakeNow(ctx, h, func(b box) ([]string, bool) { return b.Items, true }, func(b *box, _ []string) error {
		b.Count++
		return nil
	})
	s.must(err)
	items.Selected[0] = "changed"
	if got, err := h.Get(ctx); err != nil || !slices.Equal(got.State.Items, []string{"b", "a"}) || got.State.Count != 1 || got.Version != 2 {
		s.t.Errorf("stored %+v, %v", got, err)
	}
}

// A commit takes what its caller says of the changed paths, and compares no documents:
// what is not said wakes nobody, what is said wakes, though it be the same as before.
func noDeepDiff(s *shelf) {
	snap := s.create(first, `{"title":"t","count":0}`)
	title, count := s.admit("title"), s.admit("count")
	s.register(s.Client, first, title, snap.At(), stores.Path{"title"})
	s.register(s.Client, first, count, snap.At(), stores.Path{"count"})
	s.commit(first, `{"title":"other","count":0}`, stores.Path{"count"})
	if s.wakes("title") != 0 || s.wakes("count") != 1 {
		s.t.Errorf("woken %d and %d times", s.wakes("title"), s.wakes("count"))
	}
	s.commit(first, `{"title":"other","count":0}`)
	if s.wakes("title") != 0 {
		s.t.Error("woken by a commit that changed no path")
	}
	s.commit(first, `{"title":"other","count":0}`, stores.Path{"title"})
	if s.wakes("title") != 1 || s.wakes("count") != 1 {
		s.t.Errorf("woken %d and %d times", s.wakes("title"), s.wakes("count"))
	}
	s.settled()
}

// The receipt comes first, before the instance that must be named, the store that must
// be there and the version that it must have. The base is what the caller has read. A
// conflict runs no updater, is not tried again, and leaves no receipt.
func conditionalUpdateLedgerFirst(s *shelf) {
	ctx := s.t.Context()
	step, late := s.admit("x"), s.admit("late")
	snap := s.create(first, "0")
	nowhere := stores.Version{}
	check := func(what string, want stores.CommitStatus, c *stores.Client, by execution.StepID, at stores.Version, fn func(stores.Snapshot) (*stores.Mutation, error)) stores.CommitAnswer {
		s.t.Helper()
		got, err := c.Commit(ctx, first, &by, "updateFrom", at, fn)
		if err != nil || got.Status != want {
			s.t.Errorf("%s: %+v, %v", what, got, err)
		}
		return got
	}
	if got := check("at its version", stores.Committed, s.Client, step, snap.At(), set("1", `{"updated":true}`)); string(got.Result) != `{"updated":true}` {
		s.t.Errorf("the result is %s", got.Result)
	}
	check("by the receipt", stores.AlreadyApplied, s.Client, step, nowhere, s.uncalled)
	if got := check("too late", stores.Conflict, s.Client, late, snap.At(), s.uncalled); got.Current.Version != 1 || string(got.Current.State) != "1" {
		s.t.Errorf("there is %+v", got.Current)
	}
	if _, found, err := s.Receipt(ctx, first, late); found || err != nil {
		s.t.Errorf("a conflict left a receipt: %v", err)
	}
	_, err := s.Commit(ctx, first, &late, "updateFrom", nowhere, s.uncalled)
	if err == nil || !strings.Contains(err.Error(), "missing instanceId") {
		s.t.Errorf("without an instance: %v", err)
	}
	runs := 0
	peer := s.racing(first, func() { s.commit(first, "2") })
	check("a late race", stores.Conflict, peer, late, s.read(first).At(), func(now stores.Snapshot) (*stores.Mutation, error) {
		runs++
		return set("3", "null")(now)
	})
	s.must(s.Delete(ctx, first))
	check("by the receipt of a store that is gone", stores.AlreadyApplied, s.Client, step, nowhere, s.uncalled)
	_, err = s.Commit(ctx, first, &late, "updateFrom", nowhere, s.uncalled)
	if err == nil || !strings.Contains(err.Error(), "missing instanceId") {
		s.t.Errorf("without an instance and a store: %v", err)
	}
	_, err = s.Commit(ctx, first, &late, "updateFrom", snap.At(), s.uncalled)
	if !errors.Is(err, execution.ErrNotFound) || runs != 1 {
		s.t.Errorf("without a store: %v; %d runs", err, runs)
	}
	s.create(first, "0")
	check("another instance", stores.Conflict, s.Client, late, snap.At(), s.uncalled)
}

// Selecting and claiming is one commit: of those who want the same, one gets it. What
// was selected is recorded as the claim leaves it. A miss writes nothing, and says what
// it has looked at; the step may match later.
func takeCase(s *shelf) {
	ctx := s.t.Context()
	h := s.handle(first)
	_, err := h.GetOrCreate(ctx, box{Items: []string{"a", "b"}})
	s.must(err)
	pop := func() (store.Taken[string], error) {
		return store.TakeNow(ctx, h, func(b box) (string, bool) { return strings.Join(b.Items[:min(1, len(b.Items))], ""), len(b.Items) > 0 },
			func(b *box, _ string) error { b.Items = b.Items[1:]; return nil })
	}
	got := make([]store.Taken[string], 3)
	var group sync.WaitGroup
	for i := range got {
		group.Go(func() {
			var err error
			if got[i], err = pop(); err != nil {
				s.t.Error(err)
			}
		})
	}
	group.Wait()
	slices.SortFunc(got, func(a, b store.Taken[string]) int { return strings.Compare(a.Selected, b.Selected) })
	if got[0].Matched || got[0].Version != 2 || got[1].Selected != "a" || got[1].Version != 1 || got[2].Selected != "b" || got[2].Version != 2 {
		s.t.Errorf("taken: %+v", got)
	}
	_, err = h.Update(ctx, func(b *box) error { b.Items = []string{"c"}; return nil })
	s.must(err)
	after, err := store.TakeNow(ctx, h, func(b box) (*string, bool) { return &b.Items[0], true }, func(_ *box, item *string) error { *item += ", claimed"; return nil })
	if err != nil || *after.Selected != "c, claimed" {
		s.t.Errorf("selected %+v, %v", after, err)
	}
	// As a step: a miss leaves no receipt, a match does, and is not made twice.
	step := s.admit("x")
	miss := func(stores.Snapshot) (*stores.Mutation, error) { return nil, nil } //nolint:nilnil // a miss
	res, err := s.Update(ctx, first, &step, "take", miss)
	if now := s.read(first); err != nil || !res.Missed || res.Snapshot.At() != now.At() || now.Version != 4 || s.count(s.space.Receipts()) != 0 {
		s.t.Errorf("a miss: %+v, %v; stored %+v", res, err, now)
	}
	for i, fn := range []func(stores.Snapshot) (*stores.Mutation, error){set(`{"items":[]}`, `{"matched":true}`), s.uncalled} {
		if res, err = s.Update(ctx, first, &step, "take", fn); err != nil || res.Missed || string(res.Raw) != `{"matched":true}` || s.read(first).Version != 5 {
			s.t.Errorf("match %d: %+v, %v", i, res, err)
		}
	}
}

// The receipt of a deletion is written with it, and answers its step for ever, whatever
// is there by then. A deletion that did not delete has none.
func conditionalDeleteReceipt(s *shelf) {
	ctx := s.t.Context()
	step, other := s.admit("x"), s.admit("y")
	old := s.create(first, "0")
	s.commit(first, "1")
	check := func(what string, by execution.StepID, at stores.Version, want string) {
		s.t.Helper()
		d, err := s.DeleteFrom(ctx, first, &by, at)
		raw, jsonErr := json.Marshal(d)
		if err != nil || jsonErr != nil || string(raw) != want {
			s.t.Errorf("%s: %s, %v; want %s", what, raw, err, want)
		}
	}
	conflict := func(at, actual stores.Version) string {
		return fmt.Sprintf(`{"deleted":false,"reason":"conflict","expectedInstanceId":%q,"expectedVersion":%d,"actualInstanceId":%q,"actualVersion":%d}`, at.Instance, at.Version, actual.Instance, actual.Version)
	}
	now := s.read(first).At()
	check("too late", step, old.At(), conflict(old.At(), now))
	check("in time, though it was late before", step, now, `{"deleted":true}`)
	check("again", step, now, `{"deleted":true}`)
	check("by another step", other, now, fmt.Sprintf(`{"deleted":false,"reason":"not-found","expectedInstanceId":%q,"expectedVersion":1}`, now.Instance))
	later := s.create(first, "2").At()
	check("again, of a store that was created anew", step, later, `{"deleted":true}`)
	check("again, without an instance", step, stores.Version{}, `{"deleted":true}`)
	check("by another step, of another instance", other, now, conflict(now, later))
	if _, err := s.DeleteFrom(ctx, first, &other, stores.Version{Version: 1}); err == nil || !strings.Contains(err.Error(), "missing instanceId") {
		s.t.Errorf("without an instance: %v", err)
	}
	if got := s.read(first); got.At() != later {
		s.t.Errorf("the new instance: %+v", got)
	}
}

// A conditional deletion takes all that waits for the store, or has to be woken by it,
// with it, silently, and nothing of another store. A conflict takes nothing.
func conditionalDeletePurges(s *shelf) {
	ctx := s.t.Context()
	waiting, unreached := s.admit("waiting"), s.admit("unreached")
	for _, id := range []execution.StoreID{first, second} {
		snap := s.create(id, "0")
		s.register(s.Client, id, unreached, snap.At(), stores.Path{})
		s.register(s.Client, id, foreign("pulls"), snap.At(), stores.Path{})
		s.reach("unreached", false)
		s.commit(id, "1", stores.Path{})
		s.register(s.Client, id, waiting, s.read(id).At(), stores.Path{})
		if n := s.count(s.space.Outbox()); n == 0 {
			s.t.Fatal("nothing is owed")
		}
	}
	step, now := s.admit("x"), s.read(first).At()
	if d, err := s.DeleteFrom(ctx, first, &step, stores.Version{Instance: now.Instance}); err != nil || d.Deleted || s.count(s.space.Waiters()) != 2 {
		s.t.Errorf("a conflict: %+v, %v", d, err)
	}
	if d, err := s.DeleteFrom(ctx, first, &step, now); err != nil || !d.Deleted {
		s.t.Fatalf("got %+v, %v", d, err)
	}
	s.reach("unreached", true)
	s.must(s.Drain(ctx, first))
	s.create(first, "0")
	s.commit(first, "1", stores.Path{})
	if s.wakes("unreached")+s.wakes("waiting") != 0 {
		s.t.Errorf("woken %d and %d times", s.wakes("unreached"), s.wakes("waiting"))
	}
	if ids := s.pending(s.Client); !slices.Equal(ids, []string{"pulls"}) || s.count(s.space.Waiters()) != 1 {
		s.t.Errorf("of the other store: %q, %d waiters", ids, s.count(s.space.Waiters()))
	}
	s.commit(second, "2", stores.Path{})
	if s.wakes("unreached") != 1 || s.wakes("waiting") != 1 {
		s.t.Errorf("woken by the other store %d and %d times", s.wakes("unreached"), s.wakes("waiting"))
	}
}
