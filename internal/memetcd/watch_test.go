package memetcd_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/memetcd"
)

func TestWatchDeliversThePastAndThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := open(t)
		first := put(t, c, "a", "b", "out")
		do(t, c, etcd.Delete{Key: "a"}, etcd.Put{Key: "b"})
		watch := c.Watch(t.Context(), "a", "c", first)
		wantBatch(t, watch, first+1, "+a", "+b", "-a", "+b")
		put(t, c, "out")
		third := put(t, c, "b", "out")
		wantBatch(t, watch, third, "+b")
	})
}

func TestWatchOfRevisionZeroBeginsNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := open(t)
		put(t, c, "k")
		watch := c.Watch(t.Context(), "k", "", 0)
		wantBatch(t, watch, put(t, c, "k"), "+k")
	})
}

func TestWatchOfALaterRevisionWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := open(t)
		watch := c.Watch(t.Context(), "k", "", 4)
		for range 3 {
			put(t, c, "k")
		}
		wantBatch(t, watch, 4, "+k")
	})
}

// Nobody reads; the watch keeps what is to come, in batches of whole revisions.
func TestWatchOfALongPastComesInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := open(t)
		const revisions = 2500
		for i := range revisions {
			put(t, c, fmt.Sprint("k", i), "l")
		}
		batches, next := 0, int64(2)
		for b := range c.Watch(t.Context(), "k", "m", 2) {
			if n := int64(len(b.Events)); n > 2000 || b.Events[0].KV.Modified != next || b.Revision != next+n/2-1 {
				t.Fatalf("%d events from %d to %d", n, next, b.Revision)
			}
			batches, next = batches+1, b.Revision+1
			if next == 2+revisions {
				break
			}
		}
		if batches != 3 {
			t.Errorf("%d batches, want 3", batches)
		}
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := open(t)
		gated := s.Client("gated", func(ctx context.Context, call memetcd.Call) error {
			<-ctx.Done()
			return ctx.Err()
		})
		ctx, cancel := context.WithCancel(t.Context())
		idle := c.Watch(ctx, "idle", "", 1)
		unread := c.Watch(ctx, "k", "", 1)
		parked := gated.Watch(ctx, "k", "", 1)
		for range 10 {
			put(t, c, "k")
		}
		synctest.Wait()
		cancel()
		wantEnd(t, idle)
		wantEnd(t, parked)
		for b := range unread {
			if b.Err != nil {
				t.Errorf("got %v, want only the end", b.Err)
			}
		}
		wantEnd(t, c.Watch(ctx, "k", "", 1))
	})
}

func TestWatchTellsThatTheServerIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := open(t)
		watch := c.Watch(t.Context(), "k", "", 1)
		synctest.Wait()
		s.Close()
		if b := <-watch; b.Err == nil || etcd.IsDefinite(b.Err) {
			t.Errorf("got %+v, want an error that is not definite", b)
		}
		wantEnd(t, watch)
	})
}

func wantCompacted(t *testing.T, batches <-chan etcd.Batch, revision int64) {
	t.Helper()
	var compacted *etcd.CompactedError
	if b := <-batches; !errors.As(b.Err, &compacted) || compacted.Revision != revision {
		t.Errorf("got %+v, want compacted at %d", b, revision)
	}
	wantEnd(t, batches)
}

func TestWatchOfACompactedRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := open(t)
		put(t, c, "k")
		last := do(t, c, etcd.Delete{Key: "k"})
		put(t, c, "other")
		if err := s.Compact(last); err != nil {
			t.Fatal(err)
		}
		wantCompacted(t, c.Watch(t.Context(), "k", "", last-1), last)
		wantBatch(t, c.Watch(t.Context(), "k", "", last), last, "-k")
	})
}

// A watch that has nothing to take, or whose events its client has buffered, does
// not mind a compaction. A gate can keep one behind.
func TestCompactionUnderWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := open(t)
		release := make(chan struct{})
		slow := s.Client("slow", func(ctx context.Context, call memetcd.Call) error {
			if call.Phase == memetcd.Before {
				<-release
			}
			return nil
		})
		idle, unread := slow.Watch(t.Context(), "idle", "", 1), c.Watch(t.Context(), "k", "", 1)
		behind, late := slow.Watch(t.Context(), "k", "", 1), slow.Watch(t.Context(), "late", "", 1)
		for range 3 {
			put(t, c, "k")
		}
		synctest.Wait()
		last := put(t, c, "late")
		if err := s.Compact(last); err != nil {
			t.Fatal(err)
		}
		close(release)
		wantCompacted(t, behind, last)
		wantBatch(t, late, last, "+late")
		wantBatch(t, idle, put(t, c, "idle"), "+idle")
		wantBatch(t, unread, 2, "+k")
		wantBatch(t, unread, 3, "+k")
		wantBatch(t, unread, 4, "+k")
	})
}
