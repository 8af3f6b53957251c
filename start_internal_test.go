package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/start"
)

// fakeStarts answers as a test says.
type fakeStarts struct {
	requests []start.Request
	answer   start.Answer
	refusal  error

	waits  []start.Waiting
	looks  int
	ending start.Ending
	gone   error
}

func (f *fakeStarts) Start(_ context.Context, req start.Request) (start.Answer, error) {
	f.requests = append(f.requests, req)
	return f.answer, f.refusal
}

func (f *fakeStarts) Started(context.Context, execution.StepID) (start.Answer, bool, error) {
	return f.answer, f.answer != start.Answer{}, nil
}

func (f *fakeStarts) Ended(context.Context, start.Answer) (*execution.Outcome, int64, error) {
	f.looks++
	return f.ending.Outcome, 80, f.gone
}

func (f *fakeStarts) Await(_ context.Context, w start.Waiting) (start.Ending, error) {
	f.waits = append(f.waits, w)
	return f.ending, f.gone
}

// parcel is the workflow that the tests start.
var parcel = Define("parcel", func(Context, any) (string, error) { return "", errors.New("it is only started here") }, OnQueue("post"))

func startBench(t *testing.T) (*bench, *fakeStarts) {
	b, f := newBench(t), &fakeStarts{answer: start.Answer{ID: "child", Incarnation: 70}}
	b.engine.starts = f
	return b, f
}

func startsParcel(in any, opts ...StartOption) body {
	return func(ctx Context) (string, error) {
		s, err := Start(ctx, "s", parcel, in, opts...)
		return s.ID(), err
	}
}

func childOf(in any) body {
	return func(ctx Context) (string, error) { return Child(ctx, "s", parcel, in) }
}

func awaitsParcel(ctx Context) (string, error) {
	return Started[string]{id: "child", incarnation: 70}.Await(ctx, "s")
}

func (m *memSteps) response(key string, attempt int64) string {
	rec, _ := m.get(key, attempt)
	return string(rec.Response)
}

func TestStartIsRecorded(t *testing.T) {
	t.Parallel()
	b, f := startBench(t)
	for range 2 {
		wantCompleted(t, b.deliver(startsParcel(map[string]int{"n": 1}, WithID("child"))), `"child"`)
	}
	want := []start.Request{{
		Caller: execution.StepID{Execution: "order-42", Incarnation: 7, Step: "s"}, ID: "child", Workflow: "parcel", Queue: "post",
		Params: json.RawMessage(`{"n":1}`), ParamsPresent: true,
	}}
	if !reflect.DeepEqual(f.requests, want) {
		t.Errorf("requests: got %+v, want %+v", f.requests, want)
	}
	wantEqual(t, "record", b.steps.response("s", 0), `{"v":1,"kind":"result","result":{"executionId":"child","incarnation":70}}`)
}

func TestStartIsRefused(t *testing.T) {
	t.Parallel()
	rejected := &start.RejectedError{Workflow: "parcel", Why: start.CodeIDTaken, Reason: "no"}
	cases := []struct {
		name    string
		in      any
		refusal error
		code    string
		message string
	}{
		{"by the client", 1, rejected, "START_ID_TAKEN", `start workflow "parcel": START_ID_TAKEN: no`},
		{"wrapped", 1, fmt.Errorf("far away: %w", rejected), "START_ID_TAKEN", `far away: start workflow "parcel": START_ID_TAKEN: no`},
		{"a name", 1, &execution.InvalidError{What: "queue", Value: "q", Reason: "is bad"}, "", `queue "q" is bad`},
		{"not a number", math.NaN(), nil, "INVALID_START_PARAMETERS", `start workflow "parcel": INVALID_START_PARAMETERS: the input can't be encoded as JSON: json: unsupported value: NaN`},
		{"a function", func() {}, nil, "INVALID_START_PARAMETERS", `start workflow "parcel": INVALID_START_PARAMETERS: the input can't be encoded as JSON: json: unsupported type: func()`},
	}
	for _, c := range cases {
		for kind, fn := range map[string]body{"start": startsParcel(c.in), "child": childOf(c.in)} {
			t.Run(c.name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				b, f := startBench(t)
				f.refusal = c.refusal
				for range 2 {
					v := b.deliver(fn)
					wantFailed(t, v, `step "s" failed: `+c.message)
					wantEqual(t, "code", v.outcome.Error.Code, c.code)
				}
				wantEqual(t, "writes", len(b.steps.writes), 1)
			})
		}
	}
}

func TestStartThatIsTriedAgain(t *testing.T) {
	t.Parallel()
	for kind, fn := range map[string]body{"start": startsParcel(1), "child": childOf(1)} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b, f := startBench(t)
			f.refusal = errors.New("etcd is away")
			if err := retried(t, b.deliver(fn)); !strings.HasSuffix(err.Error(), `"s": etcd is away`) {
				t.Errorf("got %v", err)
			}
			f.refusal = &execution.LostError{ID: "order-42", Operation: "start"}
			wantLost(t, b.deliver(fn))
			wantEqual(t, "writes", len(b.steps.writes), 0)
		})
	}
}

func TestStartMisused(t *testing.T) {
	t.Parallel()
	var none *Workflow[any, string]
	cases := []struct {
		name, want string
		fn         body
	}{
		{"no workflow", `start "s": workflow is nil; make it with Define`, func(ctx Context) (string, error) {
			s, err := Start(ctx, "s", none, nil)
			return s.ID(), err
		}},
		{"no workflow of a child", `child "s": workflow is nil; make it with Define`, func(ctx Context) (string, error) { return Child(ctx, "s", none, nil) }},
		{"a nil option", `start "s": an option is nil`, startsParcel(1, nil)},
		{"a bad id", `start "s": execution id "" is empty; want 1 to 512 bytes of UTF-8`, startsParcel(1, WithID(""))},
		{"nothing started", `execution wait "s": nothing was started; call the Await of what Start returned`, func(ctx Context) (string, error) {
			return Started[string]{}.Await(ctx, "s")
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, f := startBench(t)
			wantFailed(t, b.deliver(c.fn), c.want)
			wantEqual(t, "requests", len(f.requests)+len(f.waits), 0)
		})
	}
}

func TestEndIsAwaited(t *testing.T) {
	t.Parallel()
	for kind, fn := range map[string]body{"child": childOf(1), "await": awaitsParcel} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b, f := startBench(t)
			f.ending = start.Ending{Armed: true}
			for range 2 {
				wantSuspended(t, b.deliver(fn), time.Time{})
			}
			f.ending = start.Ending{Outcome: &execution.Outcome{Kind: execution.Completed, Result: json.RawMessage(`"sent"`)}}
			for range 2 {
				wantCompleted(t, b.deliver(fn), `"sent"`)
			}
			// It registers when the wait is recorded, as of what it has seen before.
			step := execution.StepID{Execution: "order-42", Incarnation: 7, Step: "s"}
			later := start.Waiting{Target: f.answer, Step: step, Workflow: "shop", Attempt: 1}
			first := later
			first.Seen = 80
			if want := []start.Waiting{first, later, later}; !reflect.DeepEqual(f.waits, want) {
				t.Errorf("waits: got %+v, want %+v", f.waits, want)
			}
			wantEqual(t, "looks", f.looks, 1)
			wantEqual(t, "waits at", *b.steps.writes[0].Waiter, execution.StoreID{Name: "holdfast:execution", ID: "child"})
			wantEqual(t, "waited at", *b.steps.writes[1].Waiter, execution.StoreID{Name: "holdfast:execution", ID: "child"})
			wantEqual(t, "record", b.steps.response("s", 1), `{"v":1,"kind":"result","result":{"executionId":"child","kind":"completed","result":"sent"}}`)
			if kind == "child" { // what the wait proves is not asked for again
				wantEqual(t, "starts", len(f.requests), 1)
			}
		})
	}
}

func TestEndIsAFailure(t *testing.T) {
	t.Parallel()
	for kind, fn := range map[string]body{"child": childOf(1), "await": awaitsParcel} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b, f := startBench(t)
			f.ending = start.Ending{Outcome: &execution.Outcome{
				Kind: execution.Failed, Error: &execution.Error{Message: "cancelled: enough", Code: "cancelled"},
			}}
			var seen []FailedError
			for range 2 {
				v := b.deliver(func(ctx Context) (string, error) {
					_, err := fn(ctx)
					var failed *FailedError
					if !errors.As(err, &failed) || !failed.Cancelled() || !Failed(err) {
						t.Errorf("got %v, want a *FailedError that is cancelled", err)
					} else {
						seen = append(seen, *failed)
					}
					return "", err
				})
				wantFailed(t, v, `execution "child" failed: cancelled: enough`)
				wantEqual(t, "code", v.outcome.Error.Code, "cancelled")
			}
			wantEqual(t, "replay", seen[1], seen[0])
		})
	}
}

func TestEndThatIsDeleted(t *testing.T) {
	t.Parallel()
	b, f := startBench(t)
	f.ending = start.Ending{Armed: true}
	wantSuspended(t, b.deliver(awaitsParcel), time.Time{})
	f.ending, f.gone = start.Ending{}, &start.DeletedError{ID: "child"}
	for range 2 {
		v := b.deliver(awaitsParcel)
		wantFailed(t, v, `step "s" failed: wait for execution "child": it was deleted, and with it what it came to`)
		wantEqual(t, "code", v.outcome.Error.Code, "START_TARGET_DELETED")
	}
	wantEqual(t, "waited at", b.steps.writes[1].Waiter.ID, "child")
}

// A name that has another meaning in the code than in the records is never guessed at.
func TestStartMeetsAnotherRecord(t *testing.T) {
	t.Parallel()
	elsewhere := waitRecord("s")
	elsewhere.Waiter = &execution.StoreID{Name: "counter", ID: "child"}
	timed := execution.Step{Key: "s", Response: waitResponse(time.Now().Add(time.Hour)).encode(), Waiter: &execution.StoreID{Name: "holdfast:execution", ID: "child"}}
	cases := []struct {
		name     string
		fn       body
		recorded execution.Step
	}{
		{"a result for a start", startsParcel(1), resultRecord("s", `"x"`)},
		{"nothing for a start", startsParcel(1), resultRecord("s", `null`)},
		{"a wait for a start", startsParcel(1), waitRecord("s")},
		{"a start for a child", childOf(1), resultRecord("s", `{"executionId":"child","incarnation":70}`)},
		{"a store wait for a child", childOf(1), elsewhere},
		{"a start for a wait", awaitsParcel, resultRecord("s", `{"executionId":"child","incarnation":70}`)},
		{"a store wait for a wait", awaitsParcel, elsewhere},
		{"a timed wait for a wait", awaitsParcel, timed},
		{"another result for a wait", awaitsParcel, resultRecord("s", `{"executionId":"child","kind":"completed","result":7}`)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, f := startBench(t)
			b.token++ // not the first delivery
			b.steps.recs[memKey{"s", c.recorded.Attempt}] = c.recorded
			wantRetry(t, b.deliver(c.fn))
			wantEqual(t, "starts", len(f.requests), 0)
			wantEqual(t, "writes", len(b.steps.writes), 0)
		})
	}
}

// An end that has been is the answer at once: there is no wait to record.
func TestEndThatHasBeen(t *testing.T) {
	t.Parallel()
	for kind, fn := range map[string]body{"child": childOf(1), "await": awaitsParcel} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b, f := startBench(t)
			f.ending = start.Ending{Outcome: &execution.Outcome{Kind: execution.Completed, Result: json.RawMessage(`"sent"`)}}
			wantCompleted(t, b.deliver(fn), `"sent"`)
			wantEqual(t, "waits", len(f.waits), 0)
			wantEqual(t, "writes", len(b.steps.writes), 1)
		})
	}
}

// So is one that comes while the wait is recorded, and a step that was answered by
// another holder meanwhile comes to that answer.
func TestEndBesideTheRecordOfTheWait(t *testing.T) {
	t.Parallel()
	b, f := startBench(t)
	b.steps.before = func(_ context.Context, w execution.StepWrite) error {
		if !w.Done {
			f.ending = start.Ending{Outcome: &execution.Outcome{Kind: execution.Completed, Result: json.RawMessage(`"sent"`)}}
		}
		return nil
	}
	wantCompleted(t, b.deliver(childOf(1)), `"sent"`)
	wantEqual(t, "waits", len(f.waits), 1)

	b, f = startBench(t)
	b.steps.before = func(_ context.Context, w execution.StepWrite) error {
		if !w.Done {
			f.ending = start.Ending{Resolved: true}
			theirs := resultRecord("s", `{"executionId":"child","kind":"completed","result":"theirs"}`)
			theirs.Attempt = 1
			b.steps.recs[memKey{"s", 1}] = theirs
		}
		return nil
	}
	wantCompleted(t, b.deliver(childOf(1)), `"theirs"`)
}
