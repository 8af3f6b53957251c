package holdfast_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

func TestOpenOverGRPC(t *testing.T) {
	t.Parallel()
	c, err := holdfast.Open(t.Context(), holdfast.Endpoints(testetcd.Endpoint(t)), holdfast.Namespace(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	def := echo("shop")
	stop := work(t, c, def)
	result(t, start(t, def, c, "tea"), "tea")
	stop()
	check(t, c.Close())
	check(t, c.Close()) // twice is the same as once
	if _, err := c.Get(bounded(t), "order-42"); err == nil {
		t.Error("a closed client answered")
	}
}

func TestNamespacesAndPrefixesAreApart(t *testing.T) {
	t.Parallel()
	def := echo("shop")
	namespace := holdfast.Namespace(rand.Text())
	for _, opts := range [][]holdfast.Option{{namespace}, {namespace, holdfast.Prefix("/elsewhere")}, {}} {
		c := open(t, opts...)
		if h := start(t, def, c, "tea", holdfast.WithID("order-42")); h.Existing() {
			t.Error("the id is taken by another namespace's execution")
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	etcd := holdfast.Etcd(testetcd.Client(t))
	cases := []struct {
		name string
		opts []holdfast.Option
		want string
	}{
		{"no etcd", nil, "no etcd is named: pass Endpoints or Etcd"},
		{"two etcds", []holdfast.Option{etcd, holdfast.Endpoints("localhost:2379")}, "Etcd excludes Endpoints"},
		{"TLS of a given client", []holdfast.Option{etcd, holdfast.TLS(&tls.Config{})}, "Etcd excludes"},
		{"a login of a given client", []holdfast.Option{etcd, holdfast.Login("root", "secret")}, "Etcd excludes"},
		{"a bad endpoint", []holdfast.Option{holdfast.Endpoints("nowhere")}, `"nowhere"`},
		{"a bad namespace", []holdfast.Option{etcd, holdfast.Namespace("")}, `namespace ""`},
		{"a bad prefix", []holdfast.Option{etcd, holdfast.Prefix("a/")}, `prefix "a/"`},
		{"a bad delay", []holdfast.Option{etcd, holdfast.RedeliveryDelay(time.Hour, time.Second)}, "redelivery delay"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, err := holdfast.Open(bounded(t), tc.opts...)
			if c != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %v, want an error with %q", c, err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Error("the error tells the password")
			}
		})
	}
}

// An etcd that does not answer is an error that names where it was looked for.
func TestOpenNamesTheEndpointsThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // accepts nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { check(t, silent.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = holdfast.Open(ctx, holdfast.Endpoints(silent.Addr().String()))
	if err == nil || !strings.Contains(err.Error(), "etcd did not answer at "+silent.Addr().String()) {
		t.Errorf("got %v", err)
	}
}

func TestHolderIsNamedAfterTheProcess(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	c := open(t)
	def := echo("shop")
	work(t, c, def)
	h := start(t, def, c, "tea")
	result(t, h, "tea")
	want := host + "/" + strconv.Itoa(os.Getpid())
	if got := get(t, c, h.ID()).Deliveries[0].Holder; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
