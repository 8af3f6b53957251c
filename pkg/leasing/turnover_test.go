package leasing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

func continued(params string) execution.Outcome {
	return execution.Outcome{Kind: execution.Continued, Params: json.RawMessage(params)}
}

// traces leaves, for the delivery's run, so many steps, of which every tenth waits at
// the store, and so many receipts.
func (w *world) traces(d execution.Delivery, steps, receipts int) {
	w.t.Helper()
	var ops []etcd.Op
	for i := range steps {
		key := fmt.Sprintf("step %04d", i)
		rec := record.Step{Done: true, Token: d.Token, Response: []byte(`1`)}
		if i%10 == 0 {
			rec.Done, rec.Waiter = false, &execution.StoreID{Name: shelf.Name, ID: shelf.ID}
			registration := record.Waiter{Instance: "a-1", Paths: []byte(`[]`)}
			call := keyspace.CallKey{ID: string(d.ID), Incarnation: d.Incarnation, Run: d.Run, Step: key}
			ops = append(ops, etcd.Put{Key: w.space.Waiter(shelf, call), Value: registration.Encode()})
		}
		st := keyspace.Step{ID: string(d.ID), Incarnation: d.Incarnation, Run: d.Run, Key: key}
		ops = append(ops, etcd.Put{Key: w.space.Step(st), Value: rec.Encode()})
	}
	for i := range receipts {
		call := keyspace.CallKey{ID: string(d.ID), Incarnation: d.Incarnation, Run: d.Run, Step: fmt.Sprintf("add %04d", i)}
		rec := record.Receipt{Kind: "update", Instance: "earlier", Version: int64(i) + d.Incarnation<<20, Result: []byte(`1`)}
		ops = append(ops, etcd.Put{Key: w.space.Receipt(call, shelf), Value: rec.Encode()})
	}
	w.write(etcd.Put{Key: w.space.Store(shelf), Value: (&record.Store{Instance: "a-1", State: []byte(`1`)}).Encode()})
	for len(ops) > 0 {
		n := min(len(ops), 100)
		w.write(ops[:n]...)
		ops = ops[n:]
	}
}

// kinds counts the keys that are left, but for the epoch's, a process's and a store's.
func (w *world) kinds() map[keyspace.Kind]int {
	w.t.Helper()
	n := map[keyspace.Kind]int{}
	for _, key := range w.left() {
		k, err := w.space.Parse(key)
		if err != nil {
			w.t.Fatal(err)
		}
		n[k.Kind]++
	}
	return n
}

func (w *world) wantKinds(when string, want map[keyspace.Kind]int) {
	w.t.Helper()
	got := w.kinds()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("%s: the keys are %v, want %v", when, got, want)
	}
}

// Once more and again: each run has its own params, and starts without steps.
func TestTurnover(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	var before execution.Token
	for run := range int64(4) {
		d := w.claim("x")
		want := fmt.Sprintf(`{"run": %d}`, run)
		if run == 0 {
			want = `{"a":1}`
		}
		if d.Run != run || d.Token <= before || string(d.Params) != want || d.UnacknowledgedDeliveries != 0 {
			t.Fatalf("run %d was delivered as %+v, with %s", run, d, d.Params)
		}
		before = d.Token
		w.traces(d, 11, 2)
		began := time.Now()
		if err := w.Acknowledge(t.Context(), d.Lease, continued(fmt.Sprintf(`{"run": %d}`, run+1))); err != nil {
			t.Fatal(err)
		}
		rec := w.get("x")
		if rec.Status != execution.StatusSuspended || rec.Run != run+1 || rec.Due.Before(began.Truncate(time.Millisecond)) || rec.Due.After(time.Now()) || !rec.NotBefore.IsZero() {
			t.Fatalf("after the turnover of run %d: %+v", run, rec)
		}
		if string(rec.Params) != fmt.Sprintf(`{"run": %d}`, run+1) || string(rec.FirstParams) != `{"a":1}` {
			t.Fatalf("params %s, at first %s", rec.Params, rec.FirstParams)
		}
		if last := rec.Deliveries[len(rec.Deliveries)-1]; last.How != execution.HowContinued || last.Token != d.Token {
			t.Fatalf("history: %+v", rec.Deliveries)
		}
		w.wantKinds("after the turnover", map[keyspace.Kind]int{keyspace.KindSpec: 1, keyspace.KindState: 1, keyspace.KindDue: 1, keyspace.KindParams: 1})
	}
	d := w.claim("x")
	if err := w.Acknowledge(t.Context(), d.Lease, completed(`"at last"`)); err != nil {
		t.Fatal(err)
	}
	rec := w.get("x")
	if rec.Run != 4 || rec.Status != execution.StatusCompleted || string(rec.Outcome.Result) != `"at last"` || string(rec.Params) != `{"run": 4}` {
		t.Fatalf("%+v", rec)
	}
	// The id is that of an execution with its first params.
	adm, err := w.Admit(t.Context(), execution.AdmitRequest{ID: "x", Workflow: "w", Params: json.RawMessage(`{"a":1}`)})
	if err != nil || !adm.Existing {
		t.Fatalf("%+v, %v", adm, err)
	}
	if err := w.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	w.wantNothingLeft("after the deletion")
}

func TestTurnoverOfManyStepsIsInBoundedPieces(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	d := w.claim("x")
	w.traces(d, 1000, 250)
	largest := 0
	w.hook.BeforeTxn = func(txn *etcd.Txn) error {
		largest = max(largest, operations(txn))
		return nil
	}
	if err := w.Acknowledge(t.Context(), d.Lease, continued(`2`)); err != nil {
		t.Fatal(err)
	}
	w.hook.BeforeTxn = nil
	w.wantKinds("after the turnover", map[keyspace.Kind]int{keyspace.KindSpec: 1, keyspace.KindState: 1, keyspace.KindDue: 1, keyspace.KindParams: 1})
	if largest > 128 {
		t.Errorf("the largest transaction has %d operations, want at most 128", largest)
	}
}

// From its turnover on nothing is accepted from whoever held the run before.
func TestStaleHolderOfAnEarlierRunIsRefused(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	d := w.claim("x")
	if err := w.Acknowledge(t.Context(), d.Lease, continued(`2`)); err != nil {
		t.Fatal(err)
	}
	var next execution.Delivery
	for _, claimed := range []bool{false, true} {
		if claimed {
			next = w.claim("x")
		}
		before := w.get("x")
		for name, err := range map[string]error{
			"turn over":   w.Acknowledge(t.Context(), d.Lease, continued(`3`)),
			"acknowledge": w.Acknowledge(t.Context(), d.Lease, completed(`1`)),
			"release":     w.Release(t.Context(), d.Lease, "late"),
			"renew":       second(w.Renew(t.Context(), d.Lease, minute)),
		} {
			lost, is := errors.AsType[*execution.LostError](err)
			if !is || !strings.Contains(lost.Reason, "continued") || lost.Current <= d.Token {
				t.Errorf("%s: %v, want lost", name, err)
			}
		}
		if after := w.get("x"); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%+v, want %+v", after, before)
		}
	}
	if err := w.Acknowledge(t.Context(), next.Lease, completed(`1`)); err != nil {
		t.Error(err)
	}
}

// A turnover that was committed, and whose answer is lost, is one turnover, and is
// never called lost.
func TestLostAnswerOfATurnover(t *testing.T) {
	tests := map[string]struct {
		meanwhile func(w *world) // between the two tries, by others
		run       int64
		steps     int // of that run
		want      error
	}{
		"nothing happens meanwhile": {func(*world) {}, 1, 0, nil},
		"somebody goes on with it":  {func(w *world) { w.traces(claimOn(w.t, w.peerOn(w.hook.Store), "x"), 11, 2) }, 1, 11, nil},
		"the run after it turns over too": {func(w *world) {
			c := w.peerOn(w.hook.Store)
			if err := c.Acknowledge(w.t.Context(), claimOn(w.t, c, "x").Lease, continued(`3`)); err != nil {
				w.t.Error(err)
			}
		}, 2, 0, nil},
		"so many others that nobody knows": {func(w *world) {
			c := w.peerOn(w.hook.Store)
			for range record.HistoryLimit + 1 {
				if err := c.Acknowledge(w.t.Context(), claimOn(w.t, c, "x").Lease, continued(`3`)); err != nil {
					w.t.Error(err)
				}
			}
		}, record.HistoryLimit + 2, 0, fencing.ErrUnknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, time.Millisecond)
			w.admit("x")
			d := w.claim("x")
			w.traces(d, 40, 3)
			var once sync.Once
			w.hook.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
				if writes(txn) {
					once.Do(func() {
						tt.meanwhile(w)
						res, err = nil, context.DeadlineExceeded
					})
				}
				return res, err
			}
			if err := w.Acknowledge(t.Context(), d.Lease, continued(`2`)); !errors.Is(err, tt.want) || errors.Is(err, execution.ErrLost) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if rec := w.get("x"); rec.Run != tt.run {
				t.Errorf("run %d, want %d", rec.Run, tt.run)
			}
			if n := w.kinds(); n[keyspace.KindStep] != tt.steps || n[keyspace.KindReceipt] != tt.steps/5 || n[keyspace.KindParams] != 1 {
				t.Errorf("%v is left, want %d steps of the run that goes on", n, tt.steps)
			}
		})
	}
}

// A wake that is requested while the run turns over leads to a delivery that begins
// after the request, and no wake of the old run delays the new one.
func TestWakeDuringATurnover(t *testing.T) {
	for name, at := range map[string]time.Duration{"at once": 0, "in an hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, time.Millisecond)
			w.admit("x")
			d := w.claim("x")
			var once sync.Once
			other := w.peerOn(w.hook.Store)
			w.hook.BeforeTxn = func(txn *etcd.Txn) (err error) {
				if writes(txn) {
					once.Do(func() { err = other.RequestWake(t.Context(), "x", time.Now().Add(at)) })
				}
				return err
			}
			if err := w.Acknowledge(t.Context(), d.Lease, continued(`2`)); err != nil {
				t.Fatal(err)
			}
			w.wantKinds("after the turnover", map[keyspace.Kind]int{keyspace.KindSpec: 1, keyspace.KindState: 1, keyspace.KindDue: 1, keyspace.KindParams: 1})
			if err := w.RequestWake(t.Context(), "x", time.Now().Add(at)); err != nil {
				t.Fatal(err)
			}
			ds, err := other.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 1, Duration: minute})
			if err != nil || len(ds) != 1 || ds[0].Run != 1 {
				t.Fatalf("claimed: %+v, %v", ds, err)
			}
		})
	}
}

// One batch holds executions of different runs, each with its own params.
func TestClaimsOfABatchHaveTheParamsOfTheirRuns(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	h, err := w.NewHolder(leasing.HolderConfig{Duration: minute, Queues: []string{"w"}, Workflows: []string{"w"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	const n = 40 // more than one batch
	claim := func() (ds []execution.Delivery) {
		eventually(t, func() bool {
			more, _, err := h.Claim(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			ds = append(ds, more...)
			return len(ds) == n
		})
		return ds
	}
	for i := range n {
		w.admit(execution.ID(fmt.Sprintf("x-%02d", i)))
	}
	for _, d := range claim() {
		o := execution.Outcome{Kind: execution.Suspended, Wake: time.Now()}
		if d.ID[len(d.ID)-1]%2 == 1 {
			o = continued(fmt.Sprintf("%q", d.ID))
		}
		if err := h.Acknowledge(t.Context(), d.Lease, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range claim() {
		want, run := `{"a":1}`, int64(0)
		if d.ID[len(d.ID)-1]%2 == 1 {
			want, run = fmt.Sprintf("%q", d.ID), 1
		}
		if string(d.Params) != want || d.Run != run {
			t.Errorf("%s: run %d with %s, want %d with %s", d.ID, d.Run, d.Params, run, want)
		}
	}
}

// A kill between any two pieces of the clean-up: the run goes on, and what is left
// is deleted by the next turnover, or with the execution.
func TestCleanUpGoesOnAfterAKillAtEachPiece(t *testing.T) {
	for _, by := range []string{"turnover", "deletion"} {
		for _, applied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/applied=%v", by, applied), func(t *testing.T) {
				kills := 0
				for number := 2; ; number++ {
					w := newWorld(t, time.Millisecond)
					w.admit("x")
					d := w.claim("x")
					w.traces(d, 70, 150)
					if killed := w.turnOver(d, number, applied); !killed {
						break
					}
					kills++
					next := w.claim("x")
					if next.Run != 1 || string(next.Params) != `2` {
						t.Fatalf("after kill %d: %+v", number, next)
					}
					w.traces(next, 11, 2)
					outcome := continued(`3`)
					if by == "deletion" {
						outcome = completed(`1`)
					}
					if err := w.Acknowledge(t.Context(), next.Lease, outcome); err != nil {
						t.Fatal(err)
					}
					if by == "turnover" {
						w.wantKinds(fmt.Sprintf("after kill %d", number), map[keyspace.Kind]int{
							keyspace.KindSpec: 1, keyspace.KindState: 1, keyspace.KindDue: 1, keyspace.KindParams: 1,
						})
						continue
					}
					if err := w.Delete(t.Context(), "x"); err != nil {
						t.Fatal(err)
					}
					w.wantNothingLeft(fmt.Sprintf("after kill %d", number))
				}
				if kills < 5 { // 3 of steps, 2 of receipts
					t.Errorf("%d kills", kills)
				}
			})
		}
	}
}

// turnOver acknowledges, by a process that dies at its transaction with the number,
// which is applied or not; killed: it came to that. The first one is the turnover.
func (w *world) turnOver(d execution.Delivery, number int, applied bool) (killed bool) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	n := 0
	kill := func(txn *etcd.Txn) bool {
		if writes(txn) {
			n++
		}
		if killed = n >= number; killed {
			cancel()
		}
		return killed
	}
	dying := &testetcd.Hook{Store: w.hook.Store}
	c := w.peerOn(dying)
	dying.BeforeTxn = func(txn *etcd.Txn) error {
		if !applied && kill(txn) {
			return context.Canceled
		}
		return nil
	}
	dying.AfterTxn = func(txn *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if applied && kill(txn) {
			return nil, context.Canceled
		}
		return res, err
	}
	if err := c.Acknowledge(ctx, d.Lease, continued(`2`)); err != nil {
		w.t.Fatalf("killed: %t, and the turnover gave %v", killed, err)
	}
	return killed
}

func TestBadTurnoversAreRefused(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	d := w.claim("x")
	before := w.left()
	large := `"` + strings.Repeat("x", execution.MaxPayloadBytes-1) + `"`
	for name, o := range map[string]execution.Outcome{
		"not JSON":                 continued(`{`),
		"too large":                continued(large),
		"with a result":            {Kind: execution.Continued, Result: json.RawMessage(`1`)},
		"with an error":            {Kind: execution.Continued, Error: &execution.Error{Message: "no"}},
		"with a wake":              {Kind: execution.Continued, Wake: time.Now()},
		"with a handover":          {Kind: execution.Continued, Handover: true},
		"completed, with params":   {Kind: execution.Completed, Params: json.RawMessage(`1`)},
		"failed, with params":      {Kind: execution.Failed, Error: &execution.Error{Message: "no"}, Params: json.RawMessage(`1`)},
		"suspended, with params":   {Kind: execution.Suspended, Params: json.RawMessage(`1`)},
		"of an unknown kind, with": {Kind: "continue", Params: json.RawMessage(`1`)},
	} {
		if _, is := errors.AsType[*execution.InvalidError](w.Acknowledge(t.Context(), d.Lease, o)); !is {
			t.Errorf("%s: it was not refused", name)
		}
	}
	if after := w.left(); !slices.Equal(after, before) {
		t.Errorf("%q, want %q", after, before)
	}
	if err := w.Acknowledge(t.Context(), d.Lease, continued(large[:execution.MaxPayloadBytes-1]+`"`)); err != nil {
		t.Errorf("params at the limit: %v", err)
	}
	if err := w.Acknowledge(t.Context(), w.claim("x").Lease, execution.Outcome{Kind: execution.Continued}); err != nil {
		t.Errorf("no params: %v", err)
	}
	if d := w.claim("x"); string(d.Params) != `null` || d.Run != 2 {
		t.Errorf("run %d with %s, want run 2 with null", d.Run, d.Params)
	}
}

// Between its runs an execution can be cancelled, and counted as any other.
func TestEndBetweenRuns(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	if err := w.Acknowledge(t.Context(), w.claim("x").Lease, continued(`2`)); err != nil {
		t.Fatal(err)
	}
	// A delivery of the new run that fails is followed by one of the same run.
	if err := w.Release(t.Context(), w.claim("x").Lease, "no"); err != nil {
		t.Fatal(err)
	}
	d := w.claim("x")
	if d.Run != 1 || string(d.Params) != `2` || d.UnacknowledgedDeliveries != 1 {
		t.Fatalf("%+v", d)
	}
	if err := w.Acknowledge(t.Context(), d.Lease, continued(`3`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Cancel(t.Context(), "x", "enough"); err != nil {
		t.Fatal(err)
	}
	rec := w.get("x")
	if !rec.Outcome.Cancelled() || rec.Run != 2 || string(rec.Params) != `3` {
		t.Fatalf("%+v", rec)
	}
	if err := w.Delete(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	w.wantNothingLeft("after the deletion")
}
