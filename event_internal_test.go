package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/pkg/event"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// fakeEvents keeps events in memory. The steps of a bench apply them.
type fakeEvents struct {
	mu      sync.Mutex
	pending []event.Pending // in the order of their arrival
	lists   int
	reads   int
	fails   error // what List returns
}

func eventBench(t *testing.T) (*bench, *fakeEvents) {
	b, f := newBench(t), &fakeEvents{}
	b.engine.events = f
	b.steps.before = func(_ context.Context, w execution.StepWrite) error {
		if _, there := b.steps.get(w.Key, w.Attempt); there || w.Event == nil {
			return nil
		}
		return f.apply(*w.Event)
	}
	return b, f
}

func (f *fakeEvents) send(name, id, payload string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(f.pending, event.Pending{Event: execution.AppliedEvent{Name: name, ID: id, Digest: "d-" + id}, Payload: json.RawMessage(payload)})
}

func (f *fakeEvents) find(name, id string) int {
	return slices.IndexFunc(f.pending, func(p event.Pending) bool { return p.Event.Name == name && p.Event.ID == id })
}

func (f *fakeEvents) apply(e execution.AppliedEvent) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.find(e.Name, e.ID)
	if i < 0 {
		return execution.ErrEventGone
	}
	f.pending = slices.Delete(f.pending, i, i+1)
	return nil
}

// left lists the ids of what no step has applied.
func (f *fakeEvents) left() (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pending {
		ids = append(ids, p.Event.ID)
	}
	return ids
}

func (f *fakeEvents) List(_ context.Context, box event.Inbox) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists++
	if box.Execution != "order-42" || box.Incarnation != 7 {
		return nil, fmt.Errorf("another execution's inbox: %+v", box)
	}
	ids := []string{}
	for _, p := range f.pending {
		if p.Event.Name == box.Name {
			ids = append(ids, p.Event.ID)
		}
	}
	return ids, f.fails
}

func (f *fakeEvents) Read(_ context.Context, box event.Inbox, id string) (event.Pending, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	if i := f.find(box.Name, id); i >= 0 {
		return f.pending[i], true, nil
	}
	return event.Pending{}, false, nil
}

// awaits waits for one event of the name.
func awaits(within time.Duration, opts ...AwaitOption) body {
	return func(ctx Context) (string, error) { return Await[string](ctx, "item", within, opts...) }
}

func TestAwaitGivesTheOldest(t *testing.T) {
	t.Parallel()
	b, f := eventBench(t)
	f.send("other", "0", `"no"`)
	f.send("item", "2", `"first"`)
	f.send("item", "1", `"second"`)
	for range 2 {
		wantCompleted(t, b.deliver(awaits(Forever)), `"first"`)
	}
	wantList(t, "left", f.left(), []string{"0", "1"})
	wantEqual(t, "lists", f.lists, 1)
	wantEqual(t, "record", b.steps.response("item", 0), `{"v":1,"kind":"result","result":"first"}`)
	wantEqual(t, "applied", *b.steps.writes[0].Event, execution.AppliedEvent{Name: "item", ID: "2", Digest: "d-2"})
	wantList(t, "told", b.stepEvents(), []string{"item ran", "item replayed"})
}

func TestAwaitWaits(t *testing.T) {
	t.Parallel()
	b, f := eventBench(t)
	fn := awaits(Forever, AsStep("decision"))
	for range 3 {
		wantSuspended(t, b.deliver(fn), time.Time{})
	}
	wantEqual(t, "writes", len(b.steps.writes), 1)
	wantEqual(t, "record", b.steps.response("decision", 0), `{"v":1,"kind":"wait"}`)
	f.send("item", "1", `"yes"`)
	for range 2 {
		wantCompleted(t, b.deliver(fn), `"yes"`)
	}
	wantEqual(t, "record", b.steps.response("decision", 1), `{"v":1,"kind":"result","result":"yes"}`)
}

func TestAwaitHasADeadline(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late=%t", late), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, f := eventBench(t)
				deadline := time.Now().Add(time.Hour)
				wantSuspended(t, b.deliver(awaits(time.Hour)), deadline)
				advance(time.Hour - time.Millisecond)
				// The first one counts, whatever later code says.
				wantSuspended(t, b.deliver(awaits(Forever)), deadline)
				wantSuspended(t, b.deliver(awaits(time.Minute)), deadline)
				advance(time.Millisecond)
				if late { // an event counts that is seen first
					f.send("item", "1", `"late"`)
					wantCompleted(t, b.deliver(awaits(time.Hour)), `"late"`)
					return
				}
				fn := func(ctx Context) (string, error) {
					_, err := Await[string](ctx, "item", time.Hour)
					var failed *StepError
					if !errors.Is(err, ErrNoEvent) || !errors.As(err, &failed) || failed.Code != "NO_EVENT" || !Failed(err) {
						t.Errorf("got %v", err)
					}
					return "nobody", nil
				}
				for range 2 {
					wantCompleted(t, b.deliver(fn), `"nobody"`)
					f.send("item", "1", `"too late"`)
				}
				wantEqual(t, "left", len(f.left()), 2)
			})
		})
	}
}

func TestAwaitWithoutTime(t *testing.T) {
	t.Parallel()
	for _, within := range []time.Duration{0, -1, math.MinInt64} {
		b, _ := eventBench(t)
		v := b.deliver(awaits(within))
		if v.outcome == nil || v.outcome.Kind != execution.Failed || v.outcome.Error.Code != "NO_EVENT" {
			t.Fatalf("%v: got %s", within, show(v))
		}
		wantEqual(t, "writes", len(b.steps.writes), 1)
		b, f := eventBench(t)
		f.send("item", "1", `"there"`)
		wantCompleted(t, b.deliver(awaits(within)), `"there"`)
	}
}

// A payload that does not fit uses its event up, so that it is not in the way of others.
func TestAwaitOfWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	b, f := eventBench(t)
	f.send("item", "1", `{"n":1}`)
	f.send("item", "2", `"fits"`)
	fn := func(ctx Context) (string, error) {
		_, err := Await[string](ctx, "item", Forever)
		var failed *StepError
		if !errors.As(err, &failed) || failed.Code != "EVENT_PAYLOAD" || errors.Is(err, ErrNoEvent) {
			t.Errorf("got %v", err)
		}
		return Await[string](ctx, "item", Forever, AsStep("next"))
	}
	for range 2 {
		wantCompleted(t, b.deliver(fn), `"fits"`)
	}
	wantEqual(t, "left", len(f.left()), 0)
}

// Events of one delivery are listed once, and each payload is read when it is due.
func TestManyAwaitsListOnce(t *testing.T) {
	t.Parallel()
	b, f := eventBench(t)
	for i := range 1000 {
		f.send("item", fmt.Sprint(i), fmt.Sprintf(`"%d"`, i))
	}
	fn := func(ctx Context) (string, error) {
		for i := range 100 {
			got, err := Await[string](ctx, "item", Forever, AsStep(fmt.Sprint("item ", i)))
			if err != nil || got != fmt.Sprint(i) {
				return got, err
			}
		}
		return "all", nil
	}
	wantCompleted(t, b.deliver(fn), `"all"`)
	wantEqual(t, "lists", f.lists, 1)
	wantEqual(t, "reads", f.reads, 100)
	wantEqual(t, "left", len(f.left()), 900)
}

func TestParallelAwaitsHaveDifferentEvents(t *testing.T) {
	t.Parallel()
	b, f := eventBench(t)
	const n = 20
	for i := range n {
		f.send("item", fmt.Sprint(i), fmt.Sprintf(`"%02d"`, i))
	}
	fn := func(ctx Context) (string, error) {
		var g errgroup.Group
		got := make([]string, n)
		for i := range n {
			g.Go(func() (err error) {
				got[i], err = Await[string](ctx, "item", Forever, AsStep(fmt.Sprint("item ", i)))
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return "", err
		}
		slices.Sort(got)
		return fmt.Sprint(len(slices.Compact(got)), got[0], got[n-1]), nil
	}
	for range 2 {
		wantCompleted(t, b.deliver(fn), `"200019"`)
	}
	wantEqual(t, "left", len(f.left()), 0)
}

// An event that somebody else has applied meanwhile is passed by, wherever that shows.
func TestEventThatIsGone(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]func(*bench, *fakeEvents){
		"before it is read": func(b *bench, f *fakeEvents) {
			b.engine.events = goneEvents{f, func(string) { _ = f.apply(execution.AppliedEvent{Name: "item", ID: "1"}) }, nil}
		},
		"before it is recorded": func(b *bench, f *fakeEvents) {
			b.engine.events = goneEvents{f, nil, func(id string) { _ = f.apply(execution.AppliedEvent{Name: "item", ID: "1"}) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, f := eventBench(t)
			f.send("item", "1", `"first"`)
			f.send("item", "2", `"second"`)
			when(b, f)
			wantCompleted(t, b.deliver(awaits(Forever)), `"second"`)
			b, f = eventBench(t)
			f.send("item", "1", `"first"`)
			when(b, f)
			wantSuspended(t, b.deliver(awaits(Forever)), time.Time{})
		})
	}
}

// goneEvents lets something happen before or after an event is read.
type goneEvents struct {
	*fakeEvents
	before, after func(id string)
}

func (g goneEvents) Read(ctx context.Context, box event.Inbox, id string) (event.Pending, bool, error) {
	if g.before != nil {
		g.before(id)
	}
	p, there, err := g.fakeEvents.Read(ctx, box, id)
	if g.after != nil {
		g.after(id)
	}
	return p, there, err
}

func TestAwaitThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	b, f := eventBench(t)
	f.fails = errors.New("etcd is away")
	wantEqual(t, "error", retried(t, b.deliver(awaits(Forever))).Error(), `event wait "item": etcd is away`)
	wantEqual(t, "writes", len(b.steps.writes), 0)
	f.fails = nil
	f.send("item", "1", `"first"`)
	b.steps.before = func(context.Context, execution.StepWrite) error {
		return &execution.LostError{ID: "order-42", Operation: "writeStep"}
	}
	wantLost(t, b.deliver(awaits(Forever)))
	wantList(t, "left", f.left(), []string{"1"})
}

func TestAwaitMisused(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, want string
		fn         body
	}{
		{"no name", `event wait "s": event name "" is empty; want 1 to 512 bytes of UTF-8`, func(ctx Context) (string, error) {
			return DefineEvent[string]("").Await(ctx, Forever, AsStep("s"))
		}},
		{"no step name", `step name "" is empty; want 1 to 512 bytes of UTF-8`, awaits(Forever, AsStep(""))},
		{"a nil option", `event wait "item": an option is nil`, awaits(Forever, nil)},
		{"twice", `step "item": step name is used twice in one run`, func(ctx Context) (string, error) {
			if _, err := Await[string](ctx, "item", Forever); err != nil {
				return "", err
			}
			return Await[string](ctx, "item", Forever)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, f := eventBench(t)
			f.send("item", "1", `"first"`)
			wantFailed(t, b.deliver(c.fn), c.want)
		})
	}
}

// A name that has another meaning in the code than in the records is never guessed at.
func TestAwaitMeetsAnotherRecord(t *testing.T) {
	t.Parallel()
	atStore := waitRecord("item")
	atStore.Waiter = &execution.StoreID{Name: "counter", ID: "x"}
	for name, rec := range map[string]execution.Step{
		"a wait at a store": atStore,
		"another result":    resultRecord("item", `{"executionId":"x"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, f := eventBench(t)
			f.send("item", "1", `"first"`)
			b.token++ // not the first delivery
			b.steps.recs[memKey{"item", rec.Attempt}] = rec
			wantRetry(t, b.deliver(awaits(Forever)))
			wantEqual(t, "writes", len(b.steps.writes), 0)
		})
	}
}
