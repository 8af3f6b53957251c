package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/effect"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// An effect was settled again, by a step and by others; an operator lists that.
func TestConflicts(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	start(t, "run", "--data-dir="+data, "--provider=http://127.0.0.1:1").await(t, "worker runs until Ctrl-C")
	list := func(more ...string) string {
		out, err := exec.Command(worker, append([]string{"conflicts", "--data-dir=" + data}, more...)...).CombinedOutput()
		if err != nil {
			t.Errorf("conflicts %q: %v: %s", more, err, out)
		}
		return regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|[0-9a-f]{64}`).ReplaceAllString(string(out), "*")
	}
	endpoint, err := os.ReadFile(filepath.Join(data, "etcd.endpoint"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := holdfast.Open(t.Context(), holdfast.Endpoints(strings.TrimSpace(string(endpoint))))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	effects := effect.NewClient(client)
	if got := list(); got != "" {
		t.Errorf("at first: %q", got)
	}
	step := execution.StepID{Execution: "order\t42", Step: "charge"}
	if _, err := effects.Begin(t.Context(), effect.Request{Step: step, ID: "charge/42", Operation: "charge-card", Input: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := effects.Settle(t.Context(), "charge/42", "first"); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		effects.SettleAs(t.Context(), step, "charge/42", effect.Result{Value: json.RawMessage(`{"receipt":2}`)}),
		effects.Decline(t.Context(), "charge/42", os.ErrNotExist),
		effects.Settle(t.Context(), "charge/42", strings.Repeat("x", 1000)),
	} {
		if err == nil {
			t.Error("it was settled twice")
		}
	}
	want := `"charge/42"	"charge-card"	"first"	{"receipt":2}	"order\t42" "charge"	*
"charge/42"	"charge-card"	"first"	declined: "file does not exist"	"elsewhere"	*
"charge/42"	"charge-card"	"first"	"` + strings.Repeat("x", 199) + `…	"elsewhere"	*
`
	if got := list(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := list("--namespace=mistyped"); got != "worker: namespace \"mistyped\" is empty\n" {
		t.Errorf("elsewhere: %q", got)
	}
}
