package memetcd

import (
	"fmt"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// A span is a key, or the keys of [start, end). Where end is one zero byte it
// reaches from start to the last key, as in etcd.
type span struct{ start, end string }

const toTheLast = "\x00"

func (s span) contains(key string) bool {
	switch s.end {
	case "":
		return key == s.start
	case toTheLast:
		return key >= s.start
	}
	return key >= s.start && key < s.end
}

// A change is what happened at one revision, in order.
type change struct {
	revision int64
	events   []etcd.Event
}

// A history holds every version of every key since the last compaction.
//
//   - versions[k] is ascending and not empty; a deleted key is there until it is
//     compacted away;
//   - keys holds the names of versions in order;
//   - changes is ascending, from compacted on, and holds the same events and the
//     deletions.
type history struct {
	revision  int64
	compacted int64 // the oldest revision that can be read; -1: never compacted
	keys      []string
	versions  map[string][]etcd.Event
	changes   []change
}

func newHistory() history {
	return history{revision: 1, compacted: -1, versions: map[string][]etcd.Event{}}
}

// readable says whether the revision can be read. What was compacted is an error
// without the oldest revision, since etcd does not say it of a read.
func (h *history) readable(revision int64) error {
	switch {
	case revision > h.revision:
		return fmt.Errorf("%w: revision %d is in the future; the current one is %d", etcd.ErrInvalid, revision, h.revision)
	case revision < h.compacted:
		return &etcd.CompactedError{}
	}
	return nil
}

// at returns the key as of the revision.
func (h *history) at(key string, revision int64) (etcd.KV, bool) {
	for _, v := range slices.Backward(h.versions[key]) {
		if v.KV.Modified <= revision {
			return v.KV, !v.Deleted
		}
	}
	return etcd.KV{}, false
}

// names returns the names in the span of keys that are or were there.
func (h *history) names(s span) []string {
	from, found := slices.BinarySearch(h.keys, s.start)
	switch {
	case s.end == "" && !found:
		return nil
	case s.end == "":
		return h.keys[from : from+1]
	case s.end == toTheLast:
		return h.keys[from:]
	}
	to, _ := slices.BinarySearch(h.keys, s.end)
	return h.keys[from:max(from, to)]
}

// read returns the keys of a Get as of the revision. Etcd reads keys without values
// from its index, which does not know their leases.
func (h *history) read(get etcd.Get, at int64) etcd.Result {
	var r etcd.Result
	for _, name := range h.names(span{get.Key, get.End}) {
		kv, ok := h.at(name, at)
		if !ok {
			continue
		}
		r.Count++
		if get.Limit > 0 && r.Count > get.Limit {
			r.More = true
			continue
		}
		if get.KeysOnly {
			kv.Value, kv.Lease = nil, 0
		}
		kv.Value = slices.Clone(kv.Value)
		r.KVs = append(r.KVs, kv)
	}
	return r
}

// add appends a version.
func (h *history) add(e etcd.Event) {
	key := e.KV.Key
	if i, found := slices.BinarySearch(h.keys, key); !found {
		h.keys = slices.Insert(h.keys, i, key)
	}
	h.versions[key] = append(h.versions[key], e)
}

// commit makes a draft the next revision; false: it changed nothing.
func (h *history) commit(d *draft) (change, bool) {
	if len(d.events) == 0 {
		return change{}, false
	}
	h.revision++
	c := change{h.revision, d.events}
	h.changes = append(h.changes, c)
	return c, true
}

// since returns the changes from the revision on.
func (h *history) since(revision int64) []change {
	i, _ := slices.BinarySearchFunc(h.changes, revision, func(c change, r int64) int { return int(c.revision - r) })
	return h.changes[i:]
}

// compact keeps of each key the version that is current at the revision, and all
// after it. Of the changes it keeps those of the very revision, for watches that
// begin there.
func (h *history) compact(revision int64) error {
	if revision <= h.compacted {
		return &etcd.CompactedError{}
	}
	if revision > h.revision {
		return h.readable(revision)
	}
	h.compacted = revision
	h.keys = slices.DeleteFunc(h.keys, func(key string) bool {
		kept := current(h.versions[key], revision)
		if len(kept) == 0 {
			delete(h.versions, key)
			return true
		}
		h.versions[key] = kept
		return false
	})
	h.changes = slices.Clone(h.since(revision))
	if len(h.changes) > 0 && h.changes[0].revision == revision {
		h.changes[0].events = lasting(h.changes[0])
	}
	return nil
}

// current returns the versions that can be read at the revision and later ones.
func current(versions []etcd.Event, revision int64) []etcd.Event {
	for i, v := range slices.Backward(versions) {
		if v.KV.Modified > revision {
			continue
		}
		if v.Deleted {
			i++
		}
		return slices.Clone(versions[i:])
	}
	return versions
}

// lasting returns a change without what a later event of the same revision
// overwrote: a put whose key a nested transaction deleted.
func lasting(c change) []etcd.Event {
	var kept []etcd.Event
	for i, e := range c.events {
		again := func(later etcd.Event) bool { return later.KV.Key == e.KV.Key }
		if !slices.ContainsFunc(c.events[i+1:], again) {
			kept = append(kept, e)
		}
	}
	return kept
}
