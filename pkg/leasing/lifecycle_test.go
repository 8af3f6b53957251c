package leasing_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

func completed(result string) execution.Outcome {
	return execution.Outcome{Kind: execution.Completed, Result: json.RawMessage(result)}
}

var suspended = execution.Outcome{Kind: execution.Suspended}

func TestAdmitClaimAcknowledge(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("order/42 ☃")
	if rec := w.get("order/42 ☃"); rec.Status != execution.StatusAdmitted || rec.Queue != "w" || string(rec.Params) != `{"a":1}` {
		t.Fatalf("after admit: %+v", rec)
	}
	d := w.claim("order/42 ☃")
	if !d.First || d.Workflow != "w" || string(d.Params) != `{"a":1}` || d.Token <= 0 {
		t.Fatalf("delivery: %+v", d)
	}
	if rec := w.get("order/42 ☃"); rec.Status != execution.StatusRunning || rec.Token != d.Token {
		t.Fatalf("while claimed: %+v", rec)
	}
	if err := w.Acknowledge(t.Context(), d.Lease, completed(`{"n": 1.0}`)); err != nil {
		t.Fatal(err)
	}
	rec := w.get("order/42 ☃")
	if rec.Status != execution.StatusCompleted || string(rec.Outcome.Result) != `{"n": 1.0}` || !rec.Due.IsZero() {
		t.Fatalf("after acknowledge: %+v", rec)
	}
	if len(rec.Deliveries) != 1 || rec.Deliveries[0].Token != d.Token || rec.Deliveries[0].How != execution.HowCompleted {
		t.Fatalf("history: %+v", rec.Deliveries)
	}
	var lost *execution.LostError
	if err := w.Acknowledge(t.Context(), d.Lease, completed(`2`)); !errors.As(err, &lost) {
		t.Fatalf("acknowledged twice: %v", err)
	}
	out, err := w.Wait(t.Context(), "order/42 ☃")
	if err != nil || string(out.Result) != `{"n": 1.0}` {
		t.Fatalf("wait: %+v, %v", out, err)
	}
}

func TestAdmitTwice(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	tests := []struct {
		name     string
		req      execution.AdmitRequest
		existing bool
		want     error
	}{
		{"same", execution.AdmitRequest{ID: "x", Workflow: "w", Params: json.RawMessage(`{"a":1}`)}, true, nil},
		{"white space", execution.AdmitRequest{ID: "x", Workflow: "w", Params: json.RawMessage(` { "a" : 1 } `)}, true, nil},
		{"other params", execution.AdmitRequest{ID: "x", Workflow: "w", Params: json.RawMessage(`{"a":1.0}`)}, false, execution.ErrConflict},
		{"no params", execution.AdmitRequest{ID: "x", Workflow: "w"}, false, execution.ErrConflict},
		{"other workflow", execution.AdmitRequest{ID: "x", Workflow: "v", Params: json.RawMessage(`{"a":1}`)}, false, execution.ErrConflict},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			adm, err := w.Admit(t.Context(), tt.req)
			if !errors.Is(err, tt.want) || adm.Existing != tt.existing {
				t.Fatalf("got %+v, %v", adm, err)
			}
		})
	}
}

func TestBadInputIsRefused(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	d := w.claim("x")
	large := json.RawMessage(`"` + string(make([]byte, execution.MaxPayloadBytes)) + `"`)
	tests := map[string]error{
		"no workflow":    second(w.Admit(t.Context(), execution.AdmitRequest{ID: "a"})),
		"NUL in id":      second(w.Admit(t.Context(), execution.AdmitRequest{ID: "a\x00b", Workflow: "w"})),
		"params":         second(w.Admit(t.Context(), execution.AdmitRequest{ID: "a", Workflow: "w", Params: json.RawMessage(`{`)})),
		"large params":   second(w.Admit(t.Context(), execution.AdmitRequest{ID: "a", Workflow: "w", Params: large})),
		"get":            second(w.Get(t.Context(), "")),
		"limit":          second(w.ClaimDue(t.Context(), execution.ClaimRequest{Duration: minute})),
		"duration":       second(w.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 1})),
		"renew duration": second(w.Renew(t.Context(), d.Lease, -1)),
		"outcome kind":   w.Acknowledge(t.Context(), d.Lease, execution.Outcome{Kind: "done"}),
		"result":         w.Acknowledge(t.Context(), d.Lease, completed(`{`)),
		"large result":   w.Acknowledge(t.Context(), d.Lease, execution.Outcome{Kind: execution.Completed, Result: large}),
		"no error":       w.Acknowledge(t.Context(), d.Lease, execution.Outcome{Kind: execution.Failed}),
		"status filter":  second(w.List(t.Context(), execution.ListRequest{Status: "done"})),
		"page size":      second(w.List(t.Context(), execution.ListRequest{Limit: 100000})),
	}
	for name, err := range tests {
		if _, is := errors.AsType[*execution.InvalidError](err); !is {
			t.Errorf("%s: %v", name, err)
		}
	}
	if rec := w.get("x"); rec.Status != execution.StatusRunning || rec.Token != d.Token {
		t.Errorf("afterwards: %+v", rec)
	}
	if _, err := w.Get(t.Context(), "a"); !errors.Is(err, execution.ErrNotFound) {
		t.Errorf("something was stored: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestReleaseDelaysAndCounts(t *testing.T) {
	w := newWorld(t, time.Hour)
	w.admit("x")
	d := w.claim("x")
	if err := w.Release(t.Context(), d.Lease, "try later"); err != nil {
		t.Fatal(err)
	}
	rec := w.get("x")
	if rec.Status != execution.StatusAdmitted || rec.UnacknowledgedDeliveries != 1 || !rec.Due.Equal(rec.NotBefore) || time.Until(rec.Due) < 30*time.Minute {
		t.Fatalf("after release: %+v", rec)
	}
	// A wake does not shorten the delay. (I8)
	if err := w.RequestWake(t.Context(), "x", time.Now()); err != nil {
		t.Fatal(err)
	}
	if again := w.get("x"); !again.Due.Equal(rec.Due) {
		t.Fatalf("after a wake: %v, was %v", again.Due, rec.Due)
	}
	ds, err := w.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 9, Duration: minute, Now: rec.Due.Add(-time.Second)})
	if err != nil || len(ds) != 0 {
		t.Fatalf("claimed before not-before: %v, %v", ds, err)
	}
	ds, err = w.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 9, Duration: minute, Now: rec.Due})
	if err != nil || len(ds) != 1 || ds[0].Token <= d.Token || ds[0].UnacknowledgedDeliveries != 1 || ds[0].First {
		t.Fatalf("claimed at not-before: %+v, %v", ds, err)
	}
}

func TestWakesCollapseToTheEarliest(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	d := w.claim("x")
	far, near := time.Now().Add(2*time.Hour).Truncate(time.Millisecond), time.Now().Add(time.Hour).Truncate(time.Millisecond)
	for _, at := range []time.Time{far, near, far} {
		if err := w.RequestWake(t.Context(), "x", at); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Acknowledge(t.Context(), d.Lease, suspended); err != nil {
		t.Fatal(err)
	}
	if rec := w.get("x"); rec.Status != execution.StatusSuspended || !rec.Due.Equal(near) {
		t.Fatalf("%+v, want due %v", rec, near)
	}
	nearer := near.Add(-time.Minute)
	for _, at := range []time.Time{far, nearer} {
		if err := w.RequestWake(t.Context(), "x", at); err != nil {
			t.Fatal(err)
		}
	}
	if rec := w.get("x"); !rec.Due.Equal(nearer) {
		t.Fatalf("unclaimed: %+v, want due %v", rec, nearer)
	}
	if err := w.RequestWake(t.Context(), "nobody", far); !errors.Is(err, execution.ErrNotFound) {
		t.Fatalf("unknown id: %v", err)
	}
}

func TestExpiryIsCountedOnce(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	first := w.claim("x")
	w.expire("x")
	if rec := w.get("x"); rec.Status != execution.StatusAdmitted || rec.UnacknowledgedDeliveries != 1 {
		t.Fatalf("expired: %+v", rec)
	}
	// It carries on: nobody has claimed since, so its token is current.
	renewed, err := w.Renew(t.Context(), first.Lease, minute)
	if err != nil || renewed.Token != first.Token {
		t.Fatalf("renew: %+v, %v", renewed, err)
	}
	if rec := w.get("x"); rec.Status != execution.StatusRunning || rec.UnacknowledgedDeliveries != 0 {
		t.Fatalf("renewed: %+v", rec)
	}
	w.expire("x")
	next := w.claim("x")
	if !next.Takeover || next.UnacknowledgedDeliveries != 1 || next.Token <= first.Token {
		t.Fatalf("takeover: %+v", next)
	}
	var lost *execution.LostError
	if _, err := w.Renew(t.Context(), renewed, minute); !errors.As(err, &lost) || lost.Carried != first.Token || lost.Current != next.Token {
		t.Fatalf("stale renew: %v", err)
	}
	for name, err := range map[string]error{
		"release": w.Release(t.Context(), first.Lease, ""), "acknowledge": w.Acknowledge(t.Context(), first.Lease, suspended),
	} {
		if !errors.Is(err, execution.ErrLost) {
			t.Errorf("stale %s: %v", name, err)
		}
	}
	if rec := w.get("x"); rec.Deliveries[0].How != execution.HowExpired || rec.Token != next.Token {
		t.Fatalf("history: %+v", rec)
	}
}

// A direct caller's process ends with its claim, and leaves nothing behind.
func TestDirectClaimLeavesNoProcess(t *testing.T) {
	for name, end := range map[string]func(*world, execution.Lease) error{
		"acknowledged": func(w *world, l execution.Lease) error { return w.Acknowledge(t.Context(), l, completed(`1`)) },
		"released":     func(w *world, l execution.Lease) error { return w.Release(t.Context(), l, "") },
		"lost": func(w *world, l execution.Lease) error {
			if err := w.Cancel(t.Context(), l.ID, ""); err != nil {
				return err
			}
			if err := w.Release(t.Context(), l, ""); !errors.Is(err, execution.ErrLost) {
				return fmt.Errorf("release: %w", err)
			}
			return nil
		},
		"moved": func(w *world, l execution.Lease) error {
			moved, err := w.Renew(t.Context(), l, 2*minute) // another duration, another process
			if err != nil {
				return err
			}
			return w.Acknowledge(t.Context(), moved, completed(`1`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, time.Millisecond)
			w.admit("x")
			if err := end(w, w.claim("x").Lease); err != nil {
				t.Fatal(err)
			}
			span := w.space.Procs()
			res, _, err := w.hook.Get(t.Context(), etcd.Get{Key: span.Start, End: span.End})
			if err != nil || len(res.KVs) != 0 {
				t.Fatalf("%d processes are left, %v", len(res.KVs), err)
			}
		})
	}
}

// A wake requested while the execution runs is not forgotten by a release, also
// where it was claimed before its time by a clock that is ahead. (I9)
func TestReleaseKeepsAnEarlierWake(t *testing.T) {
	for _, end := range []string{"release", "fence"} {
		t.Run(end, func(t *testing.T) {
			w := newWorld(t, time.Millisecond)
			now := time.Now()
			far, near := now.Add(10*time.Minute), now.Add(time.Minute).Truncate(time.Millisecond)
			if _, err := w.Admit(t.Context(), execution.AdmitRequest{ID: "x", Workflow: "w", Due: far}); err != nil {
				t.Fatal(err)
			}
			ds, err := w.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 1, Duration: minute, Now: far.Add(time.Second)})
			if err != nil || len(ds) != 1 {
				t.Fatalf("claim: %v, %v", ds, err)
			}
			err = w.RequestWake(t.Context(), "x", near)
			if end == "release" {
				err = errors.Join(err, w.Release(t.Context(), ds[0].Lease, ""))
			} else {
				err = errors.Join(err, w.Fence(t.Context(), "x", ""))
			}
			if rec := w.get("x"); err != nil || !rec.Due.Equal(near) {
				t.Fatalf("due %v, want %v; %v", rec.Due, near, err)
			}
		})
	}
}

// Work behind thousands of entries of workflows that a holder lacks is found, and
// nothing is counted against those.
func TestSharedQueueHidesNothing(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	for i := range 3000 {
		req := execution.AdmitRequest{ID: execution.ID(fmt.Sprint("foreign", i)), Workflow: "foreign", Queue: "w"}
		if _, err := w.Admit(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	w.admit("x")
	h := newHolder(t, w.Client, leasing.HolderConfig{})
	calls := 0
	eventually(t, func() bool {
		calls++
		ds, next, err := h.Claim(t.Context(), 4)
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 0 && next.After(time.Now()) || len(ds) == 0 && next.IsZero() {
			t.Fatalf("call %d found nothing, and the next one is for %v", calls, next)
		}
		return len(ds) == 1 && ds[0].ID == "x"
	})
	if rec := w.get("foreign7"); rec.Claims != 0 || rec.UnacknowledgedDeliveries != 0 {
		t.Fatalf("%+v", rec)
	}
}
