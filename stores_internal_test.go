package holdfast

// White-box: the etcd in memory is chosen below the exported options, and what a dead
// process has left is written as records.

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// A shop is a client on an etcd in memory and a worker that runs until the test ends.
type shop struct {
	client *Client
	conn   etcd.Store
	space  keyspace.Space
}

// newShop is called in a bubble.
func newShop(t *testing.T, parts ...WorkerOption) *shop {
	t.Helper()
	server, err := memetcd.New(memetcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	space, err := keyspace.New("/holdfast", "tests")
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{conn: server.Client("shop", nil), space: space}
	if s.client, err = newClient(t.Context(), clientConfig{logger: zap.NewNop()}, s.conn, space); err != nil {
		t.Fatal(err)
	}
	w, err := NewWorker(s.client, parts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		began := time.Now()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		wantEqual(t, "time that the end of the worker took", time.Since(began), 0)
	})
	return s
}

type tally struct{ Votes int }

var tallies = store.Define[tally]("tally")

// vote adds one to the tally of all.
func vote(s *tally) error { s.Votes++; return nil }

// Workflows have the stores on their contexts, and are woken when one changes.
func TestWorkflowsShareStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		voter := Define("voter", func(ctx Context, _ int) (int, error) {
			r, err := store.Update(ctx, "vote", tallies.At("all"), vote)
			return r.State.Votes, err
		})
		counter := Define("counter", func(ctx Context, want int) (int, error) {
			return store.When(ctx, "enough", tallies.At("all"), func(s tally) (int, bool) { return s.Votes, s.Votes >= want })
		})
		s := newShop(t, voter, counter)
		tally, err := tallies.At("all").On(s.client.Stores()).GetOrCreate(t.Context(), tally{})
		if err != nil || tally.State.Votes != 0 {
			t.Fatalf("got %+v, %v", tally, err)
		}
		waiting, err := counter.Start(t.Context(), s.client, 3)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			h, err := voter.Start(t.Context(), s.client, i)
			if err != nil {
				t.Fatal(err)
			}
			votes, err := h.Result(t.Context())
			if err != nil || votes != i+1 {
				t.Fatalf("vote %d: got %d, %v", i+1, votes, err)
			}
		}
		synctest.Wait()
		if rec, err := s.client.Get(t.Context(), waiting.ID()); err != nil || rec.Status != execution.StatusSuspended || !rec.Due.IsZero() {
			t.Errorf("before the third vote: %+v, %v", rec, err)
		}
		if _, err := tallies.At("all").On(s.client.Stores()).Update(t.Context(), vote); err != nil {
			t.Fatal(err)
		}
		votes, err := waiting.Result(t.Context())
		if err != nil || votes != 3 {
			t.Errorf("got %d, %v, want 3", votes, err)
		}
	})
}

// A store's error is the execution's, with its code, and a caller can tell.
func TestStoreErrorFailsTheExecution(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		voter := Define("voter", func(ctx Context, _ int) (int, error) {
			r, err := store.Update(ctx, "vote", tallies.At("none"), vote)
			return r.State.Votes, err
		})
		s := newShop(t, voter)
		h, err := voter.Start(t.Context(), s.client, 1)
		if err != nil {
			t.Fatal(err)
		}
		_, err = h.Result(t.Context())
		failed, is := errors.AsType[*FailedError](err)
		if !is || failed.Code != store.CodeNotFound || !strings.Contains(failed.Message, "does not exist") {
			t.Errorf("got %v", err)
		}
	})
}

// A wake that a dead process has left is delivered by any worker.
func TestWorkerDeliversWhatOthersOwe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		deliveries := 0
		sleeper := Define("sleeper", func(ctx Context, _ int) (int, error) {
			deliveries++
			return deliveries, Sleep(ctx, "sleep", time.Hour)
		})
		s := newShop(t, sleeper)
		h, err := sleeper.Start(t.Context(), s.client, 1)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantEqual(t, "deliveries", deliveries, 1)
		rec, err := s.client.Get(t.Context(), h.ID())
		if err != nil {
			t.Fatal(err)
		}
		owed := record.Owed{Instance: "i", Execution: h.ID(), Incarnation: rec.Incarnation, Step: "sleep"}
		key := s.space.Owed(keyspace.StoreKey{Name: "tally", ID: "all"}, "w")
		if _, err := s.conn.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key, Value: owed.Encode()}}}); err != nil {
			t.Fatal(err)
		}
		advance(time.Minute)
		synctest.Wait()
		wantEqual(t, "deliveries", deliveries, 2)
		left, _, err := s.conn.Get(t.Context(), etcd.Get{Key: key})
		if err != nil || len(left.KVs) != 0 {
			t.Errorf("still owed: %v, %v", left, err)
		}
	})
}
