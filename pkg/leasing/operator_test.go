package leasing_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestCancel(t *testing.T) {
	for _, claimed := range []bool{false, true} {
		t.Run(fmt.Sprintf("claimed=%v", claimed), func(t *testing.T) {
			w := newWorld(t, time.Millisecond)
			w.admit("x")
			var d execution.Delivery
			if claimed {
				d = w.claim("x")
				if err := w.RequestWake(t.Context(), "x", time.Now()); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // cancelling twice is nothing new
				if err := w.Cancel(t.Context(), "x", "customer left"); err != nil {
					t.Fatal(err)
				}
			}
			rec := w.get("x")
			if rec.Status != execution.StatusFailed || !rec.Outcome.Cancelled() {
				t.Fatalf("%+v", rec)
			}
			if claimed {
				var lost *execution.LostError
				if err := w.Acknowledge(t.Context(), d.Lease, completed(`1`)); !errors.As(err, &lost) || lost.Reason == "" {
					t.Fatalf("the holder's acknowledgement: %v", err)
				}
			}
			if err := w.RequestWake(t.Context(), "x", time.Now()); err != nil {
				t.Fatalf("a wake of a terminal execution: %v", err)
			}
		})
	}
	w := newWorld(t, time.Millisecond)
	if err := w.Cancel(t.Context(), "nobody", ""); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("unknown id: %v", err)
	}
	w.admit("done")
	if err := w.Acknowledge(t.Context(), w.claim("done").Lease, completed(`1`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Cancel(t.Context(), "done", ""); !errors.Is(err, execution.ErrTerminal) {
		t.Errorf("completed: %v", err)
	}
}

func TestFence(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	if err := w.Fence(t.Context(), "x", "nobody has it"); err != nil {
		t.Fatal(err)
	}
	if rec := w.get("x"); rec.UnacknowledgedDeliveries != 0 {
		t.Fatalf("fencing an unclaimed execution changed it: %+v", rec)
	}
	d := w.claim("x")
	if err := w.Fence(t.Context(), "x", "stuck"); err != nil {
		t.Fatal(err)
	}
	if err := w.Acknowledge(t.Context(), d.Lease, suspended); !errors.Is(err, execution.ErrLost) {
		t.Fatalf("the holder's acknowledgement: %v", err)
	}
	rec := w.get("x")
	if rec.UnacknowledgedDeliveries != 1 || rec.Deliveries[0].How != execution.HowFenced || rec.Deliveries[0].Why != "stuck" {
		t.Fatalf("%+v", rec)
	}
	if next := w.claim("x"); next.Token <= d.Token {
		t.Fatalf("token %d after %d", next.Token, d.Token)
	}
}

func TestList(t *testing.T) {
	w := newWorld(t, time.Hour)
	for i := range 25 {
		w.admit(execution.ID(fmt.Sprintf("a/%02d", i)))
	}
	w.admit("ab")
	d := w.claim("ab")
	if err := w.Release(t.Context(), d.Lease, "no"); err != nil {
		t.Fatal(err)
	}
	var ids []execution.ID
	for req := (execution.ListRequest{IDPrefix: "a/", Limit: 10}); ; {
		page, err := w.List(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range page.Records {
			ids = append(ids, rec.ID)
		}
		if req.After = page.Next; page.Next == "" {
			break
		}
	}
	if len(ids) != 25 || ids[0] != "a/00" || ids[24] != "a/24" {
		t.Fatalf("ids: %q", ids)
	}
	tests := []struct {
		name string
		req  execution.ListRequest
		want int
	}{
		{"running", execution.ListRequest{Status: execution.StatusRunning}, 25}, // claimed along with "ab"
		{"admitted", execution.ListRequest{Status: execution.StatusAdmitted}, 1},
		{"unacknowledged", execution.ListRequest{MinUnacknowledged: 1}, 1},
		{"workflow", execution.ListRequest{Workflow: "v"}, 0},
		{"queue", execution.ListRequest{Queue: "w"}, 26},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			page, err := w.List(t.Context(), tt.req)
			if err != nil || len(page.Records) != tt.want {
				t.Fatalf("%d records, want %d; %v", len(page.Records), tt.want, err)
			}
		})
	}
}
