package memetcd_test

import (
	"context"
	"strings"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// A followed range is watched on both, from one revision on.
type followed struct {
	span        span
	from        int64
	real, model <-chan etcd.Batch
	cancel      context.CancelFunc
}

func (p *pair) watch(s span, from int64) *followed {
	ctx, cancel := context.WithCancel(p.t.Context())
	return &followed{
		span: s, from: from, cancel: cancel,
		real: p.real.Watch(ctx, s.start, s.end, from), model: p.store.Watch(ctx, s.start, s.end, from),
	}
}

// probe compares all that a new watch delivers.
func (p *pair) probe(s span, from int64) {
	p.t.Helper()
	l := p.watch(s, from)
	p.catchUp(l)
	l.cancel()
	p.counts["probe"]++
}

// overwrite puts a key and deletes it at one revision, which etcd accepts in this
// order of nested transactions, and looks what a compaction there leaves.
func (p *pair) overwrite() {
	p.t.Helper()
	key := pick(p, names)
	result := p.txn(&etcd.Txn{Then: []etcd.Op{
		&etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key}, etcd.Put{Key: "other"}}},
		&etcd.Txn{Then: []etcd.Op{etcd.Delete{Key: key}}},
	}})
	if p.t.Failed() {
		return
	}
	p.probe(everything, result.Revision)
	p.compact(result.Revision)
	p.probe(everything, result.Revision)
}

// follow begins a watch that stays. It is read at once, so that the real one is not
// behind when a compaction comes.
func (p *pair) follow(s span) {
	p.t.Helper()
	if s.end != "" && s.end != "\x00" && s.end <= s.start {
		s.end = ""
	}
	l := p.watch(s, p.model.Revision()+p.rng.Int64N(3))
	p.catchUp(l)
	p.live = append(p.live, l)
	p.counts["live watch"]++
}

func (p *pair) unfollow(i int) {
	p.t.Helper()
	p.catchUp(p.live[i])
	p.live[i].cancel()
	p.live = append(p.live[:i], p.live[i+1:]...)
}

// catchUp puts the first key of the range, and compares what the watches deliver
// up to that.
func (p *pair) catchUp(l *followed) {
	p.t.Helper()
	key := l.span.start
	if key == "" {
		key = "\x00" // as etcd takes it in a watch
	}
	result := p.txn(&etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key}}})
	if p.t.Failed() || result.Revision < l.from {
		return
	}
	p.note("watch (%q, %q) from %d up to %d", l.span.start, l.span.end, l.from, result.Revision)
	got := p.read(l.model, result.Revision)
	want := p.read(l.real, result.Revision)
	p.same("watched", p.answer(p.modelEvents(want.Events), want.Err), p.answer(got.Events, got.Err))
	if got.Err != nil {
		class, _, _ := strings.Cut(classOf(got.Err), " ") // not the revision
		p.counts["probe: "+class]++
	}
}

// read returns the events up to the revision as one batch.
func (p *pair) read(batches <-chan etcd.Batch, last int64) etcd.Batch {
	p.t.Helper()
	ctx, cancel := p.bounded()
	defer cancel()
	var all etcd.Batch
	for all.Revision < last {
		select {
		case b, ok := <-batches:
			switch {
			case !ok:
				p.t.Fatalf("%s: the channel was closed without an error", p.recent[len(p.recent)-1])
			case b.Err != nil:
				return b
			}
			all.Events, all.Revision = append(all.Events, b.Events...), b.Revision
		case <-ctx.Done():
			p.t.Fatalf("%s: after %v the watch is at %d", p.recent[len(p.recent)-1], patience, all.Revision)
		}
	}
	return all
}

func (p *pair) modelEvents(events []etcd.Event) []etcd.Event {
	var out []etcd.Event
	for _, e := range events {
		out = append(out, etcd.Event{KV: p.modelKV(e.KV), Deleted: e.Deleted})
	}
	return out
}
