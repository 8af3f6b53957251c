package etcdv3_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

// brief describes events as "+key" and "-key".
func brief(events []etcd.Event) []string {
	var out []string
	for _, e := range events {
		sign := "+"
		if e.Deleted {
			sign = "-"
		}
		out = append(out, sign+e.KV.Key)
	}
	slices.Sort(out)
	return out
}

func TestWatchDeliversWholeRevisions(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		first := put(t, store, p+"a", p+"b", p+"c")
		put(t, store, p+"~outside")
		second := txn(t, store, &etcd.Txn{Then: []etcd.Op{etcd.Delete{Key: p + "a"}, etcd.Put{Key: p + "b", Value: []byte("v")}}}).Revision

		watch := store.Watch(t.Context(), p, p+"~", first)
		var past []etcd.Event
		for last := int64(0); last < second; {
			b := <-watch
			if b.Err != nil {
				t.Fatal(b.Err)
			}
			past, last = append(past, b.Events...), b.Revision
		}
		if got, want := brief(past), []string{"+" + p + "a", "+" + p + "b", "+" + p + "b", "+" + p + "c", "-" + p + "a"}; !slices.Equal(got, want) {
			t.Fatalf("past: got %q, want %q", got, want)
		}
		for _, e := range past {
			if e.Deleted && (e.KV.Modified != second || len(e.KV.Value) != 0) {
				t.Errorf("deletion: got %+v, want revision %d", e, second)
			}
		}

		third := put(t, store, p+"x", p+"y")
		b := <-watch
		if got, want := brief(b.Events), []string{"+" + p + "x", "+" + p + "y"}; !slices.Equal(got, want) || b.Revision != third {
			t.Fatalf("live: got %q at %d, want %q at %d", got, b.Revision, want, third)
		}
		if kv := b.Events[0].KV; kv.Created != third || kv.Modified != third || string(kv.Value) != kv.Key {
			t.Fatalf("live: got %+v", kv)
		}
	})
}

// More revisions than etcd sends at once: a batch's revision must not be ahead of
// its events, or whoever resumes there loses the rest.
func TestWatchOfALongPastCanBeResumedAfterEachBatch(t *testing.T) {
	const revisions = 2500
	p := testetcd.Space(t).All().Start
	store := testetcd.Start(t)
	from := put(t, store, p+"start") + 1
	for i := range revisions {
		put(t, store, fmt.Sprint(p, i%7), fmt.Sprint(p, "x"))
	}
	both(t, func(t *testing.T, store etcd.Store, _ string) {
		next, batches := from, 0
		for next < from+revisions {
			ctx, cancel := context.WithCancel(t.Context())
			b := <-store.Watch(ctx, p, p+"~", next)
			cancel()
			if b.Err != nil {
				t.Fatal(b.Err)
			}
			for i, e := range b.Events {
				if want := next + int64(i)/2; e.KV.Modified != want {
					t.Fatalf("event %d of a batch from %d has revision %d, want %d", i, next, e.KV.Modified, want)
				}
			}
			if len(b.Events)%2 != 0 {
				t.Fatalf("a batch of %d events cuts a revision", len(b.Events))
			}
			next, batches = b.Revision+1, batches+1
		}
		if batches < 2 {
			t.Fatalf("all revisions came in %d batch", batches)
		}
	})
}

func TestWatchOfOneKey(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		from := put(t, store, p+"k", p+"k/below")
		b := <-store.Watch(t.Context(), p+"k", "", from)
		if got, want := brief(b.Events), []string{"+" + p + "k"}; !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		from := put(t, store, p+"k") // connects
		here := goleak.IgnoreCurrent()
		ctx, cancel := context.WithCancel(t.Context())
		idle := store.Watch(ctx, p+"idle", "", from)
		unread := store.Watch(ctx, p, p+"~", from)
		read := store.Watch(ctx, p, p+"~", from)
		if b := <-read; b.Revision != from {
			t.Fatalf("got %+v", b)
		}
		for range 10 {
			put(t, store, p+"k")
		}
		cancel()
		for b := range idle {
			t.Errorf("idle watch: got %+v", b)
		}
		for _, watch := range []<-chan etcd.Batch{unread, read} {
			for b := range watch {
				if b.Err != nil {
					t.Errorf("got %v, want only the end", b.Err)
				}
			}
		}
		goleak.VerifyNone(t, here)
	})
}

func TestWatchEndsUnreadWithItsContext(t *testing.T) {
	both(t, func(t *testing.T, store etcd.Store, p string) {
		from := put(t, store, p+"k")
		// Another watch keeps the client's stream, which it would otherwise keep for
		// the next one where the only watch ends before it has begun.
		other := store.Watch(t.Context(), p, p+"~", from)
		if b := <-other; b.Err != nil {
			t.Fatal(b.Err)
		}
		here := goleak.IgnoreCurrent()
		ctx, cancel := context.WithCancel(t.Context())
		for range 10 {
			_ = store.Watch(ctx, p, p+"~", from)
		}
		cancel()
		goleak.VerifyNone(t, here)
	})
}

func TestWatchReportsThatItsClientIsClosed(t *testing.T) {
	client, err := clientv3.NewFromURL(testetcd.Endpoint(t))
	if err != nil {
		t.Fatal(err)
	}
	store := etcdv3.New(client, client)
	p := testetcd.Space(t).All().Start
	from := put(t, store, p+"k")
	watch := store.Watch(t.Context(), p, p+"~", from)
	if b := <-watch; b.Revision != from {
		t.Fatalf("got %+v", b)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if b := <-watch; b.Err == nil || etcd.IsDefinite(b.Err) {
		t.Fatalf("got %+v, want an error", b)
	}
	if b, open := <-watch; open {
		t.Fatalf("after the error: got %+v", b)
	}
	if b := <-store.Watch(t.Context(), p, p+"~", from); b.Err == nil {
		t.Fatalf("a new watch: got %+v, want an error", b)
	}
	if _, err := store.KeepAlive(t.Context(), 7); err == nil || errors.Is(err, etcd.ErrLeaseNotFound) {
		t.Fatalf("keepalive: got %v", err)
	}
}

// Watches that begin and end by the hundred, while events come, hold up no other. The
// in-process client of an embedded etcd stands still for good where they share a stream:
// each side waits for the other to take what it sends.
func TestManyWatchesEnd(t *testing.T) {
	for name, store := range map[string]etcd.Store{"in-process": testetcd.Start(t), "gRPC": testetcd.Dial(t)} {
		t.Run(name, func(t *testing.T) {
			span := testetcd.Space(t).States("")
			put := etcd.Put{Key: span.Start + "x"}
			writing, stop := context.WithCancel(t.Context())
			defer stop()
			var writer, watchers sync.WaitGroup
			writer.Go(func() {
				for writing.Err() == nil {
					_, _ = store.Txn(writing, &etcd.Txn{Then: []etcd.Op{put}}) // one ends in the middle
				}
			})
			for range 400 {
				watchers.Go(func() {
					for range 10 {
						ctx, cancel := context.WithCancel(t.Context())
						batches := store.Watch(ctx, span.Start, span.End, 0)
						<-batches
						cancel()
						for range batches { // until it ends
						}
					}
				})
			}
			ended := make(chan struct{})
			go func() {
				watchers.Wait()
				stop()
				writer.Wait()
				close(ended)
			}()
			select {
			case <-ended:
			case <-time.After(2 * time.Minute):
				t.Fatal("the watches stand still")
			}
		})
	}
}
