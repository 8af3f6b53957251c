package etcdv3_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/pkg/embedded"
)

func TestDialRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  etcdv3.DialConfig
		want []string
	}{
		"no endpoints":        {etcdv3.DialConfig{}, []string{"no etcd endpoint"}},
		"empty endpoint":      {etcdv3.DialConfig{Endpoints: []string{"127.0.0.1:1", ""}}, []string{`""`, "empty"}},
		"strange scheme":      {etcdv3.DialConfig{Endpoints: []string{"etcd://127.0.0.1:1"}}, []string{"etcd://127.0.0.1:1", `"etcd"`}},
		"no port":             {etcdv3.DialConfig{Endpoints: []string{"http://127.0.0.1"}}, []string{"http://127.0.0.1", "port"}},
		"no port, no scheme":  {etcdv3.DialConfig{Endpoints: []string{"localhost"}}, []string{`"localhost"`, "port"}},
		"no host":             {etcdv3.DialConfig{Endpoints: []string{":2379"}}, []string{`":2379"`, "host"}},
		"several in one":      {etcdv3.DialConfig{Endpoints: []string{"127.0.0.1:1,127.0.0.1:2"}}, []string{"127.0.0.1:1,127.0.0.1:2"}},
		"a path":              {etcdv3.DialConfig{Endpoints: []string{"http://127.0.0.1:1/v3"}}, []string{"http://127.0.0.1:1/v3", "more than"}},
		"a password in it":    {etcdv3.DialConfig{Endpoints: []string{"http://u:secret@127.0.0.1:1"}}, []string{"127.0.0.1:1", "more than"}},
		"malformed":           {etcdv3.DialConfig{Endpoints: []string{"http://[::1:1"}}, []string{"http://[::1:1"}},
		"unix without a path": {etcdv3.DialConfig{Endpoints: []string{"unix://"}}, []string{"unix://", "path"}},
		"mixed schemes":       {etcdv3.DialConfig{Endpoints: []string{"http://h:1", "https://h:1"}}, []string{"http://h:1", "https://h:1"}},
		"TLS for http":        {etcdv3.DialConfig{Endpoints: []string{"http://h:1"}, TLS: &tls.Config{MinVersion: tls.VersionTLS12}}, []string{"http://h:1", "TLS"}},
		"no password":         {etcdv3.DialConfig{Endpoints: []string{"h:1"}, Username: "u"}, []string{`"u"`, "password"}},
		"no username":         {etcdv3.DialConfig{Endpoints: []string{"h:1"}, Password: "secret"}, []string{"username"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := etcdv3.Dial(tc.cfg)
			if err == nil {
				t.Fatal("it was taken")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error %q tells a password", err)
			}
		})
	}
}

func TestDialTakes(t *testing.T) {
	for _, endpoints := range [][]string{
		{"127.0.0.1:1"}, {"http://localhost:1", "http://[::1]:1/"}, {"https://h:1"}, {"unix:///nowhere"}, {"unixs://nowhere:0"},
	} {
		dial(t, etcdv3.DialConfig{Endpoints: endpoints})
	}
}

func TestUnreachableEtcdIsNotDefinite(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = dial(t, etcdv3.DialConfig{Endpoints: []string{nobody}}).Txn(ctx, &etcd.Txn{Then: puts("k", 1)})
	if !errors.Is(err, context.DeadlineExceeded) || etcd.IsDefinite(err) {
		t.Fatalf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

// withAuth starts an etcd that knows root and bob; bob may touch bob/.
func withAuth(t *testing.T) string {
	t.Helper()
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: t.TempDir(), NoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := clientv3.NewFromURL(server.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	ctx := t.Context()
	steps := []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := client.UserAdd(ctx, "bob", "secret"); return err },
		func() error { _, err := client.RoleAdd(ctx, "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "bob"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "bob", "bob/", "bob0", clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "bob", "bob"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	return server.Endpoint()
}

func TestPermissions(t *testing.T) {
	endpoint := withAuth(t)
	bob := dial(t, etcdv3.DialConfig{Endpoints: []string{endpoint}, Username: "bob", Password: "secret"})
	from := put(t, bob, "bob/k")
	if b := <-bob.Watch(t.Context(), "bob/", "bob0", from); len(b.Events) != 1 {
		t.Fatalf("watch of bob's: got %+v", b)
	}
	nobody := dial(t, etcdv3.DialConfig{Endpoints: []string{endpoint}})
	_, txnErr := bob.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: "bob/x"}, etcd.Put{Key: "alice/k"}}})
	_, _, getErr := bob.Get(t.Context(), etcd.Get{Key: "alice/k"})
	_, nobodyErr := nobody.Txn(t.Context(), &etcd.Txn{Then: puts("bob/", 1)})
	_, _, grantErr := nobody.Grant(t.Context(), time.Second)
	_, _, dialErr := etcdv3.Dial(etcdv3.DialConfig{Endpoints: []string{endpoint}, Username: "bob", Password: "wrong"})
	watch := bob.Watch(t.Context(), "alice/", "alice0", from)
	denied := <-watch
	for name, err := range map[string]error{
		"transaction": txnErr, "read": getErr, "without a user": nobodyErr, "grant": grantErr, "dial": dialErr, "watch": denied.Err,
	} {
		if !errors.Is(err, etcd.ErrPermission) || !etcd.IsDefinite(err) {
			t.Errorf("%s: got %v, want %v", name, err, etcd.ErrPermission)
		}
	}
	if b, open := <-watch; open {
		t.Errorf("after the watch's error: got %+v", b)
	}
	if kv, ok := get(t, bob, etcd.Get{Key: "bob/x"}).One(); ok {
		t.Errorf("the denied transaction wrote %+v", kv)
	}
}
