package embedded_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/embedded"
)

func TestDamagedDatabaseIsNamed(t *testing.T) {
	dir := t.TempDir()
	s := start(t, embedded.Config{Dir: dir})
	put(t, s.Client(), "k", "v")
	closeServer(t, s)
	db := filepath.Join(dir, "etcd", "member", "snap", "db")
	whole, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(db, bytes.Repeat([]byte("garbage"), len(whole)/7), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = embedded.Start(t.Context(), embedded.Config{Dir: dir})
	if err == nil {
		closeServer(t, s)
	}
	if err == nil || !strings.Contains(err.Error(), db+" is no database of etcd") {
		t.Errorf("got %v, want an error that names %s", err, db)
	}
	torn := bytes.Clone(whole)
	clear(torn[:64]) // the first meta page; the second is good
	if err := os.WriteFile(db, torn, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := get(t, start(t, embedded.Config{Dir: dir}).Client(), "k"); got != "v" {
		t.Errorf("got %q from a database with one good meta page, want %q", got, "v")
	}
}

func TestPortIsReusedWhereItIsFree(t *testing.T) {
	dir := t.TempDir()
	first := start(t, embedded.Config{Dir: dir})
	before := first.Endpoint()
	closeServer(t, first)
	if second := start(t, embedded.Config{Dir: dir}); second.Endpoint() != before {
		t.Errorf("served at %s, and then at %s", before, second.Endpoint())
	}
}

func TestServing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	serving := func(want string) {
		t.Helper()
		got, err := embedded.Serving(dir)
		if got != want || (want == "") != errors.Is(err, embedded.ErrNotServed) {
			t.Errorf("Serving gave %q, %v, want %q", got, err, want)
		}
	}
	serving("")
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("Serving made the directory: %v", err)
	}
	s := start(t, embedded.Config{Dir: dir})
	serving(s.Endpoint())
	closeServer(t, s)
	serving("") // though its signature is still there
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := embedded.Start(ended, embedded.Config{Dir: dir}); err == nil {
		closeServer(t, s)
	}
	serving("")
}
