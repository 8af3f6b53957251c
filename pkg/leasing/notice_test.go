package leasing_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// telling returns a client that notes whose ends it tells of.
func (w *world) telling(told *[]execution.ID) *leasing.Client {
	w.t.Helper()
	c, err := leasing.New(w.t.Context(), leasing.Config{
		Store: w.hook, Space: w.space, Delay: leasing.DelayPolicy{Base: time.Millisecond, Cap: time.Second},
		Ended: func(_ context.Context, id execution.ID) { *told = append(*told, id) },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// awaited registers the parent at the end of the execution, past the engine.
func (w *world) awaited(id execution.ID) {
	w.t.Helper()
	parent := w.get("parent")
	rec := record.AwaitEnding(w.get(id).Incarnation, 1, "w")
	call := keyspace.CallKey{ID: "parent", Incarnation: parent.Incarnation, Step: "wait"}
	w.write(etcd.Put{Key: w.space.Waiter(keyspace.Ending(string(id)), call), Value: rec.Encode()})
}

// notices returns the notices of the execution's ends.
func (w *world) notices(id execution.ID) (all []etcd.KV) {
	w.t.Helper()
	span := w.space.ChangesOf(keyspace.Ending(string(id)))
	res, _, err := w.hook.Store.Get(w.t.Context(), etcd.Get{Key: span.Start, End: span.End})
	if err != nil {
		w.t.Fatal(err)
	}
	return res.KVs
}

func TestEndIsNoticed(t *testing.T) {
	failed := execution.Outcome{Kind: execution.Failed, Error: &execution.Error{Message: "broken"}}
	acknowledge := func(o execution.Outcome) func(*leasing.Client, execution.Lease) error {
		return func(c *leasing.Client, l execution.Lease) error { return c.Acknowledge(context.Background(), l, o) }
	}
	cancel := func(c *leasing.Client, l execution.Lease) error { return c.Cancel(context.Background(), l.ID, "test") }
	for name, c := range map[string]struct {
		end     func(*leasing.Client, execution.Lease) error
		free    bool // nobody holds it
		noticed bool
	}{
		"completed":         {end: acknowledge(completed(`1`)), noticed: true},
		"failed":            {end: acknowledge(failed), noticed: true},
		"cancelled":         {end: cancel, noticed: true},
		"cancelled, unheld": {end: cancel, free: true, noticed: true},
		"suspended":         {end: acknowledge(suspended)},
		"continued":         {end: acknowledge(execution.Outcome{Kind: execution.Continued})},
		"released":          {end: func(c *leasing.Client, l execution.Lease) error { return c.Release(context.Background(), l, "test") }},
		"fenced":            {end: func(c *leasing.Client, l execution.Lease) error { return c.Fence(context.Background(), l.ID, "test") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, time.Millisecond)
			w.admit("parent")
			w.admit("child")
			w.awaited("child")
			lease := execution.Lease{ID: "child"}
			if !c.free {
				lease = w.claim("child").Lease
			}
			var told, want []execution.ID
			if err := c.end(w.telling(&told), lease); err != nil {
				t.Fatal(err)
			}
			got := w.notices("child")
			if c.noticed {
				want = []execution.ID{"child"}
				inc := w.get("child").Incarnation
				if len(got) != 1 || got[0].Key != w.space.Change(keyspace.Ending("child"), inc) || string(got[0].Value) != string(record.Ending(inc).Encode()) {
					t.Errorf("got %+v, want one notice of incarnation %d", got, inc)
				}
			} else if len(got) != 0 {
				t.Errorf("got %+v, want no notice", got)
			}
			if !slices.Equal(told, want) {
				t.Errorf("told of %q, want %q", told, want)
			}
		})
	}
}

// Nobody waits: an acknowledgement costs no more, and leaves nothing.
func TestEndThatNobodyAwaits(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	var told []execution.ID
	if err := w.telling(&told).Acknowledge(t.Context(), w.claim("x").Lease, completed(`1`)); err != nil {
		t.Fatal(err)
	}
	if got := w.notices("x"); len(got)+len(told) != 0 {
		t.Errorf("noticed %+v, told of %q", got, told)
	}
}

// Whether somebody waits is not known of an answer that never came.
func TestEndThatWasNotAnswered(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	d := w.claim("x")
	var told []execution.ID
	c := w.telling(&told)
	lost := false
	w.hook.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if !lost && len(txn.If) > 0 {
			lost = true
			return nil, context.DeadlineExceeded
		}
		return res, err
	}
	if err := c.Acknowledge(t.Context(), d.Lease, completed(`1`)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(told, []execution.ID{"x"}) {
		t.Errorf("told of %q, want x", told)
	}
}

// The end of an earlier incarnation that nobody has told of stays beside a later one's.
func TestEndsOfTwoIncarnations(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("parent")
	for i := range 2 {
		w.admit("child")
		w.awaited("child")
		if err := w.Cancel(t.Context(), "child", "test"); err != nil {
			t.Fatal(err)
		}
		if got := w.notices("child"); len(got) != i+1 {
			t.Errorf("%d notices after end %d", len(got), i+1)
		}
		if err := w.Delete(t.Context(), "child"); err != nil {
			t.Fatal(err)
		}
	}
}
