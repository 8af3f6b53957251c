package storeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"
)

// MaxBodyBytes bounds the body of a request. Two values of 1 MiB do not fit together
// into what etcd takes, so nothing that could be stored is refused.
const MaxBodyBytes = 2 << 20

// DefaultTimeout bounds a request, unless it is configured otherwise.
const DefaultTimeout = 20 * time.Second

// Config says what an API serves.
type Config struct {
	Namespaces *Namespaces // required

	// Timeout bounds what a request waits for etcd: then it is answered with
	// Unavailable. Default DefaultTimeout; not negative.
	Timeout time.Duration

	// Connections bounds how many connections Serve has open at once: more wait until
	// one ends. Default: a quarter of the files that the process may have open, at most
	// MaxConnections. Not negative.
	Connections int

	Logger *zap.Logger // default: silent
}

// An API is the handler of the store connector API. It may be used by many goroutines
// at once.
type API struct {
	cfg        Config
	operations map[string]operation
}

// New returns the handler.
func New(cfg Config) (*API, error) {
	if cfg.Namespaces == nil {
		return nil, errors.New("store API: Namespaces are required")
	}
	if cfg.Timeout < 0 {
		return nil, fmt.Errorf("store API: timeout %v: want 0 for the default, or more", cfg.Timeout)
	}
	if cfg.Connections < 0 {
		return nil, fmt.Errorf("store API: %d connections: want 0 for the default, or more", cfg.Connections)
	}
	if cfg.Connections == 0 {
		cfg.Connections = defaultConnections(openFiles())
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return &API{cfg, operations()}, nil
}

// ServeHTTP answers one request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer a.survive(w, r)
	body, err := a.serve(w, r)
	if err == nil {
		send(w, http.StatusOK, body)
		return
	}
	f := faultOf(err)
	if f.code == Internal {
		a.cfg.Logger.Error("store API: a request failed", zap.String("path", r.URL.Path), zap.Error(err))
	}
	sendFault(w, f)
}

// survive answers a request whose operation panicked.
func (a *API) survive(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	a.cfg.Logger.Error("store API: a request panicked", zap.String("path", r.URL.Path), zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
	sendFault(w, &fault{Internal, errors.New("a fault of the server; its log tells of it")})
}

// serve does what the request asks for.
func (a *API) serve(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	namespace, op, err := a.route(r)
	if err != nil {
		return nil, err
	}
	client, err := a.cfg.Namespaces.Open(namespace)
	if err != nil {
		return nil, err
	}
	body, err := read(w, r)
	if err != nil {
		return nil, err
	}
	m, err := parse(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), a.cfg.Timeout)
	defer cancel()
	return op(ctx, client, m)
}

// route returns what the path and the method name.
func (a *API) route(r *http.Request) (namespace string, op operation, err error) {
	path := r.URL.EscapedPath()
	parts := strings.Split(path, "/")
	if len(parts) != 5 || parts[0] != "" || parts[1] != "v1" || parts[2] != "ns" {
		return "", nil, &fault{UnknownOperation, fmt.Errorf("path %.200q; want /v1/ns/{ns}/{op}", path)}
	}
	op, known := a.operations[parts[4]]
	switch {
	case !known:
		return "", nil, &fault{UnknownOperation, fmt.Errorf("operation %.200q is unknown", parts[4])}
	case r.Method != http.MethodPost:
		return "", nil, &fault{MethodNotAllowed, fmt.Errorf("method %.200q; want POST", r.Method)}
	}
	namespace, err = url.PathUnescape(parts[3])
	if err != nil {
		return "", nil, invalid("namespace: %w", err)
	}
	return namespace, op, nil
}

// read returns the request's body.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, &fault{TooLarge, fmt.Errorf("the body is longer than %d bytes", MaxBodyBytes)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &fault{Timeout, fmt.Errorf("the body did not arrive within %v", readTimeout)}
	}
	if err != nil {
		return nil, invalid("the body can't be read: %w", err)
	}
	return body, nil
}
