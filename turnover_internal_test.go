package holdfast

// White-box: see harness_internal_test.go, and stores_internal_test.go for the shop.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

func wantContinued(t *testing.T, v verdict, params string) {
	t.Helper()
	if v.outcome == nil || v.outcome.Kind != execution.Continued {
		t.Fatalf("got %s, want continued", show(v))
	}
	if string(v.outcome.Params) != params {
		t.Errorf("params: got %s, want %s", v.outcome.Params, params)
	}
}

type cursor struct {
	Page int
	Seen []string
}

// again makes a workflow with an In that continues as new with the input.
func again[In any](in any) *Workflow[In, string] {
	return Define("crawl", func(Context, In) (string, error) { return "ignored", ContinueAsNew(in) })
}

func TestContinueAsNewInputs(t *testing.T) {
	t.Parallel()
	deep := fmt.Errorf("page 2: %w", errors.Join(errors.New("over"), ContinueAsNew(2)))
	large := strings.Repeat("x", execution.MaxPayloadBytes-1)
	const cant = `workflow "crawl" can't continue as new: `
	cases := map[string]struct {
		def    definition
		params string
		failed string
	}{
		"a struct":          {again[cursor](cursor{2, []string{"a"}}), `{"Page":2,"Seen":["a"]}`, ""},
		"a pointer":         {again[*cursor](&cursor{Page: 2}), `{"Page":2,"Seen":null}`, ""},
		"a nil pointer":     {again[*cursor]((*cursor)(nil)), `null`, ""},
		"nil":               {again[*cursor](nil), `null`, ""},
		"nil for anything":  {again[any](nil), `null`, ""},
		"anything":          {again[any](map[string]int{"a": 1}), `{"a":1}`, ""},
		"an assignable one": {again[map[string]int](struct{ m map[string]int }{map[string]int{"a": 1}}.m), `{"a":1}`, ""},
		"wrapped": {
			Define("crawl", func(Context, int) (string, error) { return "", deep }), `2`, "",
		},
		"as large as can be": {again[string](large[:len(large)-1]), `"` + large[:len(large)-1] + `"`, ""},

		"too large":         {again[string](large), "", cant + "input is too large: 1048577 bytes, the limit is 1048576"},
		"another type":      {again[cursor](map[string]int{}), "", cant + "the given input is a map[string]int where the workflow's is a holdfast.cursor"},
		"a pointer to it":   {again[cursor](&cursor{}), "", cant + "the given input is a *holdfast.cursor where the workflow's is a holdfast.cursor"},
		"another number":    {again[int64](2), "", cant + "the given input is a int where the workflow's is a int64"},
		"nil for a struct":  {again[cursor](nil), "", cant + "the given input is a <nil> where the workflow's is a holdfast.cursor"},
		"not to be encoded": {again[float64](math.NaN()), "", cant + "input can't be encoded as JSON: json: unsupported value: NaN"},
		"not to be decoded": {again[fmt.Stringer](time.Second), "", cant + "input can't be decoded from its own JSON: json: cannot unmarshal number into Go value of type fmt.Stringer"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newBench(t).run(t.Context(), nil, tc.def)
			if tc.failed != "" {
				wantFailed(t, v, tc.failed)
				return
			}
			wantContinued(t, v, tc.params)
		})
	}
}

func TestContinueAsNewIsNoFailure(t *testing.T) {
	t.Parallel()
	err := ContinueAsNew(1)
	wantEqual(t, "failed", Failed(err), false)
	wantEqual(t, "failed, wrapped", Failed(fmt.Errorf("page 2: %w", err)), false)
	wantEqual(t, "suspended", errors.Is(err, ErrSuspended), false)
}

// It is an outcome like any other: what has ended the delivery before overrules it.
func TestContinueAsNewCountsAsAnyOutcome(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		fn   func(Context) error // its error is ignored
		want func(t *testing.T, v verdict)
	}{
		"a wait":   {func(ctx Context) error { return Sleep(ctx, "nap", time.Hour) }, func(t *testing.T, v verdict) { wantSuspended(t, v, time.Now().Add(time.Hour)) }},
		"a misuse": {func(ctx Context) error { return Sleep(ctx, "", time.Hour) }, func(t *testing.T, v verdict) { wantFailed(t, v, `step name "" is empty; want 1 to 512 bytes of UTF-8`) }},
		"a panic in a step": {func(ctx Context) error {
			return second(Step(ctx, "s", func(context.Context) (int, error) { panic("no") }))
		}, wantRetry},
		"a step that fails": {
			func(ctx Context) error {
				return second(Step(ctx, "s", func(context.Context) (int, error) { return 0, errors.New("no") }))
			}, func(t *testing.T, v verdict) { wantContinued(t, v, `2`) },
		},
		"nothing": {func(Context) error { return nil }, func(t *testing.T, v verdict) { wantContinued(t, v, `2`) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				tc.want(t, newBench(t).deliver(func(ctx Context) (string, error) {
					_ = tc.fn(ctx)
					return "", ContinueAsNew(2)
				}))
			})
		})
	}
	lost, lose := context.WithCancelCause(t.Context())
	lose(&execution.LostError{ID: "order-42"})
	wantLost(t, newBench(t).deliverWith(lost, nil, func(Context) (string, error) { return "", ContinueAsNew(2) }))
	drain := make(chan struct{})
	close(drain)
	wantContinued(t, newBench(t).deliverWith(t.Context(), drain, func(Context) (string, error) { return "", ContinueAsNew(2) }), `2`)
}

func second[T any](_ T, err error) error { return err }

// The run ends when the steps that are in flight have been recorded.
func TestContinueAsNewWaitsForStepsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		v := b.deliver(func(ctx Context) (string, error) {
			var g errgroup.Group
			began := make(chan struct{})
			g.Go(func() error {
				return second(Step(ctx, "slow", func(context.Context) (string, error) {
					close(began)
					advance(time.Hour)
					return "done", nil
				}))
			})
			<-began
			return "", ContinueAsNew(2)
		})
		wantContinued(t, v, `2`)
		if rec, there := b.steps.get("slow", 0); !there || !rec.Done {
			t.Errorf("the step in flight: %+v", rec)
		}
	})
}

// Only the workflow's function can end its run.
func TestContinueAsNewFromAStepFailsTheStep(t *testing.T) {
	t.Parallel()
	v := newBench(t).deliver(func(ctx Context) (string, error) {
		return Step(ctx, "s", func(context.Context) (string, error) { return "", ContinueAsNew(2) })
	})
	wantFailed(t, v, `step "s" failed: continue as new: the workflow's function returns this, and nothing else can`)
}

// kinds counts the keys of what belongs to executions.
func (s *shop) kinds(t *testing.T) map[keyspace.Kind]int {
	t.Helper()
	all := s.space.All()
	res, _, err := s.conn.Get(t.Context(), etcd.Get{Key: all.Start, End: all.End, KeysOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	n := map[keyspace.Kind]int{}
	for _, kv := range res.KVs {
		if k, err := s.space.Parse(kv.Key); err != nil {
			t.Error(err)
		} else {
			n[k.Kind]++
		}
	}
	delete(n, keyspace.KindEpoch)
	delete(n, keyspace.KindProc)
	delete(n, keyspace.KindStore)
	return n
}

// audit demands that what is stored violates no invariant.
func (s *shop) audit(t *testing.T) {
	t.Helper()
	report, err := audit.Check(t.Context(), s.conn, s.space)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range report.Violations {
		t.Errorf("audit: %v", v)
	}
}

// Fifty runs that use the same names: each is applied once, and none leaves anything.
func TestLoopOfRuns(t *testing.T) {
	t.Parallel()
	const runs = 50
	synctest.Test(t, func(t *testing.T) {
		var steps atomic.Int64
		loop := Define("loop", func(ctx Context, in cursor) (string, error) {
			if _, err := store.GetOrCreate(ctx, "tally", tallies.At("all"), tally{}); err != nil {
				return "", err
			}
			page, err := Step(ctx, "load", func(context.Context) (string, error) { return fmt.Sprintf("page %d", steps.Add(1)), nil })
			if err != nil {
				return "", err
			}
			if want := fmt.Sprintf("page %d", in.Page+1); page != want {
				return "", fmt.Errorf("%q, want %q", page, want)
			}
			r, err := store.Update(ctx, "vote", tallies.At("all"), vote)
			if err != nil {
				return "", err
			}
			if err := Sleep(ctx, "nap", time.Minute); err != nil {
				return "", err
			}
			if in.Page+1 < runs {
				return "", ContinueAsNew(cursor{Page: in.Page + 1})
			}
			return fmt.Sprintf("%d votes", r.State.Votes), nil
		})
		s := newShop(t, loop)
		h, err := loop.Start(t.Context(), s.client, cursor{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		result, err := h.Result(t.Context())
		if err != nil || result != "50 votes" {
			t.Fatalf("%q, %v", result, err)
		}
		synctest.Wait()
		wantEqual(t, "steps that ran", steps.Load(), runs)
		wantEqual(t, "time", time.Since(began), runs*time.Minute)
		rec, err := s.client.Get(t.Context(), h.ID())
		if err != nil || rec.Run != runs-1 || string(rec.Params) != `{"Page":49,"Seen":null}` || string(rec.FirstParams) != `{"Page":0,"Seen":null}` {
			t.Errorf("%+v, %v", rec, err)
		}
		last := rec.Deliveries[len(rec.Deliveries)-3:]
		wantEqual(t, "the turnover in the history", last[0].How, execution.HowContinued)
		wantEqual(t, "the last run's first delivery", last[1].How, execution.HowSuspended)
		wantEqual(t, "the last run's last delivery", last[2].How, execution.HowCompleted)
		// load, nap and the two calls of the store; the receipt of the one that wrote.
		want := map[keyspace.Kind]int{keyspace.KindSpec: 1, keyspace.KindState: 1, keyspace.KindDone: 1, keyspace.KindParams: 1, keyspace.KindStep: 4, keyspace.KindReceipt: 1}
		wantEqual(t, "keys", fmt.Sprint(s.kinds(t)), fmt.Sprint(want))
		s.audit(t)
	})
}

// What the ended run has waited for does not hold the next one up, and its registration
// is gone.
func TestTurnoverGivesUpAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var impatient atomic.Bool
		var deliveries atomic.Int64
		patient := Define("patient", func(ctx Context, run int) (string, error) {
			deliveries.Add(1)
			if run > 0 {
				return "done", Sleep(ctx, "wait", time.Minute)
			}
			if impatient.Load() {
				return "", ContinueAsNew(1)
			}
			return store.When(ctx, "wait", tallies.At("all"), func(s tally) (string, bool) { return "enough", s.Votes > 0 })
		})
		s := newShop(t, patient)
		handle := tallies.At("all").On(s.client.Stores())
		if _, err := handle.GetOrCreate(t.Context(), tally{}); err != nil {
			t.Fatal(err)
		}
		h, err := patient.Start(t.Context(), s.client, 0)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantEqual(t, "registrations", s.kinds(t)[keyspace.KindWaiter], 1)
		impatient.Store(true)
		if err := s.client.Executions().RequestWake(t.Context(), execution.ID(h.ID()), time.Now()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantEqual(t, "registrations after the turnover", s.kinds(t)[keyspace.KindWaiter], 0)
		wantEqual(t, "deliveries", deliveries.Load(), 3)
		s.audit(t)
		if _, err := handle.Update(t.Context(), vote); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantEqual(t, "deliveries after the vote", deliveries.Load(), 3)
		if result, err := h.Result(t.Context()); err != nil || result != "done" {
			t.Errorf("%q, %v", result, err)
		}
		s.audit(t)
	})
}

// A loop that never ends by itself ends when it is cancelled, in whichever run that is.
func TestCancelOfALoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int64
		loop := Define("loop", func(ctx Context, run int) (string, error) {
			if err := Sleep(ctx, "nap", time.Minute); err != nil {
				return "", err
			}
			runs.Add(1)
			return "", ContinueAsNew(run + 1)
		})
		s := newShop(t, loop)
		h, err := loop.Start(t.Context(), s.client, 0)
		if err != nil {
			t.Fatal(err)
		}
		advance(10*time.Minute + time.Second)
		if err := s.client.Cancel(t.Context(), h.ID(), "enough"); err != nil {
			t.Fatal(err)
		}
		_, err = h.Result(t.Context())
		if failed, is := errors.AsType[*FailedError](err); !is || !failed.Cancelled() {
			t.Errorf("%v, want cancelled", err)
		}
		advance(time.Hour)
		wantEqual(t, "runs that ended", runs.Load(), 10)
		if rec, err := s.client.Get(t.Context(), h.ID()); err != nil || rec.Run != 10 || string(rec.Params) != `10` {
			t.Errorf("%+v, %v", rec, err)
		}
		if err := s.client.Delete(t.Context(), h.ID()); err != nil {
			t.Error(err)
		}
		wantEqual(t, "keys", len(s.kinds(t)), 0)
	})
}
