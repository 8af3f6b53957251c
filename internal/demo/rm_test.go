package demo_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// Two orders go on, since their provider thinks for an hour; then they are deleted, and
// one is started again.
func TestRemove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	provider := start(t, "provider", "--listen=127.0.0.1:0", "--ledger="+filepath.Join(dir, "ledger.jsonl"), "--think=1h")
	provider.await(t, "payment provider: http://")
	_, url, _ := strings.Cut(provider.log(), "payment provider: ")
	url, _, _ = strings.Cut(url, ",")
	w := start(t, "run", "--data-dir="+data, "--provider="+url, "--charge-timeout=1h")
	w.await(t, "worker runs until Ctrl-C")
	orders := file(t, order("a/b", 42, "ok"), order("a", 1, "ok"))
	if _, status := run(t, "submit", "--data-dir="+data, "--orders="+orders); status != 0 {
		t.Fatalf("submit: exit status %d, want 0", status)
	}
	for _, tt := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"rm", "a/b"}, 1, `delete "a/b": execution is not terminal: cancel it first; --cancel does`},
		{[]string{"rm", "a/b", "--cancel"}, 0, "\"a/b\"\tdeleted\n"},
		{[]string{"rm", "a/b"}, 1, `delete "a/b": not found`},
		{[]string{"rm", "a/b", "--cancel"}, 1, `"a/b": not found`},
		{[]string{"get", "a/b"}, 1, "not found"},
		{[]string{"ls"}, 0, `"a"`},
		{[]string{"submit", "--orders=" + orders}, 0, "\"a/b\"\tstarted\n"},
		{[]string{"rm", "a/b", "--cancel"}, 0, "deleted"},
		{[]string{"rm", "a", "--cancel"}, 0, "deleted"},
		{[]string{"ls"}, 0, ""},
		{[]string{"rm", "a", "--namespace=mistyped"}, 1, `namespace "mistyped" is empty`},
		{[]string{"rm", ""}, 2, "id"},
		{[]string{"rm"}, 2, "arg"},
		{[]string{"rm", "a", "b"}, 2, "arg"},
	} {
		p, status := run(t, append(tt.args, "--data-dir="+data)...)
		if out := p.stdout.String() + p.log(); status != tt.status || !strings.Contains(out, tt.says) || tt.says == "" && out != "" {
			t.Errorf("%q: exit status %d, %q; want %d and %q", tt.args, status, out, tt.status, tt.says)
		}
	}
}
