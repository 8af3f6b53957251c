package integration_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

const (
	letterSenders = 20
	lettersEach   = 50
	letterRun     = 100 // events in one run
	letterKills   = 5
)

// A letter is one of a sender's numbered events.
type letter struct{ Sender, Number int }

var letters = holdfast.DefineEvent[letter]("letter")

// sort records the letters in the order in which they come, in runs of a hundred.
var sortLetters = holdfast.Define("sort", func(ctx holdfast.Context, seen []letter) ([]letter, error) {
	for i := range letterRun {
		l, err := letters.Await(ctx, holdfast.Forever, holdfast.AsStep(fmt.Sprint("letter ", i)))
		if err != nil {
			return nil, err
		}
		if seen = append(seen, l); len(seen) == letterSenders*lettersEach {
			return seen, nil
		}
	}
	return nil, holdfast.ContinueAsNew(seen)
})

func sortTrade(_ say) []holdfast.WorkerOption { return []holdfast.WorkerOption{sortLetters} }

// TestEventsUnderKills: 20 senders send 1,000 numbered events to one execution, each
// waiting for its last one, while whoever holds the execution is killed. Each event that
// was acknowledged is applied once, those of a sender in their order.
func TestEventsUnderKills(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "sort", 2, nil)
	h, err := sortLetters.Start(t.Context(), f.client, nil, holdfast.WithID("post office"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for sender := range letterSenders {
		all.Go(func() {
			for number := range lettersEach {
				l := letter{sender, number}
				if err := letters.Send(t.Context(), f.client, h.ID(), l, holdfast.EventID(fmt.Sprint(l))); err != nil {
					t.Errorf("%+v: %v", l, err)
					return
				}
			}
		})
	}
	for range letterKills {
		f.killHolder(h.ID())
	}
	all.Wait()
	seen, err := h.Result(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := make([]int, letterSenders)
	for i, l := range seen {
		if l.Number != next[l.Sender] {
			t.Errorf("place %d: letter %d of sender %d, and %d was due", i, l.Number, l.Sender, next[l.Sender])
		}
		next[l.Sender] = l.Number + 1
	}
	if len(seen) != letterSenders*lettersEach {
		t.Errorf("%d letters were applied, want %d", len(seen), letterSenders*lettersEach)
	}
	f.wantLettersKept(h)
}

// wantLettersKept demands that each letter has left its receipt, and nothing is pending;
// that one that is sent again changes nothing; and that nothing of all that is left when
// the execution is deleted.
func (f *fleet) wantLettersKept(h holdfast.Handle[[]letter]) {
	f.t.Helper()
	pending, applied := f.h.space.Events(), f.h.space.AllApplied()
	if p, a := f.keysOf(pending.Start, pending.End), f.keysOf(applied.Start, applied.End); p != 0 || a != letterSenders*lettersEach {
		f.t.Errorf("%d events and %d receipts, want 0 and %d", p, a, letterSenders*lettersEach)
	}
	first := letter{}
	if err := letters.Send(f.t.Context(), f.client, h.ID(), first, holdfast.EventID(fmt.Sprint(first))); err != nil {
		f.t.Errorf("the first one again: %v", err)
	}
	if err := letters.Send(f.t.Context(), f.client, h.ID(), first); !errors.Is(err, execution.ErrTerminal) {
		f.t.Errorf("a new one: %v", err)
	}
	rec, err := f.client.Get(f.t.Context(), h.ID())
	if err != nil || rec.Run != letterSenders*lettersEach/letterRun-1 || rec.PendingEvents != 0 {
		f.t.Errorf("at the end: %+v, %v", rec, err)
	}
	f.t.Logf("%d deliveries in %d runs", rec.Claims, rec.Run+1)
	if err := f.client.Delete(f.t.Context(), h.ID()); err != nil {
		f.t.Fatal(err)
	}
	if a := f.keysOf(applied.Start, applied.End); a != 0 {
		f.t.Errorf("%d receipts are left", a)
	}
}

// killHolder kills the worker that runs the execution, waiting for one to do so, starts
// another in its place, and returns when the execution has been taken over.
func (f *fleet) killHolder(id string) {
	f.t.Helper()
	var held execution.Record
	f.eventually("the execution is delivered", func() bool {
		rec, err := f.client.Get(f.t.Context(), id)
		if err != nil {
			f.t.Fatal(err)
		}
		held = rec
		return rec.Status == execution.StatusRunning
	})
	holder := held.Deliveries[len(held.Deliveries)-1].Holder
	for i, child := range f.crew {
		if child.Name() == holder {
			f.kill(child)
			f.crew[i] = f.start()
		}
	}
	f.eventually("the execution goes on", func() bool {
		rec, err := f.client.Get(f.t.Context(), id)
		if err != nil {
			f.t.Fatal(err)
		}
		return rec.Claims > held.Claims || rec.Status.Terminal()
	})
}

// TestOldestEventIsFirst: events that have waited are given out in the order of their
// arrival, whatever their ids, by whichever worker.
func TestOldestEventIsFirst(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "sort", 0, nil)
	h, err := sortLetters.Start(t.Context(), f.client, nil)
	if err != nil {
		t.Fatal(err)
	}
	var want []letter
	for i := range letterSenders * lettersEach {
		l := letter{i % 7, i}
		if err := letters.Send(t.Context(), f.client, h.ID(), l); err != nil {
			t.Fatal(err)
		}
		want = append(want, l)
	}
	f.crew = append(f.crew, f.start())
	if seen, err := h.Result(t.Context()); err != nil || !slices.Equal(seen, want) {
		t.Errorf("%d letters in another order than they were sent, %v", len(seen), err)
	}
}

// TestTimeoutUnderKills: whoever runs an execution that has come to its deadline, it
// fails, and nothing that is under way is recorded; one that waits is ended by whoever
// is there.
func TestTimeoutUnderKills(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "sort", 2, nil)
	h, err := sortLetters.Start(t.Context(), f.client, nil, holdfast.Timeout(5*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if err := letters.Send(t.Context(), f.client, h.ID(), letter{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the letter is applied", func() bool {
		rec, err := f.client.Get(t.Context(), h.ID())
		return err == nil && rec.PendingEvents == 0 && rec.Status == execution.StatusSuspended
	})
	for i, child := range f.crew {
		f.kill(child)
		f.crew[i] = f.start()
	}
	_, err = h.Result(t.Context())
	var failed *holdfast.FailedError
	if !errors.As(err, &failed) || !failed.TimedOut() {
		t.Errorf("got %v, want that it timed out", err)
	}
	rec, err := f.client.Get(t.Context(), h.ID())
	if err != nil || rec.Deadline.Sub(rec.AdmittedAt) != 5*time.Second || rec.Deliveries[len(rec.Deliveries)-1].Claimed.Before(rec.Deadline) {
		t.Errorf("%+v, %v; want it delivered at its deadline", rec, err)
	}
}
