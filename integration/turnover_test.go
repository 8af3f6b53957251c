package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

var sum = execution.StoreID{Name: "sum", ID: "all"}

func continued(params string) execution.Outcome {
	return execution.Outcome{Kind: execution.Continued, Params: json.RawMessage(params)}
}

// summed returns a client of the stage's stores, of which one holds 0.
func (s *stage) summed() *stores.Client {
	s.t.Helper()
	c := s.stores()
	_, err := c.Create(s.t.Context(), sum, func() ([]byte, error) { return []byte(`0`), nil })
	s.must(err)
	return c
}

// addOne makes the lease's step add 1 to the store.
func (s *stage) addOne(c *stores.Client, l execution.Lease, step string) error {
	id := stepOf(l, step)
	_, err := c.Update(s.t.Context(), sum, &id, "update", func(now stores.Snapshot) (*stores.Mutation, error) {
		var n int
		if err := json.Unmarshal(now.State, &n); err != nil {
			return nil, err
		}
		next := fmt.Appendf(nil, "%d", n+1)
		return &stores.Mutation{State: next, Result: next, Changed: stores.Paths{{}}}, nil
	})
	return err
}

// wantSum demands what is in the store.
func (s *stage) wantSum(c *stores.Client, want string) stores.Snapshot {
	s.t.Helper()
	now, err := c.Get(s.t.Context(), sum)
	s.must(err)
	if string(now.State) != want {
		s.t.Errorf("the sum is %s, want %s", now.State, want)
	}
	return now
}

// none demands that the span holds no key.
func (s *stage) none(what string, span keyspace.Span) {
	s.t.Helper()
	if keys := s.keysOf(span); len(keys) > 0 {
		s.t.Errorf("%s: %q are left", what, keys)
	}
}

// oldRunLost demands that nothing of the old run is accepted any more: no step, no
// outcome, no change of a store and no wait at one, whether or not it was recorded
// before.
func (s *stage) oldRunLost(c *stores.Client, l execution.Lease, recorded string) {
	s.t.Helper()
	s.allLost(l)
	s.lost(s.Acknowledge(s.t.Context(), l, continued(`"late"`)))
	now := s.wantSum(c, `1`)
	for _, step := range []string{recorded, "late"} {
		s.lost(s.addOne(c, l, step))
		id := stepOf(l, step)
		_, err := c.DeleteFrom(s.t.Context(), sum, &id, now.At())
		s.lost(err)
		w := stores.Waiter{Store: sum, Step: id, Instance: now.Instance, Since: now.Version, Reads: stores.Paths{{}}}
		_, err = c.Register(s.t.Context(), w)
		s.lost(err)
		_, err = c.Arm(s.t.Context(), w, 1)
		s.lost(err)
	}
	s.wantSum(c, `1`)
}

// TestOldHistoryIsFencedByATurnover: a holder freezes in the middle of a run. Another
// one takes over, replays, and continues as new. Whatever the first one then writes is
// refused, before the next run is claimed, while it goes on and after its end; and the
// next run is not disturbed: it uses the same names, and finds none of what was.
func TestOldHistoryIsFencedByATurnover(t *testing.T) {
	s := newStage(t)
	c := s.summed()
	old := s.begin("order")
	s.step(old.Lease, "load")
	s.must(s.addOne(c, old.Lease, "add"))
	s.EndLease(old.Lease)
	s.reap()
	taker := s.claim("order")
	if steps, err := s.Read(t.Context(), taker.Lease); err != nil || len(steps) != 1 {
		t.Fatalf("the taker replays %v, %v", steps, err)
	}
	s.must(s.addOne(c, taker.Lease, "add")) // it has its receipt
	s.acknowledge(taker.Lease, continued(`{"page":2}`))
	s.none("steps after the turnover", s.space.StepsOf("order"))
	s.none("receipts after the turnover", s.space.ReceiptsOf("order"))
	s.oldRunLost(c, old.Lease, "add")
	s.oldRunLost(c, taker.Lease, "add")

	next := s.claim("order")
	if next.Run != 1 || string(next.Params) != `{"page":2}` || next.Token <= taker.Token {
		t.Fatalf("the next run: %+v", next)
	}
	if steps, err := s.Read(t.Context(), next.Lease); err != nil || len(steps) != 0 {
		t.Fatalf("the next run has %v, %v", steps, err)
	}
	s.oldRunLost(c, old.Lease, "add")
	s.step(next.Lease, "load")
	s.must(s.addOne(c, next.Lease, "add"))
	s.wantSum(c, `2`)
	s.complete(next.Lease)
	s.lost(s.addOne(c, old.Lease, "late"))
	s.allLost(old.Lease)
	s.none("registrations", s.space.Waiters())
	if r := s.get("order"); r.Run != 1 || r.Status != execution.StatusCompleted || r.Deliveries[1].How != execution.HowContinued {
		t.Errorf("at the end: %+v", r)
	}
}

// TestOldHistoryRacesItsTurnover: for each of ten runs, whoever held it goes on writing
// to a store while it turns over and the next one begins. Each write was applied before
// the turnover, once, or never.
func TestOldHistoryRacesItsTurnover(t *testing.T) {
	s := newStage(t)
	c := s.summed()
	s.admit("order")
	var applied atomic.Int64
	var stale sync.WaitGroup
	for run := range int64(10) {
		d := s.claim("order")
		if d.Run != run {
			t.Fatalf("run %d was delivered, want %d", d.Run, run)
		}
		begun := make(chan struct{})
		stale.Go(func() {
			var once sync.Once
			for i := 0; ; i++ {
				err := s.addOne(c, d.Lease, fmt.Sprintf("add-%d", i))
				once.Do(func() { close(begun) })
				if errors.Is(err, execution.ErrLost) {
					return
				}
				if err != nil {
					t.Errorf("run %d: %v", run, err)
					return
				}
				applied.Add(1)
			}
		})
		<-begun
		s.acknowledge(d.Lease, continued(`null`))
	}
	stale.Wait()
	if applied.Load() < 10 {
		t.Errorf("%d writes were applied, want at least one of each run", applied.Load())
	}
	s.wantSum(c, fmt.Sprint(applied.Load()))
	s.complete(s.claim("order").Lease)
}
