package storeapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

// What bounds a connection.
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = time.Minute
	writeTimeout   = 3 * time.Minute // the whole of a request, from the end of its header
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	// stopTimeout is how long the end waits for requests that have begun.
	stopTimeout = 5 * time.Second
)

// ListenAddress checks an address, "host:port" with an IP address or localhost, and
// returns it as net.Listen takes it. Without a host it is the loopback's; port 0 is any
// free one.
func ListenAddress(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("address %q: want host:port, or :port for this machine alone: %w", address, err)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if host != "localhost" && net.ParseIP(host) == nil {
		return "", fmt.Errorf("address %q: host %q is neither an IP address nor localhost", address, host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || port != strconv.FormatUint(n, 10) {
		return "", fmt.Errorf("address %q: port %q is not a number from 0 to 65535", address, port)
	}
	return net.JoinHostPort(host, port), nil
}

// Serve answers on the listener until ctx ends, and closes it. Requests that have begun
// then have 5 seconds to end. Of connections, Config.Connections are open at once.
//
// Browsers run pages of anybody's, on machines that reach this API. A request that says
// that it is from the page of another origin is refused and, on a loopback listener,
// so is one that is addressed to a name that is not this machine's own: a page could
// have made a name of its own site mean 127.0.0.1.
func Serve(ctx context.Context, l net.Listener, api *API) error {
	log := api.cfg.Logger
	local := isLoopback(l.Addr())
	if !local {
		log.Warn("store API: anybody who reaches this address may read and write every store: there is no authentication",
			zap.Stringer("address", l.Addr()))
	}
	base, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	srv := &http.Server{
		Handler:                      guard{api, http.NewCrossOriginProtection(), local},
		ReadHeaderTimeout:            headerTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return base },
		ErrorLog:                     zap.NewStdLog(log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))),
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := srv.Serve(netutil.LimitListener(l, api.cfg.Connections)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("store API: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if err := srv.Shutdown(bound); err != nil {
			log.Warn("store API: requests were cut off", zap.Error(err))
			cut()
			return srv.Close()
		}
		return nil
	})
	return g.Wait()
}

func isLoopback(a net.Addr) bool {
	tcp, is := a.(*net.TCPAddr)
	return is && tcp.IP.IsLoopback()
}

// A guard refuses what a page in a browser may have sent.
type guard struct {
	next    http.Handler
	origins *http.CrossOriginProtection
	local   bool
}

// ServeHTTP passes a request on, or refuses it.
func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.local && !isLocalHost(r.Host) {
		sendFault(w, &fault{Forbidden, fmt.Errorf("the request is addressed to %.200q; this is a loopback address: use 127.0.0.1, [::1] or localhost", r.Host)})
		return
	}
	if err := g.origins.Check(r); err != nil {
		sendFault(w, &fault{Forbidden, fmt.Errorf("the request is from a page of another origin, %.200q: %w", r.Header.Get("Origin"), err)})
		return
	}
	g.next.ServeHTTP(w, r)
}

// isLocalHost says whether the Host header names the loopback, with any port: it may be
// forwarded.
func isLocalHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
