package connect_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/connect"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestValidate(t *testing.T) {
	t.Parallel()
	cluster := []string{"http://a:2379", "http://b:2379"}
	tests := []struct {
		name string
		cfg  connect.Config
		want string // part of the error; empty: it is valid
	}{
		{"cluster", connect.Config{Endpoints: cluster}, ""},
		{"data directory", connect.Config{DataDir: "d"}, ""},
		{"secured cluster", connect.Config{Endpoints: cluster, CA: "ca", Cert: "c", Key: "k", User: "u", Password: "p"}, ""},
		{"neither", connect.Config{}, "--etcd-endpoints for a cluster or --data-dir"},
		{"both", connect.Config{Endpoints: cluster, DataDir: "d"}, "exclude each other"},
		{"secured data directory", connect.Config{DataDir: "d", CA: "ca"}, "not with --data-dir"},
		{"user of a data directory", connect.Config{DataDir: "d", User: "u", Password: "p"}, "not with --data-dir"},
		{"certificate without key", connect.Config{Endpoints: cluster, Cert: "c"}, "give both"},
		{"key without certificate", connect.Config{Endpoints: cluster, Key: "k"}, "give both"},
		{"user without password", connect.Config{Endpoints: cluster, User: "u"}, connect.PasswordVariable},
		{"listen", connect.Config{DataDir: "d", Listen: "127.0.0.1:0"}, ""},
		{"listen on a name", connect.Config{DataDir: "d", Listen: "shop:1"}, `listen address "shop:1"`},
		{"listen of a cluster", connect.Config{Endpoints: cluster, Listen: "127.0.0.1:0"}, "goes with --data-dir"},
		{"empty endpoint", connect.Config{Endpoints: []string{"http://a:2379", ""}}, "an endpoint is empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.cfg.Validate()
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Validate() = %v, want %q", err, tt.want)
			}
			if err == nil {
				return
			}
			if _, err := connect.Find(tt.cfg); err == nil {
				t.Error("Find took it")
			}
			if _, err := connect.Serve(t.Context(), tt.cfg, nil); err == nil {
				t.Error("Serve took it")
			}
		})
	}
}

// What one process serves, another one finds, for as long as it is served.
func TestFindTheEtcdOfADirectory(t *testing.T) {
	t.Parallel()
	cfg := connect.Config{DataDir: filepath.Join(t.TempDir(), "data")}
	if _, err := connect.Find(cfg); err == nil || !strings.Contains(err.Error(), "no process serves it now") {
		t.Errorf("Find before Serve: %v", err)
	}
	if _, err := os.Stat(cfg.DataDir); !os.IsNotExist(err) {
		t.Errorf("Find made the directory: %v", err)
	}
	served, err := connect.Serve(t.Context(), cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connect.Serve(t.Context(), cfg, nil); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second Serve: %v", err)
	}
	found, err := connect.Find(cfg)
	if err != nil {
		t.Fatal(err)
	}
	here, err := holdfast.Open(t.Context(), served.Options...)
	if err != nil {
		t.Fatal(err)
	}
	there, err := holdfast.Open(t.Context(), found.Options...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := here.Executions().Admit(t.Context(), execution.AdmitRequest{ID: "a", Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	if r, err := there.Get(t.Context(), "a"); err != nil || r.Workflow != "w" {
		t.Errorf("the other process reads %+v, %v", r, err)
	}
	sameStore(t, served, found)
	for _, shut := range []func() error{there.Close, found.Close, here.Close, served.Close} {
		if err := shut(); err != nil {
			t.Error(err)
		}
	}
	if _, err := connect.Find(cfg); err == nil || !strings.Contains(err.Error(), "no process serves it now") {
		t.Errorf("Find after Close: %v", err)
	}
}

// sameStore checks that what the one writes the other one reads.
func sameStore(t *testing.T, one, other *connect.Etcd) {
	t.Helper()
	const key = "a key"
	for i, e := range []*connect.Etcd{one, other} {
		store, closeStore, err := e.Store(nil)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			_, err = store.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: key}}})
		}
		res, _, getErr := store.Get(t.Context(), etcd.Get{Key: key})
		if err := errors.Join(err, getErr, closeStore()); err != nil || len(res.KVs) != 1 {
			t.Errorf("store %d: %v, %v", i, res.KVs, err)
		}
	}
}

// The address that a killed process has left is not believed.
func TestFindIgnoresAStaleAddress(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{connect.EndpointFile: "http://127.0.0.1:1\n", "holdfast.lock": "1\nhttp://127.0.0.1:1\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := connect.Find(connect.Config{DataDir: dir})
	if err == nil || !strings.Contains(err.Error(), "no process serves it now; start one with: worker run --data-dir "+dir) {
		t.Errorf("Find: %v", err)
	}
}

func TestSecuredCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := pair(t, dir)
	nonsense := filepath.Join(dir, "nonsense.pem")
	if err := os.WriteFile(nonsense, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoints := []string{"https://a:2379"}
	tests := []struct {
		name string
		cfg  connect.Config
		want string
	}{
		{"all of it", connect.Config{CA: cert, Cert: cert, Key: key, User: "u", Password: "p"}, ""},
		{"authority only", connect.Config{CA: cert}, ""},
		{"no such authority", connect.Config{CA: filepath.Join(dir, "none.pem")}, "none.pem"},
		{"authority is nonsense", connect.Config{CA: nonsense}, "nonsense.pem holds no certificate"},
		{"certificate is nonsense", connect.Config{Cert: nonsense, Key: key}, "certificate for etcd"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.cfg.Endpoints = endpoints
			e, err := connect.Find(tt.cfg)
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Find: %v, want %q", err, tt.want)
			}
			if err == nil && (len(e.Options) < 2 || e.Where != endpoints[0]) {
				t.Errorf("Find gave %d options for %s", len(e.Options), e.Where)
			}
		})
	}
}

// pair writes a certificate and its key.
func pair(t *testing.T, dir string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", raw)
}
