package integration_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/store"
)

var flag = store.Define[bool]("flag")

// A Race is an execution that waits for a flag of its own until a deadline.
type Race struct {
	Flag     string
	Deadline time.Time
}

// A Seen is what the wait came to, in two deliveries.
type Seen struct{ First, Again bool }

var raceFlag = holdfast.Define("race", func(ctx holdfast.Context, r Race) (Seen, error) {
	raised := func(up bool) (bool, bool) { return up, up }
	_, matched, err := store.WhenUntil(ctx, "raised", flag.At(r.Flag), r.Deadline, raised)
	if err != nil {
		return Seen{}, err
	}
	first, err := holdfast.Step(ctx, "note", func(context.Context) (bool, error) { return matched, nil })
	if err != nil {
		return Seen{}, err
	}
	if err := holdfast.Sleep(ctx, "leave", 200*time.Millisecond); err != nil { // and come back in another delivery
		return Seen{}, err
	}
	return Seen{First: first, Again: matched}, nil
})

func raceTrade(_ say) []holdfast.WorkerOption {
	return []holdfast.WorkerOption{raceFlag, holdfast.Concurrency(256)}
}

// TestMatchAndDeadlineTie: a flag is raised at the very instant of the deadline, a
// thousand times, while workers are killed. One of the two wins, and is the same in
// every delivery; no registration is left. Some flags are raised well before, and some
// only when the wait is over.
func TestMatchAndDeadlineTie(t *testing.T) {
	t.Parallel()
	const ties, sure = 1000, 50
	f := newFleet(t, "race", 2, nil)
	deadline := time.Now().Add(5 * time.Second)
	run := func(i int, raise func(up func(), h holdfast.Handle[Seen])) (Seen, error) {
		id := strconv.Itoa(i)
		mine := flag.At(id).On(f.client.Stores())
		if _, err := mine.GetOrCreate(t.Context(), false); err != nil {
			return Seen{}, err
		}
		h, err := raceFlag.Start(t.Context(), f.client, Race{id, deadline}, holdfast.WithID(id))
		if err != nil {
			return Seen{}, err
		}
		raise(func() {
			if _, err := mine.Update(t.Context(), func(up *bool) error { *up = true; return nil }); err != nil {
				t.Errorf("raise flag %d: %v", i, err)
			}
		}, h)
		return h.Result(t.Context())
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	won := map[bool]int{}
	start := func(from, n int, want *bool, raise func(up func(), h holdfast.Handle[Seen])) {
		for i := range n {
			all.Go(func() {
				seen, err := run(from+i, raise)
				switch {
				case err != nil:
					t.Errorf("race %d: %v", from+i, err)
				case seen.First != seen.Again:
					t.Errorf("race %d: the wait came to matched=%t first, then to %t", from+i, seen.First, seen.Again)
				case want != nil && seen.First != *want:
					t.Errorf("race %d: matched=%t, want %t", from+i, seen.First, *want)
				}
				mu.Lock()
				defer mu.Unlock()
				won[seen.First]++
			})
		}
	}
	yes, no := true, false
	kills := f.killWhile(3*time.Second, func() {
		start(0, sure, &yes, func(up func(), _ holdfast.Handle[Seen]) { up() })
		start(sure, sure, &no, func(up func(), h holdfast.Handle[Seen]) {
			if _, err := h.Wait(t.Context()); err != nil {
				t.Error(err)
			}
			up()
		})
		start(2*sure, ties, nil, func(up func(), _ holdfast.Handle[Seen]) {
			time.AfterFunc(time.Until(deadline)-50*time.Millisecond+rand.N(100*time.Millisecond), up)
		})
		all.Wait()
	})
	f.nothingLeft(keyspace.Space.Waiters, "waiters")
	f.nothingLeft(keyspace.Space.Outbox, "wakes that are owed")
	t.Logf("%d workers were killed; the flag won %d times, the deadline %d times", kills, won[true], won[false])
}

// nothingLeft waits until the span is empty.
func (f *fleet) nothingLeft(span func(keyspace.Space) keyspace.Span, what string) {
	f.t.Helper()
	s := span(f.h.space)
	f.eventually(what+" to go", func() bool { return f.keysOf(s.Start, s.End) == 0 })
}

// eventually polls until ok.
func (f *fleet) eventually(what string, ok func() bool) {
	f.t.Helper()
	bound := time.NewTimer(time.Minute)
	defer bound.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-bound.C:
			f.t.Fatalf("after a minute still not: %s", what)
		case <-f.t.Context().Done():
			f.t.Fatalf("the test was ended before: %s", what)
		}
	}
}
