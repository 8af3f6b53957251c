package audit

import (
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
)

// A pastStore is what a store was before a revision that touched it.
type pastStore struct {
	store *kept[record.Store]
	told  []change // those that the revision deletes
}

// touched notes what the stores were that the events are about.
func (r *Replay) touched(events []etcd.Event) map[keyspace.StoreKey]pastStore {
	before := map[keyspace.StoreKey]pastStore{}
	for _, e := range events {
		k, err := r.n.space.Parse(e.KV.Key)
		if err != nil || !ofStore(k.Kind) {
			continue
		}
		s := r.n.store(k.Store)
		was, noted := before[k.Store]
		if !noted {
			was.store = s.store
		}
		if c, found := s.changes[e.KV.Key]; found && e.Deleted {
			was.told = append(was.told, c)
		}
		before[k.Store] = was
	}
	return before
}

// followStores verifies the stores that a revision touched.
func (r *Replay) followStores(before map[keyspace.StoreKey]pastStore) {
	for key, was := range before {
		s := r.n.store(key)
		r.n.checkStore(s, &r.f)
		r.followStore(s, was)
		if s.empty() {
			delete(r.n.stores, key)
		}
	}
}

// followStore verifies a store against what it was: a creation makes a new instance of
// version 0, a mutation the next version, and a deletion leaves nothing.
func (r *Replay) followStore(s *storeView, was pastStore) {
	old, now := was.store, s.store
	switch {
	case len(s.unreadable) > 0:
		return
	case now == nil && old != nil:
		for key := range s.owed {
			r.f.add(I6, "", key, "owed by a store that was deleted")
		}
	case now == nil:
	case old == nil:
		if now.rec.Version != 0 || r.instances[now.rec.Instance] {
			r.f.add(I10, "", now.key, "created as version %d of instance %q, which was there before: %t", now.rec.Version, now.rec.Instance, r.instances[now.rec.Instance])
		}
		r.instances[now.rec.Instance] = true
	case old.modified != now.modified && (now.rec.Instance != old.rec.Instance || now.rec.Version != old.rec.Version+1):
		r.f.add(I10, "", now.key, "version %d of instance %q was written where %s", now.rec.Version, now.rec.Instance, committed(old))
	}
	r.followWaiters(s, was.told)
}

// followWaiters verifies that a change was not forgotten before everyone whom it
// concerns was woken: their registrations are gone, or newer than the change.
func (r *Replay) followWaiters(s *storeView, told []change) {
	for _, c := range told {
		for _, w := range s.waiters {
			if w.rec.Instance == c.rec.Instance && w.rec.Since < c.rec.Version && intersect(w.reads, c.paths) {
				r.f.add(I9, w.step.ID, w.key, "has seen version %d, and version %d, which concerns it, was forgotten", w.rec.Since, c.rec.Version)
			}
		}
	}
}

// storeEvent verifies that a receipt was written with its mutation, a change with its
// version, and a registration at the version that it has seen.
func (r *Replay) storeEvent(e etcd.Event, before map[keyspace.StoreKey]pastStore) {
	k, err := r.n.space.Parse(e.KV.Key)
	if err != nil || e.Deleted {
		return
	}
	s := r.n.stores[k.Store]
	if s == nil {
		s = &storeView{}
	}
	switch k.Kind {
	case keyspace.KindReceipt:
		v := r.n.view(k.ID)
		rec, readable := v.receipts[e.KV.Key]
		if !readable {
			return
		}
		if st := v.state; k.Call.Incarnation != 0 && st != nil && st.rec.Run != k.Call.Run {
			r.f.add(I10, k.ID, rec.key, "written by run %d, and run %d goes on", k.Call.Run, st.rec.Run)
		}
		r.receiptEvent(rec, s.store, before[k.Store].store)
	case keyspace.KindChange:
		if c, readable := s.changes[e.KV.Key]; readable && k.Store.Name != endings && (s.store == nil || s.store.modified != e.KV.Modified || s.store.rec.Version != c.rec.Version) {
			r.f.add(I10, "", c.key, "a change of version %d that was not written with it", c.rec.Version)
		}
	case keyspace.KindWaiter:
		if w, readable := s.waiters[e.KV.Key]; readable && s.store != nil && w.rec.Since != s.store.rec.Version {
			r.f.add(I9, k.ID, w.key, "registered at version %d by a step that has seen version %d", s.store.rec.Version, w.rec.Since)
		}
	}
}

// receiptEvent verifies a new receipt against the store, as it is and as it was if the
// revision touched it.
func (r *Replay) receiptEvent(rec receipt, now, old *kept[record.Store]) {
	want := commit{store: rec.store}
	switch {
	case now != nil && now.modified == rec.modified:
		want.instance, want.version = now.rec.Instance, now.rec.Version
	case now == nil && old != nil:
		want.instance, want.version = old.rec.Instance, old.rec.Version
	default:
		r.f.add(I10, rec.at.ID, rec.key, "written without its mutation: %s, and was not touched", committed(now))
		return
	}
	if got := (commit{rec.store, rec.rec.Instance, rec.rec.Version}); got != want || rec.deletion() != (now == nil) {
		r.f.add(I10, rec.at.ID, rec.key, "of kind %q, for version %d of instance %q, written with version %d of instance %q",
			rec.rec.Kind, got.version, got.instance, want.version, want.instance)
	}
}
