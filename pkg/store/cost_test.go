package store_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/internal/stores"
)

// A meter counts what is asked of etcd.
type meter struct{ reads, transactions atomic.Int64 }

// count is a memetcd.Gate.
func (m *meter) count(_ context.Context, c memetcd.Call) error {
	switch {
	case c.Phase == memetcd.After:
	case c.Operation == memetcd.Get, c.Operation == memetcd.Txn && len(c.Txn.If) == 0:
		m.reads.Add(1)
	default:
		m.transactions.Add(1)
	}
	return nil
}

// TestCosts: the table of docs/stores.md. The step's record comes on top.
func TestCosts(t *testing.T) {
	t.Parallel()
	ready, empty := board{Title: "one", Notes: []note{{Text: "one"}}}, board{}
	for _, c := range []struct {
		name, call          string
		earlier             int // deliveries
		state               board
		reads, transactions int64
	}{
		{"get", "get", 0, ready, 1, 0},
		{"update", "update", 0, ready, 1, 1},
		{"conditional update", "updateFrom", 0, ready, 1, 1},
		{"conditional deletion", "deleteFrom", 0, ready, 1, 1},
		{"take that matches", "take", 0, ready, 1, 1},
		{"update with its receipt", "update", 1, ready, 1, 0},
		{"take with its receipt", "take", 1, ready, 1, 0},
		{"wait that matches", "when", 0, ready, 1, 0},
		{"wait that does not", "when", 0, empty, 2, 1},
		{"take that does not match", "take", 0, empty, 2, 1},
		{"take until, that matches", "takeUntil", 0, ready, 1, 1},
		{"take until, that does not match", "takeUntil", 0, empty, 2, 1},
		{"take until, whose time is over", "takeUntil late", 0, empty, 1, 1},
		{"wait that is woken in vain", "when", 1, empty, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.make("x", c.state)
			for range c.earlier {
				s.deliver(c.call)
			}
			var m meter
			metered := *s.world
			metered.gate = m.count
			s.Context = stores.NewContext(t.Context(), metered.client())
			s.deliver(c.call)
			if r, txns := m.reads.Load(), m.transactions.Load(); r != c.reads || txns != c.transactions {
				t.Errorf("%d reads and %d transactions; want %d and %d", r, txns, c.reads, c.transactions)
			}
		})
	}
}

// deliver makes the call as a delivery does that records a wait.
func (s *scene) deliver(call string) {
	s.t.Helper()
	_, err := calls[call](s)
	if err == errSuspended && s.earlier.Wait == nil { //nolint:errorlint // it is passed on as it is
		s.earlier = replay.Earlier{Wait: s.answer.Wait, Attempt: 1}
		err = s.again()
	}
	if err != nil && err != errSuspended { //nolint:errorlint // likewise
		s.t.Fatal(err)
	}
}
