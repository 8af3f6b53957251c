package keyspace_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-io/holdfast/internal/keyspace"
)

func valid(names ...string) bool {
	for _, s := range names {
		if s == "" || !utf8.ValidString(s) || strings.Contains(s, "\x00") {
			return false
		}
	}
	return true
}

func bounded(n, high int64) int64 { return min(max(n, 0), high) }

// FuzzRoundTrip: Parse returns what a builder was given, bounded by the widths,
// and the key that it makes again is the same. Keys of bad names are refused.
func FuzzRoundTrip(f *testing.F) {
	for i, name := range oddNames {
		f.Add(name, oddNames[(i+1)%len(oddNames)], oddNames[(i+2)%len(oddNames)], int64(i), int64(-i), int64(1)<<i, i%10, int64(1)<<(i+10))
	}
	f.Add("a\x00b", "q\xff", "", int64(-1), int64(keyspace.MaxCounter+1), int64(1<<63-1), 10, int64(-1))
	f.Add("a", "q", "k", int64(1<<63-1), int64(keyspace.MaxCounter), int64(keyspace.MaxCounter), 9, int64(999_999_999_999_999))
	f.Fuzz(func(t *testing.T, id, queue, step string, inc, run, attempt int64, priority int, ms int64) {
		s := space(t, "/holdfast", "n")
		at := time.UnixMilli(ms)
		stored := time.UnixMilli(bounded(ms, keyspace.MaxTime.UnixMilli())).UTC()
		due := keyspace.Due{Queue: queue, Priority: int(bounded(int64(priority), 9)), At: stored, ID: id}
		st := keyspace.Step{
			ID: id, Incarnation: max(inc, 0), Run: bounded(run, keyspace.MaxCounter),
			Key: step, Attempt: bounded(attempt, keyspace.MaxCounter),
		}
		store, storedCall := keyspace.StoreKey{Name: queue, ID: id}, keyspace.CallKey{ID: id, Incarnation: st.Incarnation, Run: st.Run, Step: step}
		call := keyspace.CallKey{ID: id, Incarnation: inc, Run: run, Step: step}
		event := keyspace.EventKey{ID: id, Incarnation: inc, Name: queue, Event: step}
		storedEvent := event
		storedEvent.Incarnation = st.Incarnation
		type key = keyspace.Key
		for _, c := range []struct {
			key   string
			names bool
			want  key
		}{
			{s.Epoch(), true, key{Kind: keyspace.KindEpoch}},
			{s.Proc(id), valid(id), key{Kind: keyspace.KindProc, Proc: id}},
			{s.Spec(id), valid(id), key{Kind: keyspace.KindSpec, ID: id}},
			{s.State(id), valid(id), key{Kind: keyspace.KindState, ID: id}},
			{s.Live(id), valid(id), key{Kind: keyspace.KindLive, ID: id}},
			{s.Wake(id), valid(id), key{Kind: keyspace.KindWake, ID: id}},
			{s.Evict(queue, id), valid(id, queue), key{Kind: keyspace.KindEvict, Proc: queue, ID: id}},
			{s.Done(at, id), valid(id), key{Kind: keyspace.KindDone, At: stored, ID: id}},
			{
				s.Due(keyspace.Due{Queue: queue, Priority: priority, At: at, ID: id}), valid(id, queue),
				key{Kind: keyspace.KindDue, ID: id, Due: due},
			},
			{
				s.Step(keyspace.Step{ID: id, Incarnation: inc, Run: run, Key: step, Attempt: attempt}), valid(id, step),
				key{Kind: keyspace.KindStep, ID: id, Step: st},
			},
			{s.Purging(id), valid(id), key{Kind: keyspace.KindPurging, ID: id}},
			{
				s.Params(id, inc, run), valid(id),
				key{Kind: keyspace.KindParams, ID: id, Call: keyspace.CallKey{ID: id, Incarnation: st.Incarnation, Run: st.Run}},
			},
			{s.Event(event), valid(id, queue, step), key{Kind: keyspace.KindEvent, ID: id, Event: storedEvent}},
			{s.Applied(event), valid(id, queue, step), key{Kind: keyspace.KindApplied, ID: id, Event: storedEvent}},
			{s.Start(call), valid(id, step), key{Kind: keyspace.KindStart, ID: id, Call: storedCall}},
			{s.Store(store), valid(queue, id), key{Kind: keyspace.KindStore, Store: store}},
			{s.Receipt(call, store), valid(queue, id, step), key{Kind: keyspace.KindReceipt, ID: id, Call: storedCall, Store: store}},
			{s.Waiter(store, call), valid(queue, id, step), key{Kind: keyspace.KindWaiter, ID: id, Call: storedCall, Store: store}},
			{s.Change(store, inc), valid(queue, id), key{Kind: keyspace.KindChange, Store: store, Version: max(inc, 0)}},
			{s.Owed(store, step), valid(queue, id, step), key{Kind: keyspace.KindOwed, Store: store, Wake: step}},
			{s.Pulled(store, step), valid(queue, id, step), key{Kind: keyspace.KindPulled, Store: store, Wake: step}},
		} {
			got, err := s.Parse(c.key)
			if !c.names {
				if err == nil {
					t.Errorf("Parse(%q) = %+v; want an error", c.key, got)
				}
				continue
			}
			if err != nil || got != c.want {
				t.Errorf("Parse(%q)\n got %+v, %v\nwant %+v", c.key, got, err, c.want)
			}
			if again := build(s, got); again != c.key {
				t.Errorf("%+v builds %q, want %q", got, again, c.key)
			}
		}
	})
}

// FuzzParse: whatever Parse accepts, a builder makes again, byte for byte; so no
// two keys mean the same.
func FuzzParse(f *testing.F) {
	s := space(f, "/holdfast", "n")
	for i, name := range oddNames {
		f.Add(strings.TrimPrefix(s.State(name), s.All().Start))
		f.Add(strings.TrimPrefix(s.Due(keyspace.Due{Queue: name, Priority: i % 10, At: time.UnixMilli(int64(i)), ID: name}), s.All().Start))
		f.Add(strings.TrimPrefix(s.Step(keyspace.Step{ID: name, Incarnation: 3, Run: 1, Key: name, Attempt: int64(i)}), s.All().Start))
		f.Add(strings.TrimPrefix(s.Evict(name, name), s.All().Start))
		f.Add(strings.TrimPrefix(s.Params(name, int64(i), 1), s.All().Start))
		event := keyspace.EventKey{ID: name, Incarnation: int64(i), Name: name, Event: name}
		f.Add(strings.TrimPrefix(s.Event(event), s.All().Start))
		f.Add(strings.TrimPrefix(s.Applied(event), s.All().Start))
		f.Add("done/" + name + "/" + name)
		store, call := keyspace.StoreKey{Name: name, ID: name}, keyspace.CallKey{ID: name, Incarnation: 3, Run: 1, Step: name}
		for _, key := range []string{s.Start(call), s.Store(store), s.Receipt(call, store), s.Waiter(store, call), s.Change(store, int64(i)), s.Owed(store, name), s.Pulled(store, name)} {
			f.Add(strings.TrimPrefix(key, s.All().Start))
		}
		f.Add("outbox/" + name + "/" + name + "/" + name + "/" + name)
	}
	f.Fuzz(func(t *testing.T, rest string) {
		key := s.All().Start + rest
		if k, err := s.Parse(key); err == nil && build(s, k) != key {
			t.Errorf("Parse(%q) = %+v, which builds %q", key, k, build(s, k))
		}
	})
}

// build makes the key that was parsed.
func build(s keyspace.Space, k keyspace.Key) string {
	switch k.Kind {
	case keyspace.KindEpoch:
		return s.Epoch()
	case keyspace.KindProc:
		return s.Proc(k.Proc)
	case keyspace.KindSpec:
		return s.Spec(k.ID)
	case keyspace.KindState:
		return s.State(k.ID)
	case keyspace.KindLive:
		return s.Live(k.ID)
	case keyspace.KindWake:
		return s.Wake(k.ID)
	case keyspace.KindEvict:
		return s.Evict(k.Proc, k.ID)
	case keyspace.KindDone:
		return s.Done(k.At, k.ID)
	case keyspace.KindDue:
		return s.Due(k.Due)
	case keyspace.KindStep:
		return s.Step(k.Step)
	case keyspace.KindPurging:
		return s.Purging(k.ID)
	case keyspace.KindParams:
		return s.Params(k.ID, k.Call.Incarnation, k.Call.Run)
	case keyspace.KindStart:
		return s.Start(k.Call)
	case keyspace.KindEvent:
		return s.Event(k.Event)
	case keyspace.KindApplied:
		return s.Applied(k.Event)
	case keyspace.KindStore:
		return s.Store(k.Store)
	case keyspace.KindReceipt:
		return s.Receipt(k.Call, k.Store)
	case keyspace.KindWaiter:
		return s.Waiter(k.Store, k.Call)
	case keyspace.KindChange:
		return s.Change(k.Store, k.Version)
	case keyspace.KindOwed:
		return s.Owed(k.Store, k.Wake)
	case keyspace.KindPulled:
		return s.Pulled(k.Store, k.Wake)
	}
	return fmt.Sprintf("kind %q", k.Kind)
}

// FuzzByteOrderIsTimeOrder: of any two instants, attempts, runs, incarnations and
// versions, the keys sort as they do, and DueUntil holds an entry if it is not later.
func FuzzByteOrderIsTimeOrder(f *testing.F) {
	const maxSec = 999_999_999_999
	for _, a := range []int64{0, 1, 999, 1_785_587_415, maxSec, maxSec + 1, -1, -62_135_596_800, 1 << 40, 1<<63 - 1, -1 << 63} {
		for _, b := range []int64{0, 1_785_587_415, maxSec, -1} {
			f.Add(a, int64(999_000_000), b, int64(999_999_999), "a", "b")
			f.Add(a, int64(0), a, int64(1_000_000), "\U0010FFFF", "/")
		}
	}
	f.Fuzz(func(t *testing.T, secA, a, secB, b int64, idA, idB string) {
		s := space(t, "/holdfast", "n")
		ta, tb := time.Unix(secA, a), time.Unix(secB, b)
		want := cmp.Compare(millis(ta), millis(tb))
		due := func(at time.Time, id string) string {
			return s.Due(keyspace.Due{Queue: "q", Priority: 5, At: at, ID: id})
		}
		order(t, "done, one id", want, s.Done(ta, idA), s.Done(tb, idA))
		order(t, "due, one id", want, due(ta, idA), due(tb, idA))
		if want != 0 {
			order(t, "done, two ids", want, s.Done(ta, idA), s.Done(tb, idB))
		}
		if want != 0 && keyspace.ShardOf(idA) == keyspace.ShardOf(idB) {
			order(t, "due, two ids", want, due(ta, idA), due(tb, idB))
		}
		until := s.DueUntil("q", 5, keyspace.ShardOf(idA), tb)
		if got := holds(until, due(ta, idA)); got != (want <= 0) {
			t.Errorf("DueUntil(%v) holds the entry due at %v: %v", tb, ta, got)
		}

		step := func(inc, run, attempt int64) string {
			return s.Step(keyspace.Step{ID: idA, Incarnation: inc, Run: run, Key: idB, Attempt: attempt})
		}
		top := int64(keyspace.MaxCounter)
		counters := cmp.Compare(bounded(a, top), bounded(b, top))
		order(t, "attempts", counters, step(1, 1, a), step(1, 1, b))
		order(t, "runs", counters, step(1, a, 1), step(1, b, 1))
		order(t, "incarnations", cmp.Compare(max(secA, 0), max(secB, 0)), step(secA, 1, 1), step(secB, 1, 1))
		store := keyspace.StoreKey{Name: idA, ID: idB}
		order(t, "params of runs", counters, s.Params(idA, 1, a), s.Params(idA, 1, b))
		order(t, "versions", cmp.Compare(max(secA, 0), max(secB, 0)), s.Change(store, secA), s.Change(store, secB))
	})
}

// millis counts whole milliseconds since 1970 by seconds, so that it is right
// where time.UnixMilli overflows.
func millis(t time.Time) int64 {
	const maxSec = 999_999_999_999
	switch sec := t.Unix(); {
	case t.Before(time.Unix(0, 0)):
		return 0
	case t.After(time.Unix(maxSec, 0)) && sec > maxSec:
		return maxSec*1000 + 999
	default:
		return sec*1000 + int64(t.Nanosecond())/1_000_000
	}
}

func order(t *testing.T, what string, want int, a, b string) {
	t.Helper()
	if got := cmp.Compare(a, b); got != want {
		t.Errorf("%s: %q and %q compare as %d, want %d", what, a, b, got, want)
	}
}

func holds(s keyspace.Span, key string) bool { return s.Start <= key && key < s.End }
