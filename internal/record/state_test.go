package record_test

import (
	"fmt"
	"testing"

	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestAppendKeepsTheNewest(t *testing.T) {
	t.Parallel()
	var s record.State
	if s.Last() != nil {
		t.Errorf("an empty history ends with %+v", s.Last())
	}
	for i := range record.HistoryLimit + 5 {
		s.Append(record.Delivery{Nonce: fmt.Sprint(i)})
		if last := s.Last(); last.Nonce != fmt.Sprint(i) {
			t.Fatalf("after %d, the last entry is %+v", i, last)
		}
	}
	if len(s.Deliveries) != record.HistoryLimit || s.Deliveries[0].Nonce != "5" {
		t.Errorf("%d entries that begin with %+v", len(s.Deliveries), s.Deliveries[0])
	}
}

func TestCloneSharesNoHistory(t *testing.T) {
	t.Parallel()
	s := claimed()
	before := string(s.Encode())
	c := s.Clone()
	c.Last().How = execution.HowExpired
	c.Claimed, c.Nonce = false, "other"
	for range record.HistoryLimit {
		c.Append(record.Delivery{Nonce: "new"})
	}
	if after := string(s.Encode()); after != before {
		t.Errorf("changing the copy changed the state\n got %s\nwant %s", after, before)
	}
}

func TestKnows(t *testing.T) {
	t.Parallel()
	s := claimed()
	for nonce, want := range map[string]bool{
		"CLAIM3": true, "CLAIM1": true, "ACK1": true, "RELEASE2": true, "ACK9": false, "": false,
	} {
		if got := s.Knows(nonce); got != want {
			t.Errorf("Knows(%q) = %v", nonce, got)
		}
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	for _, status := range execution.Statuses() {
		want := status == execution.StatusCompleted || status == execution.StatusFailed
		if got := (&record.State{Base: status}).Terminal(); got != want {
			t.Errorf("Terminal() of %s = %v", status, got)
		}
	}
}
