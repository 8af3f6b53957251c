package stores

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// It is white-box because nothing outside shows who has the turn, in which order the
// others wait for it, and that no queue is left behind when everybody has gone.

var one, two = execution.StoreID{Name: "a", ID: "b/c"}, execution.StoreID{Name: "a/b", ID: "c"}

func take(t *testing.T, ts *turns, key execution.StoreID) func() {
	t.Helper()
	end, err := ts.take(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

func (t *turns) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queues)
}

func TestTurnsComeInTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ts turns
		var order []int // guarded by the turn
		end := take(t, &ts, one)
		for i := range 100 {
			go func() {
				end := take(t, &ts, one)
				order = append(order, i)
				end()
			}()
			synctest.Wait() // it is in the queue
		}
		end()
		synctest.Wait()
		if len(order) != 100 || !slices.IsSorted(order) {
			t.Errorf("the order was %v", order)
		}
		if n := ts.count(); n != 0 {
			t.Errorf("%d queues are left", n)
		}
	})
}

func TestStoresDoNotShareTurns(t *testing.T) {
	t.Parallel()
	var ts turns
	first, second := take(t, &ts, one), take(t, &ts, two)
	if n := ts.count(); n != 2 {
		t.Errorf("%d queues", n)
	}
	first()
	second()
	if n := ts.count(); n != 0 {
		t.Errorf("%d queues are left", n)
	}
}

// Whoever gives up leaves the queue; those behind it come when they would have.
func TestWhoGivesUpLeavesTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var ts turns
		end := take(t, &ts, one)
		ctx, cancel := context.WithCancel(t.Context())
		var came []int
		for i := range 6 {
			go func() {
				wait := t.Context()
				if i%2 == 0 {
					wait = ctx
				}
				end, err := ts.take(wait, one)
				switch {
				case i%2 == 0 && (end != nil || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "its turn behind another call of this process")):
					t.Errorf("%d was not cancelled: %v", i, err)
				case i%2 == 1 && err != nil:
					t.Errorf("%d: %v", i, err)
				case i%2 == 1:
					came = append(came, i)
					end()
				}
			}()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		ts.mu.Lock()
		if in := ts.queues[one].in; in != 4 {
			t.Errorf("%d are in the queue, want the one who acts and 3", in)
		}
		ts.mu.Unlock()
		end()
		synctest.Wait()
		if !slices.Equal(came, []int{1, 3, 5}) {
			t.Errorf("the order was %v", came)
		}
		if n := ts.count(); n != 0 {
			t.Errorf("%d queues are left", n)
		}
	})
}

// A call that waits for long is told of, once.
func TestLongWaitsForATurnAreToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		server, err := memetcd.New(memetcd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		space, err := keyspace.New("/holdfast", "test")
		if err != nil {
			t.Fatal(err)
		}
		c, err := New(Config{
			Store: server.Client("", nil), Space: space, Logger: zap.New(core),
			Wake: func(context.Context, execution.StepID) error { return nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create(t.Context(), one, func() ([]byte, error) { return []byte("1"), nil }); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = c.Update(ctx, one, nil, KindUpdate, func(Snapshot) (*Mutation, error) {
			return nil, c.Delete(ctx, one) // waits for itself
		})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "its turn behind another call of this process") {
			t.Errorf("got %v", err)
		}
		told := logs.All()
		if len(told) != 1 || !strings.Contains(told[0].Message, "an updater that calls its own store waits for itself") ||
			told[0].ContextMap()["store"] != one.Name || told[0].ContextMap()["id"] != one.ID {
			t.Errorf("told %v", told)
		}
		if n := c.turns.count(); n != 0 {
			t.Errorf("%d queues are left", n)
		}
	})
}

// The last ones give up while the turn is passed on: the queue goes with the last.
func TestQueueGoesWithTheLast(t *testing.T) {
	t.Parallel()
	for range 200 {
		var ts turns
		end := take(t, &ts, one)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		for range 4 {
			go func() {
				if end, err := ts.take(ctx, one); err == nil {
					end()
				}
				done <- struct{}{}
			}()
		}
		go cancel()
		end()
		for range 4 {
			<-done
		}
		take(t, &ts, one)()
		if n := ts.count(); n != 0 {
			t.Fatalf("%d queues are left", n)
		}
	}
}
