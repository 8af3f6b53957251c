package storeapi_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/storeapi"
)

func TestListenAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:7420":  "127.0.0.1:7420",
		":7420":           "127.0.0.1:7420",
		":0":              "127.0.0.1:0",
		"localhost:1":     "localhost:1",
		"[::1]:7420":      "[::1]:7420",
		"0.0.0.0:7420":    "0.0.0.0:7420",
		"10.1.2.3:65535":  "10.1.2.3:65535",
		"":                "",
		"7420":            "",
		"127.0.0.1":       "",
		"127.0.0.1:":      "",
		"127.0.0.1:http":  "",
		"127.0.0.1:-1":    "",
		"127.0.0.1:+1":    "",
		"127.0.0.1:07":    "",
		"127.0.0.1:65536": "",
		"shop:7420":       "",
		"http://[::1]:1":  "",
		"::1:7420":        "",
		"*:7420":          "",
	} {
		got, err := storeapi.ListenAddress(address)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v; want %q", address, got, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), address) {
			t.Errorf("%q: the error does not name it: %v", address, err)
		}
	}
}

// serve runs the API on the listener until the context ends.
func (s *scene) serve(ctx context.Context, l net.Listener) (ended <-chan error) {
	done := make(chan error, 1)
	go func() { done <- storeapi.Serve(ctx, l, s.api) }()
	return done
}

// What a page of another site makes a browser send is refused.
func TestBrowsersAreKeptOut(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	l := listen(t, "127.0.0.1:0")
	ctx, stop := context.WithCancel(t.Context())
	ended := s.serve(ctx, l)
	client := &http.Client{}
	address := l.Addr().String()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, host string
		header     map[string]string
		ok         bool
	}{
		{"as it is", address, nil, true},
		{"by name", "LocalHost:" + port, nil, true},
		{"another loopback address", "127.9.9.9:1", nil, true},
		{"IPv6", "[::1]:" + port, nil, true},
		{"without a port", "[::1]", nil, true},
		{"its own page", address, map[string]string{"Origin": "http://" + address}, true},
		{"typed in", address, map[string]string{"Sec-Fetch-Site": "none"}, true},
		{"a name that was bent", "evil.example:" + port, nil, false},
		{"a name like ours", "localhost.evil.example", nil, false},
		{"an address that is not the loopback's", "10.1.2.3:" + port, nil, false},
		{"another site's page", address, map[string]string{"Origin": "https://evil.example"}, false},
		{"another port's page", address, map[string]string{"Origin": "http://127.0.0.1:1"}, false},
		{"a page without an origin", address, map[string]string{"Origin": "null"}, false},
		{"another site, as the browser says", address, map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/ns/ns/createStore", strings.NewReader(create))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		for name, value := range tt.header {
			req.Header.Set(name, value)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if tt.ok && res.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d, %s", tt.name, res.StatusCode, answer)
		}
		if !tt.ok {
			s.isFault(storeapi.Forbidden, res.StatusCode, string(answer))
		}
	}
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Whoever opens the API to a network is told what that means.
func TestOpenAddressIsWarnedOf(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]int{"127.0.0.1:0": 0, "0.0.0.0:0": 1} {
		core, logs := observer.New(zapcore.WarnLevel)
		namespaces, err := storeapi.NewNamespaces(storeapi.NamespacesConfig{Store: newScene(t).store, Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		api, err := storeapi.New(storeapi.Config{Namespaces: namespaces, Logger: zap.New(core)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := storeapi.Serve(ctx, listen(t, address), api); err != nil {
			t.Error(err)
		}
		if got := logs.FilterMessageSnippet("no authentication").Len(); got != want {
			t.Errorf("%s: %d warnings, want %d", address, got, want)
		}
	}
}

// A listener that breaks ends Serve with its error.
func TestBrokenListener(t *testing.T) {
	t.Parallel()
	l := listen(t, "127.0.0.1:0")
	l.Close()
	if err := storeapi.Serve(t.Context(), l, newScene(t).api); err == nil || !strings.Contains(err.Error(), "store API: ") {
		t.Errorf("Serve: %v", err)
	}
}

// pipes is a listener in memory: time skips while a connection is waited for.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7420} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// A stop waits for a request that has begun, and then cuts it off.
func TestStop(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		takes time.Duration // at etcd
		ok    bool
	}{
		"request ends in time": {4 * time.Second, true},
		"request does not end": {6 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server, err := memetcd.New(memetcd.Config{})
				if err != nil {
					t.Fatal(err)
				}
				defer server.Close()
				began := make(chan struct{}, 10)
				s := newSceneOn(t, &troubled{Store: server.Client("api", nil), before: func(ctx context.Context, txn *etcd.Txn) error {
					began <- struct{}{}
					if writes(txn) {
						return nil
					}
					select {
					case <-time.After(tt.takes):
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}})
				l := newPipes()
				ctx, stop := context.WithCancel(t.Context())
				ended := s.serve(ctx, l)
				client := &http.Client{Transport: &http.Transport{DialContext: l.dial, DisableKeepAlives: true}}
				status := make(chan int, 1)
				go func() {
					res, err := client.Post("http://localhost/v1/ns/ns/createStore", "application/json", strings.NewReader(create))
					if err != nil {
						status <- 0
						return
					}
					res.Body.Close()
					status <- res.StatusCode
				}()
				<-began
				stop()
				if got := <-status; (got == http.StatusOK) != tt.ok {
					t.Errorf("status %d", got)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// dialed returns a client that has one connection, which it keeps.
func (p *pipes) dialed() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: p.dial}}
}

// More connections than the limit wait for one to end.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, err := memetcd.New(memetcd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		const limit = 2
		s := newSceneOf(t, server.Client("api", nil), storeapi.Config{Connections: limit})
		l := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		ended := s.serve(ctx, l)
		var clients [limit + 2]*http.Client
		answers := make(chan int, len(clients))
		for i := range clients {
			clients[i] = l.dialed()
			go func() {
				res, err := clients[i].Post("http://localhost/v1/ns/ns/createStore", "application/json", strings.NewReader(create))
				if err != nil {
					t.Error(err)
					answers <- 0
					return
				}
				_, _ = io.Copy(io.Discard, res.Body) // for the connection to be kept
				res.Body.Close()
				answers <- i
			}()
			synctest.Wait()
		}
		if n := len(answers); n != limit {
			t.Errorf("%d requests were answered, want %d", n, limit)
		}
		for range clients {
			clients[<-answers].CloseIdleConnections()
			synctest.Wait()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A stop does not wait for connections that wait.
func TestStopAtTheBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, err := memetcd.New(memetcd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		l := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		ended := newSceneOf(t, server.Client("api", nil), storeapi.Config{Connections: 1}).serve(ctx, l)
		conn, err := l.dial(ctx, "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A body that does not come is not the same as one that is wrong.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server, err := memetcd.New(memetcd.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		s := newSceneOn(t, server.Client("api", nil))
		l := newPipes()
		ctx, stop := context.WithCancel(t.Context())
		ended := s.serve(ctx, l)
		conn, err := l.dial(ctx, "", "")
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "POST /v1/ns/ns/createStore HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Error(err)
		}
		res.Body.Close()
		if s.isFault(storeapi.Timeout, res.StatusCode, string(answer)); message(string(answer)) != "the body did not arrive within 1m0s" {
			t.Errorf("the answer is %s", answer)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
