package keyspace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/keyspace"
)

// A named is a key with what it was made of.
type named struct {
	key      string
	root     string // prefix and namespace
	kind     keyspace.Kind
	id       string
	queue    string
	priority int
	proc     string
	inc, run int64
	at       time.Time
	store    keyspace.StoreKey
}

// A held is a span with what it must hold, and nothing else.
type held struct {
	name string
	span keyspace.Span
	want func(named) bool
}

// A world is two of everything that a key is made of.
type world struct {
	spaces   map[string]keyspace.Space
	ids      []string
	queues   []string
	procs    []string
	numbers  []int64
	instants []time.Time
}

// stores differ in their names, in their ids and in both.
func (w world) stores() []keyspace.StoreKey {
	var all []keyspace.StoreKey
	for _, name := range w.queues {
		for _, id := range w.ids[:2] {
			all = append(all, keyspace.StoreKey{Name: name, ID: id})
		}
	}
	return all
}

// keys builds every kind of key of every combination.
func (w world) keys() []named {
	var all []named
	for root, s := range w.spaces {
		add := func(n named) { n.root = root; all = append(all, n) }
		add(named{key: s.Epoch(), kind: keyspace.KindEpoch})
		for _, p := range w.procs {
			add(named{key: s.Proc(p), kind: keyspace.KindProc, proc: p})
		}
		for _, id := range w.ids {
			add(named{key: s.Spec(id), kind: keyspace.KindSpec, id: id})
			add(named{key: s.State(id), kind: keyspace.KindState, id: id})
			add(named{key: s.Live(id), kind: keyspace.KindLive, id: id})
			add(named{key: s.Wake(id), kind: keyspace.KindWake, id: id})
			for _, p := range w.procs {
				add(named{key: s.Evict(p, id), kind: keyspace.KindEvict, id: id, proc: p})
			}
			for _, at := range w.instants {
				add(named{key: s.Done(at, id), kind: keyspace.KindDone, id: id, at: at})
				for i, q := range w.queues {
					d := keyspace.Due{Queue: q, Priority: i, At: at, ID: id}
					add(named{key: s.Due(d), kind: keyspace.KindDue, id: id, queue: q, priority: i, at: at})
				}
			}
			for i, inc := range w.numbers {
				for _, run := range w.numbers {
					st := keyspace.Step{ID: id, Incarnation: inc, Run: run, Key: w.queues[i], Attempt: run}
					add(named{key: s.Step(st), kind: keyspace.KindStep, id: id, inc: inc, run: run})
					add(named{key: s.Params(id, inc, run), kind: keyspace.KindParams, id: id, inc: inc, run: run})
					c := keyspace.CallKey{ID: id, Incarnation: inc, Run: run, Step: w.queues[i]}
					add(named{key: s.Start(c), kind: keyspace.KindStart, id: id, inc: inc, run: run})
					for _, store := range w.stores() {
						add(named{key: s.Receipt(c, store), kind: keyspace.KindReceipt, id: id, inc: inc, run: run, store: store})
						add(named{key: s.Waiter(store, c), kind: keyspace.KindWaiter, id: id, inc: inc, run: run, store: store})
					}
				}
			}
			add(named{key: s.Purging(id), kind: keyspace.KindPurging, id: id})
			w.eventKeys(s, id, add)
		}
		for _, store := range w.stores() {
			add(named{key: s.Store(store), kind: keyspace.KindStore, store: store})
			for _, n := range w.numbers {
				add(named{key: s.Change(store, n), kind: keyspace.KindChange, store: store})
			}
			for _, wake := range w.procs {
				add(named{key: s.Owed(store, wake), kind: keyspace.KindOwed, store: store})
				add(named{key: s.Pulled(store, wake), kind: keyspace.KindPulled, store: store})
			}
		}
	}
	return all
}

// An adder notes a range of one kind of key; of no kind, of all.
type adder func(name string, span keyspace.Span, kind keyspace.Kind, want func(named) bool)

func whole(named) bool { return true }

// spans builds every kind of range.
func (w world) spans() []held {
	var all []held
	for root, s := range w.spaces {
		add := func(name string, span keyspace.Span, kind keyspace.Kind, want func(named) bool) {
			all = append(all, held{name, span, func(n named) bool {
				return n.root == root && (kind == "" || n.kind == kind) && want(n)
			}})
		}
		w.storeSpans(s, add)
		w.eventSpans(s, add)
		add("All", s.All(), "", whole)
		add("Procs", s.Procs(), keyspace.KindProc, whole)
		add("Specs", s.Specs(), keyspace.KindSpec, whole)
		add("Lives", s.Lives(), keyspace.KindLive, whole)
		add("Wakes", s.Wakes(), keyspace.KindWake, whole)
		add("AllEvicts", s.AllEvicts(), keyspace.KindEvict, whole)
		add("Dones", s.Dones(), keyspace.KindDone, whole)
		add("AllDues", s.AllDues(), keyspace.KindDue, whole)
		add("Steps", s.Steps(), keyspace.KindStep, whole)
		add("AllParams", s.AllParams(), keyspace.KindParams, whole)
		add("Starts", s.Starts(), keyspace.KindStart, whole)
		add("States of any", s.States(""), keyspace.KindState, whole)
		for _, id := range w.ids {
			add("States", s.States(id), keyspace.KindState, func(n named) bool { return strings.HasPrefix(n.id, id) })
			add("StepsOf", s.StepsOf(id), keyspace.KindStep, func(n named) bool { return n.id == id })
			add("StartsOf", s.StartsOf(id), keyspace.KindStart, func(n named) bool { return n.id == id })
			add("AnyParams", s.AnyParams(id), keyspace.KindParams, func(n named) bool { return n.id == id })
			for _, inc := range w.numbers {
				add("ParamsOf", s.ParamsOf(id, inc), keyspace.KindParams, func(n named) bool { return n.id == id && n.inc == inc })
				for _, run := range w.numbers {
					its := func(n named) bool { return n.id == id && n.inc == inc && n.run == run }
					add("Run", s.Run(id, inc, run), keyspace.KindStep, its)
					add("StartsOfRun", s.StartsOfRun(id, inc, run), keyspace.KindStart, its)
				}
			}
		}
		for _, p := range w.procs {
			add("Evicts", s.Evicts(p), keyspace.KindEvict, func(n named) bool { return n.proc == p })
		}
		for i, q := range w.queues {
			add("Dues", s.Dues(q), keyspace.KindDue, func(n named) bool { return n.queue == q })
			for _, shard := range []int{0, keyspace.ShardOf(w.ids[0]), keyspace.Shards - 1} {
				for _, t := range w.instants {
					add("DueUntil", s.DueUntil(q, i, shard, t), keyspace.KindDue, func(n named) bool {
						return n.queue == q && n.priority == i && keyspace.ShardOf(n.id) == shard && millis(n.at) <= millis(t)
					})
				}
			}
		}
	}
	return all
}

// storeSpans builds the ranges of stores.
func (w world) storeSpans(s keyspace.Space, add adder) {
	add("AllStores", s.AllStores(), keyspace.KindStore, whole)
	add("Receipts", s.Receipts(), keyspace.KindReceipt, whole)
	add("Waiters", s.Waiters(), keyspace.KindWaiter, whole)
	add("AllChanges", s.AllChanges(), keyspace.KindChange, whole)
	add("AllOwed", s.AllOwed(), keyspace.KindOwed, whole)
	add("AllPulled", s.AllPulled(), keyspace.KindPulled, whole)
	add("Purgings", s.Purgings(), keyspace.KindPurging, whole)
	add("Outbox", s.Outbox(), "", func(n named) bool { return n.kind == keyspace.KindChange || n.kind == keyspace.KindOwed })
	for _, name := range w.queues {
		add("Stores", s.Stores(name), keyspace.KindStore, func(n named) bool { return n.store.Name == name })
	}
	for _, store := range w.stores() {
		its := func(n named) bool { return n.store == store }
		add("WaitersOf", s.WaitersOf(store), keyspace.KindWaiter, its)
		add("ChangesOf", s.ChangesOf(store), keyspace.KindChange, its)
		add("OwedOf", s.OwedOf(store), keyspace.KindOwed, its)
		add("PulledOf", s.PulledOf(store), keyspace.KindPulled, its)
	}
	for _, id := range w.ids {
		add("ReceiptsOf", s.ReceiptsOf(id), keyspace.KindReceipt, func(n named) bool { return n.id == id })
		for _, inc := range w.numbers {
			for _, run := range w.numbers {
				add("ReceiptsOfRun", s.ReceiptsOfRun(id, inc, run), keyspace.KindReceipt, func(n named) bool {
					return n.id == id && n.inc == inc && n.run == run
				})
			}
		}
	}
}

// FuzzNoRangeHoldsAnothersKey: every range holds exactly the keys that it is for,
// whatever the prefixes, namespaces, ids, queues, processes and step keys are;
// and no two of them share a key.
func FuzzNoRangeHoldsAnothersKey(f *testing.F) {
	for i, a := range oddNames {
		b := oddNames[(i+1)%len(oddNames)]
		f.Add("/holdfast", "/holdfast", a, b, a, b, b, a, a, b, int64(i), int64(i+1), int64(1)<<i)
		f.Add("/holdfast", "/holdfast", "n", a, a, a+b, a, a+b, b, a, int64(1), int64(10), int64(1_785_587_415_123))
		f.Add("/holdfast", "/holdfast", "n", "n", a, a+"/b", "q", "q/"+a, "p", a, int64(7), int64(70), int64(-1))
		f.Add("/holdfast", "/holdfast/"+a, "n", a+"/n", "a", "b", "q", "r", "p", "o", int64(0), int64(keyspace.MaxCounter), int64(0))
	}
	f.Add("/holdfast", "/holdfast/v1/n", "n", "n", "a", "b", "q", "r", "p", "o", int64(1), int64(2), int64(3))
	f.Add("/holdfast/v1", "/holdfast", "n", "v1/n", "a", "a\x00", "\xff", "\xff\xff", "\xf4\x8f\xbf\xbf", "\xf4", int64(1), int64(2), int64(3))
	f.Fuzz(func(t *testing.T, prefixA, prefixB, nsA, nsB, idA, idB, queueA, queueB, procA, procB string, m, n, ms int64) {
		w := world{spaces: map[string]keyspace.Space{}}
		for _, c := range [][2]string{{prefixA, nsA}, {prefixA, nsB}, {prefixB, nsA}, {prefixB, nsB}} {
			if s, err := keyspace.New(c[0], c[1]); err == nil {
				w.spaces[c[0]+"\x00"+c[1]] = s
			}
		}
		w.ids = distinct(idA, idB, idA+"/"+idB, idA+idB)
		w.queues = []string{queueA, queueB + "\x01" + queueA}
		w.procs = distinct(procA, procB)
		top := int64(keyspace.MaxCounter)
		w.numbers = []int64{bounded(m, top-1), 0}
		if w.numbers[1] = bounded(n, top); w.numbers[1] == w.numbers[0] {
			w.numbers[1]++
		}
		at := time.UnixMilli(bounded(ms, keyspace.MaxTime.UnixMilli()-1))
		w.instants = []time.Time{at, at.Add(time.Millisecond)}

		keys := w.keys()
		seen := make(map[string]named, len(keys))
		for _, k := range keys {
			if other, twice := seen[k.key]; twice {
				t.Errorf("%+v and %+v have one key", other, k)
			}
			seen[k.key] = k
		}
		for _, span := range w.spans() {
			for _, k := range keys {
				if got := holds(span.span, k.key); got != span.want(k) {
					t.Fatalf("%s %q holds %q: %v, want %v", span.name, span.span, k.key, got, !got)
				}
			}
		}
	})
}

// distinct drops what is there already.
func distinct(names ...string) []string {
	var all []string
	seen := map[string]bool{}
	for _, s := range names {
		if !seen[s] {
			seen[s] = true
			all = append(all, s)
		}
	}
	return all
}
