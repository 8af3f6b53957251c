package execution_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A lease is plain data: it travels to another process as JSON.
func TestLeaseTravelsAsJSON(t *testing.T) {
	t.Parallel()
	lease := execution.Lease{
		ID: "a/b", Token: 1<<62 + 1, ExpiresAt: time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC),
		Incarnation: 7, Run: 1, Epoch: "E",
	}
	b, err := json.Marshal(lease)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"executionId":"a/b","token":4611686018427387905,"expiresAt":"2026-08-01T12:00:00Z","incarnation":7,"run":1,"epoch":"E"}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	var back execution.Lease
	if err := json.Unmarshal(b, &back); err != nil || back != lease {
		t.Errorf("read back %+v, %v; want %+v", back, err, lease)
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	cancelled := &execution.Error{Message: "gone", Code: execution.CodeCancelled}
	for name, c := range map[string]struct {
		outcome execution.Outcome
		want    bool
	}{
		"cancelled":                  {execution.Outcome{Kind: execution.Failed, Error: cancelled}, true},
		"failed with another code":   {execution.Outcome{Kind: execution.Failed, Error: &execution.Error{Message: "cancelled"}}, false},
		"failed without an error":    {execution.Outcome{Kind: execution.Failed}, false},
		"completed, whatever it has": {execution.Outcome{Kind: execution.Completed, Error: cancelled}, false},
		"nothing":                    {execution.Outcome{}, false},
	} {
		if got := c.outcome.Cancelled(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
