package etcdv3_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
)

// A fake is a member that answers every transaction and keepalive with an error,
// or, once that is nil, with success.
type fake struct {
	pb.UnimplementedKVServer
	pb.UnimplementedLeaseServer

	answers  func(call int64) error
	calls    atomic.Int64
	leadless atomic.Int64 // calls that did not ask for a leader
}

func (f *fake) answer(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	if len(md.Get(rpctypes.MetadataRequireLeaderKey)) == 0 {
		f.leadless.Add(1)
	}
	return f.answers(f.calls.Add(1))
}

func (f *fake) Txn(ctx context.Context, _ *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := f.answer(ctx); err != nil {
		return nil, err
	}
	return &pb.TxnResponse{Header: &pb.ResponseHeader{Revision: 1}, Succeeded: true}, nil
}

func (f *fake) LeaseKeepAlive(stream pb.Lease_LeaseKeepAliveServer) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	if err := f.answer(stream.Context()); err != nil {
		return err
	}
	return stream.Send(&pb.LeaseKeepAliveResponse{Header: &pb.ResponseHeader{}, TTL: 5})
}

// serve returns a store that talks to the fake.
func (f *fake) serve(t *testing.T) etcd.Store {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterKVServer(server, f)
	pb.RegisterLeaseServer(server, f)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return dial(t, etcdv3.DialConfig{Endpoints: []string{l.Addr().String()}})
}

func dial(t *testing.T, cfg etcdv3.DialConfig) etcd.Store {
	t.Helper()
	store, closeStore, err := etcdv3.Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := closeStore(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func TestAnswersOfTheServer(t *testing.T) {
	for name, tc := range map[string]struct {
		answer    error
		want      error // nil: the outcome is unknown
		temporary bool
	}{
		"no space":           {rpctypes.ErrGRPCNoSpace, etcd.ErrNoSpace, true},
		"too many requests":  {rpctypes.ErrGRPCRequestTooManyRequests, etcd.ErrBusy, true},
		"permission denied":  {rpctypes.ErrGRPCPermissionDenied, etcd.ErrPermission, false},
		"auth token":         {rpctypes.ErrGRPCInvalidAuthToken, etcd.ErrPermission, false},
		"auth failed":        {rpctypes.ErrGRPCAuthFailed, etcd.ErrPermission, false},
		"no user":            {rpctypes.ErrGRPCUserEmpty, etcd.ErrPermission, false},
		"unauthenticated":    {status.Error(codes.Unauthenticated, "by a proxy"), etcd.ErrPermission, false},
		"invalid argument":   {status.Error(codes.InvalidArgument, "some"), etcd.ErrInvalid, false},
		"not capable":        {rpctypes.ErrGRPCNotCapable, etcd.ErrInvalid, false},
		"no etcd":            {status.Error(codes.Unimplemented, "unknown service"), etcd.ErrInvalid, false},
		"no leader":          {rpctypes.ErrGRPCNoLeader, nil, true},
		"leader changed":     {rpctypes.ErrGRPCLeaderChanged, nil, true},
		"timed out":          {rpctypes.ErrGRPCTimeout, nil, true},
		"leader failed":      {rpctypes.ErrGRPCTimeoutDueToLeaderFail, nil, true},
		"stopped":            {rpctypes.ErrGRPCStopped, nil, true},
		"unavailable":        {status.Error(codes.Unavailable, "transport is closing"), nil, true},
		"cancelled":          {status.Error(codes.Canceled, "by a proxy"), nil, true},
		"deadline":           {status.Error(codes.DeadlineExceeded, "of a proxy"), nil, true},
		"internal":           {status.Error(codes.Internal, "stream terminated"), nil, true},
		"unknown":            {status.Error(codes.Unknown, "raft proposal dropped"), nil, true},
		"corrupt":            {rpctypes.ErrGRPCCorrupt, nil, true},
		"resource exhausted": {status.Error(codes.ResourceExhausted, "by a proxy"), nil, true},
		"large answer":       {status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5000000 vs. 4194304)"), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			member := &fake{answers: func(int64) error { return tc.answer }}
			_, err := member.serve(t).Txn(t.Context(), &etcd.Txn{Then: puts("k", 1)})
			if err == nil || (tc.want != nil && !errors.Is(err, tc.want)) || (tc.want == nil && etcd.IsDefinite(err)) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if got := etcd.IsTemporary(err); got != tc.temporary {
				t.Errorf("temporary: got %v, want %v", got, tc.temporary)
			}
			if n := member.calls.Load(); n != 1 && !errors.Is(tc.want, etcd.ErrPermission) {
				t.Errorf("the transaction was sent %d times", n)
			}
			if n := member.leadless.Load(); n != 0 {
				t.Errorf("%d calls did not ask for a leader", n)
			}
		})
	}
}

func TestRefreshedAuthTokenIsTriedAtOnce(t *testing.T) {
	member := &fake{answers: func(call int64) error {
		if call == 1 {
			return rpctypes.ErrGRPCInvalidAuthToken
		}
		return nil
	}}
	if _, err := member.serve(t).Txn(t.Context(), &etcd.Txn{Then: puts("k", 1)}); err != nil {
		t.Fatal(err)
	}
}

func TestKeepAliveTriesAgainWhileUnavailable(t *testing.T) {
	member := &fake{answers: func(call int64) error {
		if call < 3 {
			return rpctypes.ErrGRPCNoLeader
		}
		return nil
	}}
	ttl, err := member.serve(t).KeepAlive(t.Context(), 7)
	if err != nil || ttl != 5*time.Second {
		t.Fatalf("got %v, %v", ttl, err)
	}
	if n := member.leadless.Load(); n != 0 {
		t.Errorf("%d calls did not ask for a leader", n)
	}
}

func TestKeepAliveEndsWithItsContext(t *testing.T) {
	t.Run("while unavailable", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		member := &fake{answers: func(call int64) error {
			if call == 2 {
				cancel()
			}
			return rpctypes.ErrGRPCNoLeader
		}}
		if _, err := member.serve(t).KeepAlive(ctx, 7); !errors.Is(err, context.Canceled) || etcd.IsDefinite(err) {
			t.Fatalf("got %v, want %v", err, context.Canceled)
		}
	})
	t.Run("without an answer", func(t *testing.T) {
		silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = silent.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		store := dial(t, etcdv3.DialConfig{Endpoints: []string{silent.Addr().String()}})
		if _, err := store.KeepAlive(ctx, 7); !errors.Is(err, context.DeadlineExceeded) || etcd.IsDefinite(err) {
			t.Fatalf("got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}
