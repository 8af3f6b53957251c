package audit

import (
	"fmt"
	"strings"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
)

// A storeView is what a namespace holds of one store.
type storeView struct {
	key   keyspace.StoreKey
	store *kept[record.Store]

	waiters map[string]waiter
	changes map[string]change
	owed    map[string]bool // wakes, to be delivered or pulled

	unreadable map[string]bool // as of a view
}

type waiter struct {
	kept[record.Waiter]
	step  keyspace.CallKey
	reads []path
}

type change struct {
	kept[record.Change]
	version int64 // by the key
	paths   []path
}

// ofStore says whether keys of the kind belong to a store, and not to an execution.
func ofStore(k keyspace.Kind) bool {
	switch k {
	case keyspace.KindStore, keyspace.KindWaiter, keyspace.KindChange, keyspace.KindOwed, keyspace.KindPulled:
		return true
	}
	return false
}

// store returns what is known of the store, at first nothing.
func (n *namespace) store(key keyspace.StoreKey) *storeView {
	s := n.stores[key]
	if s == nil {
		s = &storeView{key: key, waiters: map[string]waiter{}, changes: map[string]change{}, owed: map[string]bool{}, unreadable: map[string]bool{}}
		n.stores[key] = s
	}
	return s
}

// empty says whether nothing is left of the store.
func (s *storeView) empty() bool {
	return s.store == nil && len(s.waiters)+len(s.changes)+len(s.owed)+len(s.unreadable) == 0
}

// decode stores the record of a parsed key.
func (s *storeView) decode(k keyspace.Key, kv etcd.KV) (err error) {
	delete(s.unreadable, kv.Key)
	switch k.Kind {
	case keyspace.KindStore:
		if err = keep(&s.store, kv, record.DecodeStore); err == nil {
			s.store.rec.State = nil // may be large, and says nothing here
		}
	case keyspace.KindWaiter:
		w := waiter{kept: kept[record.Waiter]{key: kv.Key, created: kv.Created, modified: kv.Modified}, step: k.Call}
		if w.rec, err = record.DecodeWaiter(kv.Value); err == nil {
			w.reads, err = parsePaths(w.rec.Paths)
		}
		if err == nil {
			w.rec.Event = nil // as the state
			s.waiters[kv.Key] = w
		}
	case keyspace.KindChange:
		c := change{kept: kept[record.Change]{key: kv.Key, created: kv.Created, modified: kv.Modified}, version: k.Version}
		if c.rec, err = record.DecodeChange(kv.Value); err == nil {
			c.paths, err = parsePaths(c.rec.Paths)
		}
		if err == nil {
			s.changes[kv.Key] = c
		}
	default:
		if _, err = record.DecodeOwed(kv.Value); err == nil {
			s.owed[kv.Key] = true
		}
	}
	return err
}

// remove forgets a key.
func (s *storeView) remove(k keyspace.Key, key string) {
	if k.Kind == keyspace.KindStore {
		s.store = nil
	}
	delete(s.waiters, key)
	delete(s.changes, key)
	delete(s.owed, key)
	delete(s.unreadable, key)
}

// endings is the name of the stores at which the ends of executions are waited for.
// They have no record: the execution's state is what they hold.
const endings = "holdfast:execution"

// checkStore verifies all that can be said of one store at one revision.
func (n *namespace) checkStore(s *storeView, f *findings) {
	if len(s.unreadable) > 0 || s.empty() {
		return
	}
	for _, w := range s.waiters {
		n.checkWaiting(w, f)
	}
	if s.key.Name == endings {
		n.checkEnding(s, f)
		return
	}
	if s.store != nil {
		s.checkRecord(f)
	}
	for _, w := range s.waiters {
		if s.present(w.rec.Instance, w.key, "a registration", f) && w.rec.Since > s.store.rec.Version {
			f.add(I9, "", w.key, "has seen version %d of a store at version %d", w.rec.Since, s.store.rec.Version)
		}
	}
	for _, c := range s.changes {
		if !s.present(c.rec.Instance, c.key, "a change", f) {
			continue
		}
		if c.rec.Version != c.version || c.version > s.store.rec.Version || c.version < 1 {
			f.add(I10, "", c.key, "of version %d, of a store at version %d", c.rec.Version, s.store.rec.Version)
		}
	}
}

// checkRecord verifies the store by itself.
func (s *storeView) checkRecord(f *findings) {
	rec, key := s.store.rec, s.store.key
	if strings.Trim(rec.Instance, "0123456789abcdef-") != "" || rec.Instance == "" {
		f.add(Format, "", key, "instance %q is not of hexadecimal digits and hyphens", rec.Instance)
	}
	if created := s.store.created == s.store.modified; rec.Version < 0 || created != (rec.Version == 0) {
		f.add(I10, "", key, "version %d of an instance that was created at revision %d and last written at %d", rec.Version, s.store.created, s.store.modified)
	}
}

// present verifies that a record, which what names, belongs to the store as it is:
// the deletion of a store takes all with it. (A wake that is owed to one who came too
// late may be of an instance that is gone.)
func (s *storeView) present(instance, key, what string, f *findings) bool {
	switch {
	case s.store == nil:
		f.add(I6, "", key, "%s at a store that does not exist", what)
	case instance != s.store.rec.Instance:
		f.add(I6, "", key, "%s at instance %q of a store that is instance %q", what, instance, s.store.rec.Instance)
	default:
		return true
	}
	return false
}

// checkWaiting verifies that the execution of a registration is there, and that its
// step still waits. Other runtimes' executions have no record by which that shows.
func (n *namespace) checkWaiting(w waiter, f *findings) {
	if w.step.Incarnation == 0 {
		return
	}
	v := n.views[w.step.ID]
	switch {
	case v != nil && len(v.unreadable) > 0:
		return
	case v == nil || v.state == nil || v.state.created != w.step.Incarnation:
		f.add(I6, w.step.ID, w.key, "a registration of incarnation %d, which is gone", w.step.Incarnation)
		return
	}
	for _, st := range v.steps {
		if st.rec.Done && st.at.Run == w.step.Run && st.at.Key == w.step.Step {
			f.add(I6, w.step.ID, w.key, "a registration of a step that was done at revision %d", st.modified)
		}
	}
}

// A commit names one version of one instance of a store.
type commit struct {
	store    keyspace.StoreKey
	instance string
	version  int64
}

// checkCommits verifies the receipts against the stores, and against each other: one
// mutation has one receipt.
func (n *namespace) checkCommits(f *findings) {
	claimed := map[commit]string{}
	for _, v := range n.views {
		for _, r := range v.receipts {
			if s := n.stores[r.store]; s != nil && s.store != nil && len(s.unreadable) == 0 && s.store.rec.Instance == r.rec.Instance {
				r.checkCommit(s.store.rec.Version, f)
			}
			if r.deletion() {
				continue // of the version that another receipt may have
			}
			c := commit{r.store, r.rec.Instance, r.rec.Version}
			if other := claimed[c]; other != "" {
				f.add(I10, v.id, max(r.key, other), "for version %d of instance %q, as %q is", c.version, c.instance, min(r.key, other))
			}
			claimed[c] = r.key
		}
	}
}

// deletion says whether the receipt's mutation deleted the store.
func (r receipt) deletion() bool { return r.rec.Kind == "delete" }

// checkCommit verifies the receipt of a mutation of an instance that is there, at the
// version.
func (r receipt) checkCommit(version int64, f *findings) {
	switch {
	case r.deletion():
		f.add(I10, r.at.ID, r.key, "for the deletion of instance %q, which is there", r.rec.Instance)
	case r.rec.Version > version || r.rec.Version < 1:
		f.add(I10, r.at.ID, r.key, "for version %d of a store at version %d", r.rec.Version, version)
	}
}

// committed tells what a store was.
func committed(s *kept[record.Store]) string {
	if s == nil {
		return "there was no store"
	}
	return fmt.Sprintf("instance %q was at version %d", s.rec.Instance, s.rec.Version)
}
