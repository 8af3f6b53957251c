package etcdv3

import (
	"context"
	"errors"
	"io"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// keepAlivePause lies between two tries of one keepalive.
const keepAlivePause = 100 * time.Millisecond

// KeepAlive renews the etcd lease on whichever member can, until ctx ends. Etcd's
// client gives up at the first member that has no leader.
func (s *store) KeepAlive(ctx context.Context, id etcd.LeaseID) (time.Duration, error) {
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	// An in-process client that was closed would be tried until ctx ends.
	defer context.AfterFunc(s.lane.Ctx(), cancel)()

	ttl, err := s.keepAlive(open, id)
	if err == nil && ttl <= 0 {
		err = rpctypes.ErrLeaseNotFound
	}
	if err != nil && ctx.Err() == nil && s.lane.Ctx().Err() != nil {
		err = errors.New("the client of the keepalives is closed")
	}
	return time.Duration(ttl) * time.Second, wrap(ctx, 0, err)
}

func (s *store) keepAlive(ctx context.Context, id etcd.LeaseID) (int64, error) {
	for {
		ttl, err := s.keepAliveOnce(ctx, id)
		if err == nil || code(err) != codes.Unavailable {
			return ttl, err
		}
		select {
		case <-time.After(keepAlivePause):
		case <-ctx.Done():
			return 0, err
		}
	}
}

// keepAliveOnce asks one member. KeepAliveOnce of etcd's client does so without a
// network; over one it repeats without a pause what failed for the network's sake.
func (s *store) keepAliveOnce(ctx context.Context, id etcd.LeaseID) (int64, error) {
	if s.lane.ActiveConnection() == nil {
		resp, err := s.lane.KeepAliveOnce(ctx, clientv3.LeaseID(id))
		if err != nil {
			return 0, err
		}
		return resp.TTL, nil
	}
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel() // ends the stream
	stream, err := clientv3.RetryLeaseClient(s.lane).LeaseKeepAlive(ctx, grpc.WaitForReady(true))
	if err != nil {
		return 0, err
	}
	// io.EOF says that the stream ended; why, is what Recv returns.
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	resp, err := stream.Recv()
	if err != nil {
		return 0, err
	}
	return resp.TTL, nil
}
