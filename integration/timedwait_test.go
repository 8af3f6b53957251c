package integration_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// A history is one of the timed wait, on real etcd, with a flag that is raised or not.
type history struct {
	*testing.T
	f    *fleet
	flag store.Handle[bool]
}

func newHistory(t *testing.T) *history {
	t.Helper()
	h := newHarness(t)
	f := &fleet{t: t, h: h, client: openClient(t, h)}
	hist := &history{T: t, f: f, flag: flag.At("flag").On(f.client.Stores())}
	if _, err := hist.flag.GetOrCreate(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	return hist
}

func (h *history) raise() {
	h.Helper()
	if _, err := h.flag.Update(h.Context(), func(up *bool) error { *up = true; return nil }); err != nil {
		h.Fatal(err)
	}
}

func (h *history) race(deadline time.Time) holdfast.Handle[Seen] {
	h.Helper()
	r, err := raceFlag.Start(h.Context(), h.f.client, Race{"flag", deadline}, holdfast.WithID("race"))
	if err != nil {
		h.Fatal(err)
	}
	return r
}

// waiters waits until so many are registered.
func (h *history) waiters(n int64) {
	h.Helper()
	s := h.f.h.space.Waiters()
	h.f.eventually(strconv.FormatInt(n, 10)+" waiters", func() bool { return h.f.keysOf(s.Start, s.End) == n })
}

// comes demands what the race comes to, in both of its deliveries, and that nothing
// is left of the wait.
func (h *history) comes(r holdfast.Handle[Seen], matched bool) {
	h.Helper()
	got, err := r.Result(h.Context())
	if err != nil || got != (Seen{matched, matched}) {
		h.Errorf("the wait came to %+v, %v; want matched=%t twice", got, err, matched)
	}
	h.waiters(0)
	s := h.f.h.space.Outbox()
	h.f.eventually("no wake to be owed", func() bool { return h.f.keysOf(s.Start, s.End) == 0 })
}

// soon is a deadline that comes during the test, never one that does not.
func soon() time.Time  { return time.Now().Add(2 * time.Second) }
func never() time.Time { return time.Now().Add(time.Hour) }

// TestTimedWait: the five histories of a store wait with a deadline.
func TestTimedWait(t *testing.T) {
	t.Parallel()
	for slug, history := range map[string]func(*history){
		"match-first":                  matchFirst,
		"match-first-at-once":          matchAtOnce,
		"timeout-first":                timeoutFirst,
		"tie":                          tie,
		"crash-after-one-wake-armed":   crashAfterArming,
		"crash-after-wait-is-recorded": crashAfterRecording,
		"crash-before-cleanup":         crashBeforeCleanup,
		"crash-before-the-answer":      crashBeforeAnswer,
	} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			history(newHistory(t))
		})
	}
}

func matchFirst(h *history) {
	startWorker(h.T, h.f.h, immortal, raceFlag)
	r := h.race(never())
	h.waiters(1)
	h.raise()
	h.comes(r, true)
}

// matchAtOnce: a match counts though the deadline has passed, where it is seen first.
func matchAtOnce(h *history) {
	h.raise()
	startWorker(h.T, h.f.h, immortal, raceFlag)
	h.comes(h.race(time.Now().Add(-time.Hour)), true)
}

// timeoutFirst: a flag that is raised after the wait was over changes nothing, in no
// later delivery.
func timeoutFirst(h *history) {
	startWorker(h.T, h.f.h, immortal, raceFlag)
	r := h.race(soon())
	steps := h.f.h.space.Steps()
	h.f.eventually("the answer to be recorded, and one step more", func() bool { return h.f.keysOf(steps.Start, steps.End) >= 2 })
	h.raise()
	h.comes(r, false)
}

// tie: whichever comes first wins, and stays.
func tie(h *history) {
	startWorker(h.T, h.f.h, immortal, raceFlag)
	deadline := soon()
	r := h.race(deadline)
	<-time.After(time.Until(deadline))
	h.raise()
	got, err := r.Result(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	h.comes(r, got.First)
}

// crashAfterArming: the waiter is registered, and the worker dies before it has
// recorded that it waits. The next delivery completes that.
func crashAfterArming(h *history) {
	m := startWorker(h.T, h.f.h, fate{at: puts(h.f.h.space.Waiters()), applied: true}, raceFlag)
	r := h.race(never())
	<-m.died
	h.waiters(1)
	startWorker(h.T, h.f.h, immortal, raceFlag)
	h.f.eventually("the wait to be acknowledged", func() bool { return h.f.allSuspended(1) })
	h.raise()
	h.comes(r, true)
}

// crashAfterRecording: both are there, and the worker dies before it has acknowledged.
func crashAfterRecording(h *history) {
	m := startWorker(h.T, h.f.h, fate{at: puts(h.f.h.space.Steps()), applied: true}, raceFlag)
	r := h.race(soon())
	<-m.died
	startWorker(h.T, h.f.h, immortal, raceFlag)
	h.comes(r, false)
}

// crashBeforeCleanup: the answer is recorded, and the worker never hears of it. The
// registration went with the record.
func crashBeforeCleanup(h *history) {
	m := startWorker(h.T, h.f.h, fate{at: nth(2, puts(h.f.h.space.Steps())), applied: true}, raceFlag)
	r := h.race(never())
	h.waiters(1)
	h.raise()
	<-m.died
	h.waiters(0)
	startWorker(h.T, h.f.h, immortal, raceFlag)
	h.comes(r, true)
}

// crashBeforeAnswer: the worker dies before the answer is recorded. The next one looks
// again.
func crashBeforeAnswer(h *history) {
	m := startWorker(h.T, h.f.h, fate{at: nth(2, puts(h.f.h.space.Steps()))}, raceFlag)
	r := h.race(never())
	h.waiters(1)
	h.raise()
	<-m.died
	startWorker(h.T, h.f.h, immortal, raceFlag)
	h.comes(r, true)
}
