package audit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func unix(ms int64) time.Time { return time.UnixMilli(ms) }

// edit rewrites a record of the execution in place, with a revision of its own.
func (b *book) edit(id string, change func(s *record.State)) {
	s, _ := b.state(id)
	change(s)
	b.txn(put(b.space.State(id), s.Encode()))
}

// forge changes a record without a revision: as if it had been written so.
func (b *book) forge(key string, value []byte) {
	kv := b.kvs[key]
	kv.Value = value
	b.kvs[key] = kv
}

// forgeState changes the state and the copy in its due entry alike.
func (b *book) forgeState(id string, change func(s *record.State)) {
	s, rev := b.state(id)
	change(s)
	b.forge(b.space.State(id), s.Encode())
	key := b.entry(id)
	if key == "" {
		return
	}
	d, _, err := record.DecodeDue(b.kvs[key].Value, b.kvs[key].Modified)
	if err != nil {
		b.t.Fatal(err)
	}
	b.forge(key, (&record.Due{StateRevision: rev, LiveRevision: d.LiveRevision}).Encode(s))
}

func (b *book) forgeLive(id string, change func(l *record.Live)) {
	l, _ := b.live(id)
	change(l)
	b.forge(b.space.Live(id), l.Encode())
}

func (b *book) forgeStep(id string, change func(kv *etcd.KV, s *record.Step)) {
	st, _ := b.state(id)
	key := b.space.Step(keyspace.Step{ID: id, Incarnation: st.Incarnation, Key: "one"})
	kv := b.kvs[key]
	s, err := record.DecodeStep(kv.Value)
	if err != nil {
		b.t.Fatal(err)
	}
	change(&kv, s)
	kv.Value = s.Encode()
	b.kvs[key] = kv
}

func TestCheckAcceptsEveryCorrectNamespace(t *testing.T) {
	b := newBook(t)
	if r := b.check(); !r.OK() {
		t.Fatalf("an empty namespace: %v", r.Violations)
	}
	b.everything()
	r := b.check()
	for _, v := range r.Violations {
		t.Error(v)
	}
	for _, v := range b.replay.Violations() {
		t.Errorf("replay: %v", v)
	}
	want := map[execution.Status]int{
		execution.StatusAdmitted: 4, execution.StatusRunning: 4, execution.StatusCompleted: 1, execution.StatusSuspended: 1,
	}
	if fmt.Sprint(r.Executions) != fmt.Sprint(want) {
		t.Errorf("counts %v, want %v", r.Executions, want)
	}
	if r.Keys[keyspace.KindState] != 10 || r.Keys[keyspace.KindStep] != 10 || r.Revision != b.revision {
		t.Errorf("counts %v at revision %d, want 10 states and 10 steps at %d", r.Keys, r.Revision, b.revision)
	}
	b.expire("p1")
	if r = b.check(); !r.OK() || r.Unreaped != 4 || r.Evictions != 1 {
		t.Errorf("after the process went: %d unreaped, %d evictions, %v; want 4, 1 and no violation", r.Unreaped, r.Evictions, r.Violations)
	}
}

func TestCheckFindsWhatBelongsToNoExecution(t *testing.T) {
	for name, plant := range map[string]func(b *book) string{
		"live": func(b *book) string { return b.space.Live("ghost") },
		"wake": func(b *book) string { return b.space.Wake("ghost") },
		"spec": func(b *book) string { return b.space.Spec("ghost") },
		"done": func(b *book) string { return b.space.Done(unix(1), "ghost") },
		"step": func(b *book) string { return b.space.Step(keyspace.Step{ID: "ghost", Key: "k"}) },
		"due":  func(b *book) string { return b.due("ghost", 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.everything()
			value := []byte(`{"v":1,"at":5,"state":{"v":1}}`)
			b.txn(put(plant(b), value))
			if r := b.check(); len(r.Violations) != 1 || r.Violations[0].Invariant != audit.I6 || r.Violations[0].ID != "ghost" {
				t.Errorf("%v, want one violation of I6 by %q", r.Violations, "ghost")
			}
		})
	}
	t.Run("unknown key", func(t *testing.T) {
		b := newBook(t)
		b.txn(put(b.space.All().Start+"other/thing", nil))
		if r := b.check(); len(r.Violations) != 1 || r.Violations[0].Invariant != audit.Format {
			t.Errorf("%v, want one violation of the format", r.Violations)
		}
	})
	t.Run("no epoch", func(t *testing.T) {
		b := newBook(t)
		b.admit("a")
		b.txn(del(b.space.Epoch()))
		if r := b.check(); len(r.Violations) != 1 || r.Violations[0].Key != b.space.Epoch() {
			t.Errorf("%v, want the epoch missing", r.Violations)
		}
	})
}

func TestCheckReadsPagesOfOneRevision(t *testing.T) {
	b := newBook(t)
	for i := range 600 {
		b.admit(fmt.Sprintf("e%03d", i))
	}
	b.compact = 2
	r := b.check()
	if !r.OK() || r.Keys[keyspace.KindState] != 600 || r.Keys[keyspace.KindDue] != 600 || r.Keys[keyspace.KindSpec] != 600 {
		t.Errorf("%v, %v; want 600 executions and no violation", r.Keys, r.Violations)
	}
	b.compact = 1 << 20
	if _, err := audit.Check(context.Background(), b, b.space); err == nil {
		t.Error("compacted at every attempt: want an error")
	}
}

func TestViolationsAreInOrder(t *testing.T) {
	b := newBook(t)
	b.everything()
	for _, id := range []string{"woken", "claimed"} {
		b.txn(del(b.space.Live(id)))
		b.txn(del(b.space.Spec(id)))
	}
	var got []string
	for _, v := range b.check().Violations {
		got = append(got, string(v.Invariant)+" "+v.ID)
	}
	if want := []string{"I2 claimed", "I2 woken", "I6 claimed", "I6 woken"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
