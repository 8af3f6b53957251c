package storeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// A Code says to programs what is wrong.
type Code string

// The codes of errors. All but Unavailable and Internal mean that nothing was changed.
const (
	Invalid          Code = "INVALID"            // the request is not as described
	Forbidden        Code = "FORBIDDEN"          // it may come from a page in a browser
	StoreNotFound    Code = "STORE_NOT_FOUND"    // the store does not exist
	UnknownOperation Code = "UNKNOWN_OPERATION"  // no operation has this path
	MethodNotAllowed Code = "METHOD_NOT_ALLOWED" // it is no POST
	NamespaceInUse   Code = "NAMESPACE_IN_USE"   // it holds executions, and is not dropped
	Timeout          Code = "TIMEOUT"            // the body did not arrive in time
	TooLarge         Code = "TOO_LARGE"          // the request, or a value in it
	Unavailable      Code = "UNAVAILABLE"        // etcd does not answer; the message says if a change may have been made
	Internal         Code = "INTERNAL"           // a damaged record, or a fault of the program
)

// Status returns the HTTP status that goes with the code.
func (c Code) Status() int {
	switch c {
	case Invalid:
		return http.StatusBadRequest
	case Forbidden:
		return http.StatusForbidden
	case StoreNotFound, UnknownOperation:
		return http.StatusNotFound
	case MethodNotAllowed:
		return http.StatusMethodNotAllowed
	case NamespaceInUse:
		return http.StatusConflict
	case Timeout:
		return http.StatusRequestTimeout
	case TooLarge:
		return http.StatusRequestEntityTooLarge
	case Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// A fault is an error with its code.
type fault struct {
	code Code
	err  error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func invalid(format string, args ...any) *fault {
	return &fault{Invalid, fmt.Errorf(format, args...)}
}

// errNoAnswer marks what went wrong between here and etcd.
var errNoAnswer = errors.New("etcd does not answer")

// faultOf gives an error of the stores its code.
func faultOf(err error) *fault {
	if f, is := errors.AsType[*fault](err); is {
		return f
	}
	if bad, is := errors.AsType[*execution.InvalidError](err); is {
		return faultOfInput(bad, err)
	}
	if _, is := errors.AsType[*stores.ReceiptError](err); is {
		return &fault{Invalid, err}
	}
	if _, is := errors.AsType[*stores.NotFoundError](err); is {
		return &fault{StoreNotFound, err}
	}
	switch {
	case errors.Is(err, stores.ErrInUse):
		return &fault{NamespaceInUse, err}
	case errors.Is(err, fencing.ErrUnknown):
		return &fault{Unavailable, fmt.Errorf("the change may have been made; send the request again (without a stepId a conflict may be with its own change): %w", err)}
	case errors.Is(err, etcd.ErrTooLarge):
		return &fault{TooLarge, err}
	case unavailable(err):
		return &fault{Unavailable, err}
	}
	return &fault{Internal, err}
}

// faultOfInput gives the refusal of an input its code. Of a document nothing is quoted:
// messages end up in logs.
func faultOfInput(bad *execution.InvalidError, err error) *fault {
	switch {
	case bad.What != "state" && bad.What != "result" && bad.What != "event":
		return &fault{Invalid, err}
	case bad.Limit > 0:
		return &fault{TooLarge, fmt.Errorf("%s %s: %d bytes, the limit is %d", bad.What, bad.Reason, bad.Size, bad.Limit)}
	}
	return invalid("%s %s", bad.What, bad.Reason)
}

// unavailable says whether the same request may succeed later.
func unavailable(err error) bool {
	for _, e := range []error{
		errNoAnswer, etcd.ErrBusy, etcd.ErrNoSpace, etcd.ErrClosed, context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
