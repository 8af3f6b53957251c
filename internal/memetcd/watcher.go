package memetcd

import (
	"fmt"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// maxBatch is how many revisions etcd sends at once to a watch that is behind.
const maxBatch = 1000

// A watcher is what the server knows of a watch. What it has yet to take is queued
// in batches: of many revisions where they were past when it began, then of one each.
type watcher struct {
	span  span
	from  int64
	gated bool
	queue []etcd.Batch
	err   error         // ends the watch, after what is queued
	wake  chan struct{} // holds one signal when there is something to take
}

// watch begins a watch. Revision 0 stands for the next one. What etcd refuses is the
// watcher's err.
func (s *Server) watch(keys span, revision int64, gated bool) (*watcher, error) {
	if keys.start == "" {
		keys.start = toTheLast // the smallest key
	}
	w := &watcher{span: keys, from: revision, gated: gated, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.beginLocked(); err != nil {
		return nil, err
	}
	switch {
	case revision < 0:
		w.end(&etcd.CompactedError{})
	case keys.end != "" && keys.end != toTheLast && keys.start >= keys.end:
		// Etcd's reason has no code, so that no client can tell it from a lost connection.
		w.end(fmt.Errorf("etcd: the watched range from %q to %q is empty", keys.start, keys.end))
	case revision == 0:
		w.from = s.history.revision + 1
	case revision < s.history.compacted:
		w.end(&etcd.CompactedError{Revision: s.history.compacted})
	default:
		for past := range slices.Chunk(w.watched(s.history.since(revision)), maxBatch) {
			w.queue = append(w.queue, batch(past))
		}
		w.signal()
	}
	s.watchers = append(s.watchers, w)
	return w, nil
}

// unwatch ends a watch.
func (s *Server) unwatch(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = slices.DeleteFunc(s.watchers, func(other *watcher) bool { return other == w })
}

// push queues a change, if it is about a watched key. REQUIRES: the server's lock.
func (w *watcher) push(c change) {
	if w.err != nil || c.revision < w.from {
		return
	}
	if watched := w.watched([]change{c}); len(watched) > 0 {
		w.queue = append(w.queue, batch(watched))
		w.signal()
	}
}

// watched returns what of the changes is about watched keys.
func (w *watcher) watched(all []change) []change {
	var mine []change
	for _, c := range all {
		var events []etcd.Event
		for _, e := range c.events {
			if w.span.contains(e.KV.Key) {
				events = append(events, e)
			}
		}
		if len(events) > 0 {
			mine = append(mine, change{c.revision, events})
		}
	}
	return mine
}

// batch returns changes as they are delivered, with values of their own.
func batch(changes []change) etcd.Batch {
	var b etcd.Batch
	for _, c := range changes {
		b.Revision = c.revision
		for _, e := range c.events {
			e.KV.Value = slices.Clone(e.KV.Value)
			b.Events = append(b.Events, e)
		}
	}
	return b
}

// compact ends the watch of a gated client that has not taken what is forgotten.
// Others have: etcd's client takes events as they come, and buffers them. REQUIRES:
// the server's lock.
func (w *watcher) compact(revision int64) {
	if w.gated && len(w.queue) > 0 && first(w.queue[0]) < revision {
		w.queue = nil
		w.end(&etcd.CompactedError{Revision: revision})
	}
}

// end ends the watch after what is queued. REQUIRES: the server's lock.
func (w *watcher) end(err error) {
	w.err = err
	w.signal()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func first(b etcd.Batch) int64 { return b.Events[0].KV.Modified }

// next returns the first revision that can be taken, 0 for an error; false: there
// is nothing.
func (s *Server) next(w *watcher) (int64, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(w.queue) > 0 {
		return first(w.queue[0]), true
	}
	return 0, w.err != nil
}

// take takes a batch off the queue, or the error.
func (s *Server) take(w *watcher) etcd.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(w.queue) == 0 {
		return etcd.Batch{Err: w.err}
	}
	b := w.queue[0]
	w.queue = w.queue[1:]
	return b
}
