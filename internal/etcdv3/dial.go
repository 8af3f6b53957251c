package etcdv3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// What bounds the clients that Dial makes. An idle connection is not pinged
// (PermitWithoutStream): a member of etcd takes that for abuse after half a minute
// and closes the connection.
const (
	dialTimeout      = 5 * time.Second  // of fetching an auth token
	dialKeepAlive    = 10 * time.Second // between pings of a connection in use
	dialKeepAliveEnd = 3 * time.Second  // until an unanswered ping closes it
)

// A DialConfig says which etcd to reach, and how.
type DialConfig struct {
	// Endpoints of the cluster's members: "host:port", "http://host:port",
	// "https://host:port" or "unix:///path". All of one scheme. At least one.
	Endpoints []string

	// TLS for https, and for endpoints without a scheme. Nil: the system's
	// certificate authorities for https, plain text for the others.
	TLS *tls.Config

	// Username and Password, both or neither.
	Username, Password string

	// Logger for the client's own errors. Nil: none.
	Logger *zap.Logger
}

// Dial returns a store on two connections of its own, one of them for keepalives,
// and what closes them. It connects in the background: an etcd that is down is
// no error here, except that a password is exchanged for a token at once.
func Dial(cfg DialConfig) (etcd.Store, func() error, error) {
	if err := validate(cfg); err != nil {
		return nil, nil, err
	}
	main, err := dial(cfg)
	if err != nil {
		return nil, nil, err
	}
	lane, err := dial(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, main.Close())
	}
	return New(main, lane), func() error { return errors.Join(main.Close(), lane.Close()) }, nil
}

func dial(cfg DialConfig) (*clientv3.Client, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            cfg.Endpoints,
		TLS:                  cfg.TLS,
		Username:             cfg.Username,
		Password:             cfg.Password,
		Logger:               quiet(cfg.Logger),
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    dialKeepAlive,
		DialKeepAliveTimeout: dialKeepAliveEnd,
		DialOptions:          []grpc.DialOption{grpc.WithChainUnaryInterceptor(sendOnce)},
	})
	if err != nil {
		return nil, fmt.Errorf("etcd at %q: %w", cfg.Endpoints, wrap(context.Background(), 0, err))
	}
	return client, nil
}

// quiet drops the client's warnings: it writes one for each try of a request while
// etcd is away, which the engine reports once.
func quiet(logger *zap.Logger) *zap.Logger {
	if logger == nil {
		return zap.NewNop()
	}
	if !logger.Core().Enabled(zapcore.ErrorLevel) {
		return logger
	}
	return logger.Named("etcd-client").WithOptions(zap.IncreaseLevel(zapcore.ErrorLevel))
}

// sendOnce runs below the retry policy of etcd's client. A transaction that the
// server answered with Canceled or DeadlineExceeded while the caller still waits
// may have been applied; the policy would send it again. Under another code it
// does not.
func sendOnce(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	err := invoke(ctx, method, req, reply, conn, opts...)
	if method != pb.KV_Txn_FullMethodName || ctx.Err() != nil {
		return err
	}
	if c := status.Code(err); c == codes.Canceled || c == codes.DeadlineExceeded {
		return status.Error(codes.Unavailable, err.Error())
	}
	return err
}
