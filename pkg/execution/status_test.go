package execution_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestStatuses(t *testing.T) {
	t.Parallel()
	want := []struct {
		status   execution.Status
		terminal bool
	}{{"admitted", false}, {"running", false}, {"suspended", false}, {"completed", true}, {"failed", true}}
	got := execution.Statuses()
	if len(got) != len(want) {
		t.Fatalf("statuses %v", got)
	}
	for i, w := range want {
		if got[i] != w.status || got[i].Terminal() != w.terminal {
			t.Errorf("status %d is %q, terminal %v; want %q, %v", i, got[i], got[i].Terminal(), w.status, w.terminal)
		}
	}
	got[0] = "changed"
	if execution.Statuses()[0] != execution.StatusAdmitted {
		t.Error("a caller changed the list of statuses")
	}
	if execution.Status("").Terminal() || execution.Status("Completed").Terminal() {
		t.Error("an unknown status is terminal")
	}
}
