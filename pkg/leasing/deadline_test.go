package leasing_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// timed admits an execution with the timeout.
func (w *world) timed(id execution.ID, due time.Time, timeout time.Duration) execution.Record {
	w.t.Helper()
	if _, err := w.Admit(w.t.Context(), execution.AdmitRequest{ID: id, Workflow: "w", Due: due, Timeout: timeout}); err != nil {
		w.t.Fatal(err)
	}
	return w.get(id)
}

func TestDeadlineCountsFromTheFirstDueTime(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	tomorrow := time.Now().Add(24 * time.Hour)
	for name, c := range map[string]struct {
		due           time.Time
		timeout, want time.Duration
	}{
		"now":             {time.Time{}, time.Minute, time.Minute},
		"a past due time": {time.Now().Add(-time.Hour), time.Minute, time.Minute},
		"tomorrow":        {tomorrow, time.Hour, time.Hour},
		"less than 1 ms":  {time.Time{}, 1, time.Millisecond},
		"rounded up":      {time.Time{}, time.Second + 1, time.Second + time.Millisecond},
		"none":            {tomorrow, 0, 0},
	} {
		rec := w.timed(execution.ID(name), c.due, c.timeout)
		if c.want == 0 {
			if !rec.Deadline.IsZero() {
				t.Errorf("%s: %v", name, rec.Deadline)
			}
			continue
		}
		if got := rec.Deadline.Sub(rec.Due); got != c.want {
			t.Errorf("%s: %v after %v, want %v", name, got, rec.Due, c.want)
		}
	}
	again := w.timed("now", tomorrow, time.Hour)
	if !again.Deadline.Equal(w.get("now").Deadline) || again.Deadline.After(tomorrow) {
		t.Errorf("admitted again: %v", again.Deadline)
	}
}

// Whatever an execution waits for, it is due at its deadline, in every run.
func TestSuspendedIsDueAtTheDeadline(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	deadline := w.timed("x", time.Time{}, time.Hour).Deadline
	early := time.Now().Add(time.Minute)
	for name, c := range map[string]struct {
		outcome execution.Outcome
		wake    time.Time
		want    time.Time
	}{
		"no wake":                          {suspended, time.Time{}, deadline},
		"a later wake":                     {execution.Outcome{Kind: execution.Suspended, Wake: deadline.Add(time.Hour)}, time.Time{}, deadline},
		"an early wake":                    {execution.Outcome{Kind: execution.Suspended, Wake: early}, time.Time{}, early},
		"a late wake that was asked for":   {suspended, deadline.Add(time.Hour), deadline},
		"an early wake that was asked for": {suspended, early, early},
	} {
		d := w.claim("x")
		if !d.Deadline.Equal(deadline) {
			t.Errorf("%s: delivered with deadline %v", name, d.Deadline)
		}
		if !c.wake.IsZero() {
			if err := w.RequestWake(t.Context(), "x", c.wake); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Acknowledge(t.Context(), d.Lease, c.outcome); err != nil {
			t.Fatal(err)
		}
		if rec := w.get("x"); rec.Due.UnixMilli() != c.want.UnixMilli() || !rec.Deadline.Equal(deadline) {
			t.Errorf("%s: due at %v, want %v", name, rec.Due, c.want)
		}
		if err := w.RequestWake(t.Context(), "x", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Acknowledge(t.Context(), w.claim("x").Lease, continued(`1`)); err != nil {
		t.Fatal(err)
	}
	d := w.claim("x")
	if d.Run != 1 || !d.Deadline.Equal(deadline) {
		t.Errorf("the next run: %+v", d)
	}
	if err := w.Acknowledge(t.Context(), d.Lease, execution.TimeoutAt(deadline)); err != nil {
		t.Fatal(err)
	}
	if o := w.get("x").Outcome; !o.TimedOut() || o.Cancelled() {
		t.Errorf("outcome %+v", o)
	}
}

// One that waits past its deadline already is due at once.
func TestSuspendedAfterTheDeadline(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.timed("x", time.Time{}, time.Millisecond)
	d := w.claim("x")
	if err := w.Acknowledge(t.Context(), d.Lease, suspended); err != nil {
		t.Fatal(err)
	}
	w.claim("x")
}

// inbox writes events, and receipts of events, of the execution past the engine.
func (w *world) inbox(d execution.Delivery, events, applied int) {
	w.t.Helper()
	key := func(i int) keyspace.EventKey {
		return keyspace.EventKey{ID: string(d.ID), Incarnation: d.Incarnation, Name: "item", Event: string(rune('a'+i%26)) + string(execution.NewID())}
	}
	for i := range events {
		e := record.Event{Sent: 1, Digest: "d", Nonce: "n", Payload: json.RawMessage(`1`)}
		w.write(etcd.Put{Key: w.space.Event(key(i)), Value: e.Encode()})
	}
	for i := range applied {
		a := record.Applied{Digest: "d", Step: "s", Token: d.Token}
		step := record.Step{Done: true, Token: d.Token, Response: json.RawMessage(`1`)}
		a.Step = string(execution.NewID())
		w.write(
			etcd.Put{Key: w.space.Applied(key(i)), Value: a.Encode()},
			etcd.Put{Key: w.space.Step(keyspace.Step{ID: string(d.ID), Incarnation: d.Incarnation, Key: a.Step}), Value: step.Encode()},
		)
	}
}

// Events belong to an execution, and to none of its runs: turnovers leave them alone,
// and its deletion does not.
func TestEventsGoWithTheirExecution(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	d := w.claim("x")
	w.inbox(d, 130, 120)
	w.admit("x/y")
	other := w.claim("x/y")
	w.inbox(other, 2, 3)
	if rec := w.get("x"); rec.PendingEvents != 130 {
		t.Errorf("%d pending", rec.PendingEvents)
	}
	if err := w.Acknowledge(t.Context(), d.Lease, continued(`1`)); err != nil {
		t.Fatal(err)
	}
	d = w.claim("x")
	if n := w.kinds(); n[keyspace.KindEvent] != 132 || n[keyspace.KindApplied] != 123 {
		t.Errorf("after the turnover: %v", n)
	}
	if err := w.Acknowledge(t.Context(), d.Lease, completed(`1`)); err != nil {
		t.Fatal(err)
	}
	if rec := w.get("x"); rec.PendingEvents != 130 {
		t.Errorf("%d pending at the end", rec.PendingEvents)
	}
	if err := w.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if n := w.kinds(); n[keyspace.KindEvent] != 2 || n[keyspace.KindApplied] != 3 {
		t.Errorf("after the deletion: %v", n)
	}
}
