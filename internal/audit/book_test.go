package audit_test

import (
	"context"
	"slices"
	"sort"
	"testing"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A book is a namespace in memory with correct transactions for each operation of
// the protocol, written anew here: the records of the engine are judged by it, so
// it can't be the engine's.
type book struct {
	etcd.Store // Get only
	t          testing.TB
	space      keyspace.Space
	kvs        map[string]etcd.KV
	revision   int64
	compact    int // so many readings are overtaken by a compaction after their first page
	replay     *audit.Replay
	events     []etcd.Event // of every revision
}

func newBook(t testing.TB) *book {
	t.Helper()
	space, err := keyspace.New("/holdfast", "audit")
	if err != nil {
		t.Fatal(err)
	}
	b := &book{t: t, space: space, kvs: map[string]etcd.KV{}, replay: audit.NewReplay(space)}
	b.txn(put(space.Epoch(), []byte("epoch")))
	return b
}

// txn applies the changes at one revision, which it returns.
func (b *book) txn(changes ...etcd.Event) int64 {
	b.revision++
	batch := etcd.Batch{Revision: b.revision}
	for _, c := range changes {
		old := b.kvs[c.KV.Key]
		if c.KV.Modified = b.revision; c.Deleted {
			if old.Key == "" {
				continue
			}
			delete(b.kvs, c.KV.Key)
		} else {
			if c.KV.Created = old.Created; old.Key == "" {
				c.KV.Created = b.revision
			}
			b.kvs[c.KV.Key] = c.KV
		}
		batch.Events = append(batch.Events, c)
	}
	b.replay.Apply(batch)
	b.events = append(b.events, batch.Events...)
	return b.revision
}

func put(key string, value []byte) etcd.Event {
	return etcd.Event{KV: etcd.KV{Key: key, Value: value}}
}

func del(key string) etcd.Event { return etcd.Event{KV: etcd.KV{Key: key}, Deleted: true} }

// Get serves one page.
func (b *book) Get(_ context.Context, g etcd.Get) (etcd.Result, int64, error) {
	if g.Revision != 0 && b.compact > 0 {
		b.compact--
		return etcd.Result{}, 0, &etcd.CompactedError{Revision: b.revision}
	}
	var keys []string
	for key := range b.kvs {
		if key >= g.Key && key < g.End {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	var r etcd.Result
	for _, key := range keys {
		if int64(len(r.KVs)) == g.Limit {
			r.More = true
			break
		}
		r.KVs = append(r.KVs, b.kvs[key])
	}
	return r, b.revision, nil
}

func (b *book) check() audit.Report {
	b.t.Helper()
	r, err := audit.Check(context.Background(), b, b.space)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// state returns the execution's state record and its mod-revision.
func (b *book) state(id string) (*record.State, int64) {
	kv := b.kvs[b.space.State(id)]
	s, err := record.DecodeState(kv.Value)
	if err != nil {
		b.t.Fatalf("state of %q: %v", id, err)
	}
	s.Incarnation = kv.Created
	return s, kv.Modified
}

func (b *book) live(id string) (*record.Live, int64) {
	kv, ok := b.kvs[b.space.Live(id)]
	if !ok {
		return nil, 0
	}
	l, err := record.DecodeLive(kv.Value, kv.Modified)
	if err != nil {
		b.t.Fatalf("live of %q: %v", id, err)
	}
	return l, kv.Modified
}

func (b *book) due(id string, at int64) string {
	return b.space.Due(keyspace.Due{Queue: "q", Priority: keyspace.DefaultPriority, At: unix(at), ID: id})
}

// entry returns the key of the one due entry of the execution, or "".
func (b *book) entry(id string) string {
	for key := range b.kvs {
		if k, err := b.space.Parse(key); err == nil && k.Kind == keyspace.KindDue && k.ID == id {
			return key
		}
	}
	return ""
}

// write replaces the state, with the due entry that belongs to it.
func (b *book) write(id string, s *record.State, more ...etcd.Event) int64 {
	if old := b.entry(id); old != "" {
		more = append(more, del(old))
	}
	if !s.Claimed && !s.Terminal() && s.Due != 0 {
		key := b.due(id, max(s.Due, s.NotBefore))
		more = slices.DeleteFunc(more, func(e etcd.Event) bool { return e.KV.Key == key })
		more = append(more, put(key, (&record.Due{StateRevision: record.Own}).Encode(s)))
	}
	return b.txn(append(more, put(b.space.State(id), s.Encode()))...)
}

func (b *book) proc(p string) {
	e := put(b.space.Proc(p), (&record.Proc{Holder: "worker", TTL: 30}).Encode())
	e.KV.Lease = 7
	b.txn(e)
}

func (b *book) admit(id string) {
	s := &record.State{Workflow: "w", Queue: "q", Base: execution.StatusAdmitted, Due: 1000, Nonce: "admit"}
	b.write(id, s, put(b.space.Spec(id), (&record.Spec{Workflow: "w", Queue: "q", Admitted: 1000, Nonce: "admit"}).Encode()))
}

// claim takes the execution for the process, over an expired delivery if there is
// one, and returns the token.
func (b *book) claim(id, proc string) execution.Token {
	s, token := b.state(id)
	if live, _ := b.live(id); s.Claimed {
		s.Deliveries[len(s.Deliveries)-1].Token = execution.Token(token)
		s.Deliveries[len(s.Deliveries)-1].How = execution.HowExpired
		s.Deliveries[len(s.Deliveries)-1].Ended = live.Expired
		s.NotBefore = live.Reaped
		s.Unacked++
	}
	s.Claimed, s.Claims, s.Nonce = true, s.Claims+1, "claim"
	s.Append(record.Delivery{Holder: "worker", Proc: proc, Claimed: 2000, How: execution.HowRunning, Nonce: "claim"})
	return execution.Token(b.write(id, s, del(b.space.Wake(id)),
		put(b.space.Live(id), (&record.Live{Token: record.Own, Proc: proc, Holder: "worker"}).Encode())))
}

// end ends the delivery with the changes that edit makes to the state.
func (b *book) end(id string, how execution.How, edit func(s *record.State), more ...etcd.Event) {
	s, token := b.state(id)
	last := &s.Deliveries[len(s.Deliveries)-1]
	last.Token, last.How, last.Ended = execution.Token(token), how, 3000
	s.Claimed, s.Nonce = false, "end"
	edit(s)
	b.write(id, s, append(more, del(b.space.Live(id)), del(b.space.Wake(id)))...)
}

func (b *book) release(id string) {
	b.end(id, execution.HowReleased, func(s *record.State) { s.Unacked++; s.NotBefore = 3000 + 1000*s.Unacked })
}

func (b *book) fence(id string) {
	live, _ := b.live(id)
	_, token := b.state(id)
	b.end(id, execution.HowFenced, func(s *record.State) { s.Unacked++; s.NotBefore = 3000 + 1000*s.Unacked },
		put(b.space.Evict(live.Proc, id), (&record.Evict{Token: execution.Token(token)}).Encode()))
}

func (b *book) suspend(id string, due int64) {
	b.end(id, execution.HowSuspended, func(s *record.State) {
		s.Base, s.Unacked, s.NotBefore, s.Due = execution.StatusSuspended, 0, 0, due
	})
}

func (b *book) complete(id string) {
	b.end(id, execution.HowCompleted, func(s *record.State) {
		s.Base, s.Outcome, s.Result = execution.StatusCompleted, execution.Completed, []byte(`1`)
		s.Unacked, s.NotBefore, s.Due, s.Ended = 0, 0, 0, 3000
	}, append(b.notice(id), put(b.space.Done(unix(3000), id), nil))...)
}

func (b *book) wake(id string, at int64) {
	b.txn(put(b.space.Wake(id), (&record.Wake{At: at}).Encode()))
}

func (b *book) step(id, key string, token execution.Token) string {
	s, _ := b.state(id)
	k := b.space.Step(keyspace.Step{ID: id, Incarnation: s.Incarnation, Key: key})
	b.txn(put(k, (&record.Step{Done: true, Token: token, Written: 2500, Response: []byte(`"ok"`)}).Encode()))
	return k
}

// expire ends the process.
func (b *book) expire(proc string) { b.txn(del(b.space.Proc(proc))) }

func (b *book) reap(id string) {
	s, rev := b.state(id)
	l, _ := b.live(id)
	l.Expired, l.Reaped = 4000, 6000
	due := record.Due{StateRevision: rev, LiveRevision: record.Own, Expired: 4000}
	b.txn(put(b.space.Live(id), l.Encode()), put(b.due(id, 6000), due.Encode(s)))
}

// everything fills the book with one execution of each sort, named for it.
func (b *book) everything() {
	b.proc("p1")
	b.proc("p2")
	for _, id := range []string{"admitted", "claimed", "completed", "fenced", "reaped", "released", "stepped", "suspended", "taken", "woken"} {
		b.admit(id)
		if id != "admitted" {
			proc := "p1"
			if id == "reaped" || id == "taken" {
				proc = "p2"
			}
			b.step(id, "one", b.claim(id, proc))
		}
	}
	b.complete("completed")
	b.fence("fenced")
	b.release("released")
	b.release("stepped")
	b.claim("stepped", "p1")
	b.suspend("suspended", 0)
	b.wake("woken", 9000)
	b.expire("p2")
	b.reap("reaped")
	b.reap("taken")
	b.step("taken", "two", b.claim("taken", "p1"))
}
