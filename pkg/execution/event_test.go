package execution_test

import (
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestNilObserverHearsNothing(t *testing.T) {
	t.Parallel()
	var o execution.Observer
	o.Tell(execution.Event{Kind: execution.EventClaimed})
}

func TestObserverHearsTheEventWithItsTime(t *testing.T) {
	t.Parallel()
	var heard []execution.Event
	o := execution.Observer(func(e execution.Event) { heard = append(heard, e) })
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	o.Tell(execution.Event{Kind: execution.EventRefused, ID: "a", Token: 2, Current: 3, At: at})
	before := time.Now()
	o.Tell(execution.Event{Kind: execution.EventReaped})
	after := time.Now()
	if len(heard) != 2 {
		t.Fatalf("heard %d events, want 2", len(heard))
	}
	if e := heard[0]; e.Kind != execution.EventRefused || e.ID != "a" || e.Token != 2 || e.Current != 3 || !e.At.Equal(at) {
		t.Errorf("heard %+v", e)
	}
	if got := heard[1].At; got.Before(before) || got.After(after) {
		t.Errorf("an event without a time was told at %v, want between %v and %v", got, before, after)
	}
}
