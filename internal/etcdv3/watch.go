package etcdv3

import (
	"context"
	"errors"
	"strconv"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// errWatchEnded: etcd's client closed the watch and gave no reason.
var errWatchEnded = errors.New("etcd watch ended: its client is closed")

// Watch forwards what etcd's client delivers. That one resumes by itself after a
// broken connection, from the revision after the last one delivered, and buffers
// for a slow reader. A member that loses its leader ends the watch.
func (s *store) Watch(ctx context.Context, start, end string, revision int64) <-chan etcd.Batch {
	batches := make(chan etcd.Batch)
	go func() {
		defer close(batches)
		s.forward(ctx, start, end, revision, batches)
	}()
	return batches
}

// forward returns when the watch has ended and its reason is sent.
func (s *store) forward(ctx context.Context, start, end string, revision int64, batches chan<- etcd.Batch) {
	watching, cancel := s.stream(clientv3.WithRequireLeader(ctx))
	defer cancel()
	opts := []clientv3.OpOption{clientv3.WithRev(revision)}
	if end != "" {
		opts = append(opts, clientv3.WithRange(end))
	}
	final := errWatchEnded
	responses := s.main.Watch(watching, start, opts...)
	defer context.AfterFunc(ctx, cancel)()
	for resp := range responses {
		if err := resp.Err(); err != nil {
			final = watchError(ctx, resp.CompactRevision, err)
			break
		}
		if len(resp.Events) > 0 && !send(ctx, batches, batch(resp.Events)) {
			return
		}
	}
	if ctx.Err() == nil {
		send(ctx, batches, etcd.Batch{Err: final})
	}
}

// stream returns the context to watch by. On an in-process client each watch has a
// stream of its own; on a connection all share one. The in-process streams are channels
// that hold a few messages: where many watches of one stream begin and end while events
// come, the client and the server each wait for the other to take what it sends, and
// every watch of the process stands still for good. Etcd's client tells streams apart by
// their metadata.
//
// The context of a stream of its own is not ended by ctx: a stream whose only watch ends
// before it has begun is never closed. Etcd begins the watch before it returns.
func (s *store) stream(ctx context.Context) (context.Context, context.CancelFunc) {
	if s.main.ActiveConnection() != nil {
		return context.WithCancel(ctx)
	}
	own := metadata.AppendToOutgoingContext(context.WithoutCancel(ctx), "holdfast-watch", strconv.FormatUint(s.watches.Add(1), 36))
	return context.WithCancel(own)
}

func send(ctx context.Context, batches chan<- etcd.Batch, b etcd.Batch) bool {
	select {
	case batches <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

func watchError(ctx context.Context, compacted int64, err error) error {
	if compacted != 0 {
		return &etcd.CompactedError{Revision: compacted}
	}
	return wrap(ctx, 0, err)
}

// batch holds whole revisions: etcd cuts a response between two revisions, and
// inside one only for a client that asks for fragments. Its revision is the one
// of its last event. The response's own is that of the store, which may be
// ahead of what the watch has yet to deliver.
func batch(events []*clientv3.Event) etcd.Batch {
	b := etcd.Batch{Events: make([]etcd.Event, len(events))}
	for i, e := range events {
		b.Events[i] = etcd.Event{KV: etcd.KV{
			Key: string(e.Kv.Key), Value: e.Kv.Value, Created: e.Kv.CreateRevision, Modified: e.Kv.ModRevision, Lease: etcd.LeaseID(e.Kv.Lease),
		}, Deleted: e.Type == mvccpb.Event_DELETE}
	}
	b.Revision = b.Events[len(events)-1].KV.Modified
	return b
}
