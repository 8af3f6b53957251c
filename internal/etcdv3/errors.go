package etcdv3

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// wrap gives the client's error its type. sent is the request's payload in bytes.
func wrap(ctx context.Context, sent int, err error) error {
	if err == nil {
		return nil
	}
	if kind := refusal(err, sent); kind != nil {
		return fmt.Errorf("%w: %w", kind, err)
	}
	// The server applies the caller's deadline too, and whichever side notices
	// first words the error: in-process it is "etcdserver: request timed out".
	cause := ctx.Err()
	if cause == nil && status.Code(err) == codes.DeadlineExceeded {
		cause = context.DeadlineExceeded
	}
	if cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("etcd: %w: %w", cause, err)
	}
	return fmt.Errorf("etcd: %w", err)
}

// refusal returns the typed error of a request that etcd refused, or nil.
func refusal(err error, sent int) error {
	text := reason(err)
	if kind := named(text); kind != nil {
		return kind
	}
	switch code(err) {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange, codes.Unimplemented:
		return etcd.ErrInvalid
	case codes.PermissionDenied, codes.Unauthenticated:
		return etcd.ErrPermission
	case codes.ResourceExhausted:
		if oversize(text, sent) {
			return etcd.ErrTooLarge
		}
	}
	return nil
}

// named returns the typed error of those of etcd's own that have a name in the
// engine, by their text: it is all that is left of one in a watch's reason to end.
// The in-process client calls the functions that serve gRPC, and returns the same.
func named(text string) error {
	desc := rpctypes.ErrorDesc
	switch text {
	case desc(rpctypes.ErrGRPCNoSpace):
		return etcd.ErrNoSpace
	case desc(rpctypes.ErrGRPCTooManyOps):
		return etcd.ErrTooManyOps
	case desc(rpctypes.ErrGRPCRequestTooLarge):
		return etcd.ErrTooLarge
	case desc(rpctypes.ErrGRPCDuplicateKey):
		return etcd.ErrDuplicateKey
	case desc(rpctypes.ErrGRPCLeaseNotFound):
		return etcd.ErrLeaseNotFound
	case desc(rpctypes.ErrGRPCPermissionDenied), desc(rpctypes.ErrGRPCInvalidAuthToken), desc(rpctypes.ErrGRPCAuthFailed),
		desc(rpctypes.ErrGRPCUserEmpty), desc(rpctypes.ErrGRPCUserNotFound):
		return etcd.ErrPermission
	case desc(rpctypes.ErrGRPCRequestTooManyRequests), desc(rpctypes.ErrGRPCAuthOldRevision):
		return etcd.ErrBusy // the latter: users or roles changed meanwhile, and the next try passes
	case desc(rpctypes.ErrGRPCCompacted):
		return &etcd.CompactedError{}
	}
	return nil
}

// reason returns the error's text without gRPC's own words. A watch that was not
// permitted ends with a whole gRPC error as text.
func reason(err error) string {
	text := rpctypes.ErrorDesc(err)
	if _, desc, ok := strings.Cut(text, " desc = "); ok {
		return desc
	}
	return text
}

func code(err error) codes.Code {
	if known, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return known.Code()
	}
	return status.Code(err)
}

// oversize says whether gRPC refused the request for its size, before it was
// sent or when it came in. A client with a small receive limit says of an answer
// what the server says of a request; the size that it names tells them apart,
// since the transaction behind an answer that is too large may have been applied.
func oversize(text string, sent int) bool {
	if strings.HasPrefix(text, "trying to send message larger than max") {
		return true
	}
	var size, limit int
	if _, err := fmt.Sscanf(text, "grpc: received message larger than max (%d vs. %d)", &size, &limit); err != nil {
		return false
	}
	const framing = 32 << 10 // of at most a few hundred operations and compares
	return sent <= size && size <= sent+framing
}
