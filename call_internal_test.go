package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// ask makes a durable call, as other packages do.
func ask(ctx Context, call replay.Call) (string, error) {
	if call.Kind == "" {
		call.Kind = "store update"
	}
	result, err := ctx.Delivery().Do(replay.Site(), call)
	return string(result), err
}

// runFunc is what a call does.
type runFunc = func(context.Context, replay.Earlier) (replay.Answer, error)

// gives is a call's function that comes to the answer.
func gives(a replay.Answer, err error) runFunc {
	return func(context.Context, replay.Earlier) (replay.Answer, error) { return a, err }
}

func resultOf(doc string) replay.Answer { return replay.Answer{Result: json.RawMessage(doc)} }

// refuseCall is a call's function that must not be run.
func refuseCall(t *testing.T) runFunc {
	return func(context.Context, replay.Earlier) (replay.Answer, error) {
		t.Error("a call ran that must not run")
		return replay.Answer{}, errors.New("must not run")
	}
}

// asks is a workflow that makes the one call "s".
func asks(run runFunc) body {
	return func(ctx Context) (string, error) { return ask(ctx, replay.Call{Name: "s", Run: run}) }
}

func TestCallReplaysItsRecord(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		answer replay.Answer
		want   string
	}{
		{"an object", resultOf(`{"b": 12345678901234567890, "a":"<ü>"}`), `{"b":12345678901234567890,"a":"\u003cü\u003e"}`},
		{"null", resultOf(`null`), `null`},
		{"none", replay.Answer{}, `null`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			var asked []replay.Earlier
			fn := asks(func(_ context.Context, earlier replay.Earlier) (replay.Answer, error) {
				asked = append(asked, earlier)
				return c.answer, nil
			})
			first := b.deliver(fn)
			wantEqual(t, "replay", show(b.deliver(fn)), show(first))
			var result string
			if err := json.Unmarshal(first.outcome.Result, &result); err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "result", result, c.want)
			if !reflect.DeepEqual(asked, []replay.Earlier{{}}) {
				t.Errorf("asked: got %+v", asked)
			}
			wantList(t, "events", b.stepEvents(), []string{"s ran", "s replayed"})
		})
	}
}

func TestCallKnowsItsDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wantCompleted(t, b.deliver(func(ctx Context) (string, error) {
		d := ctx.Delivery()
		return fmt.Sprint(d.Workflow(), " ", d.Lease().ID, " ", d.Lease().Token), nil
	}), `"shop order-42 101"`)
}

// Whoever wraps a Context embeds it.
func TestWrappedContext(t *testing.T) {
	t.Parallel()
	type wrapped struct{ Context }
	b := newBench(t)
	wantCompleted(t, b.deliver(func(ctx Context) (string, error) { return Step(wrapped{ctx}, "s", value("x")) }), `"x"`)
	err := retried(t, b.deliver(func(ctx Context) (string, error) { return Step(foreign{ctx}, "s", refuse(t)) }))
	if !strings.HasSuffix(err.Error(), ": holdfast: this Context was not made by the engine") {
		t.Errorf("got %v", err)
	}
}

type foreign struct{ Context }

func (foreign) Delivery() replay.Delivery { return nil } //nolint:ireturn // it is the method of a Context

func TestCallErrorIsTheSameOnReplay(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		answer replay.Answer
		err    error
		want   StepError
	}{
		{"plain", replay.Answer{}, replay.Refuse(errors.New("no such store")), StepError{Message: "no such store"}},
		{
			"with a code",
			replay.Answer{},
			fmt.Errorf("take: %w", replay.Refuse(codedError{"no such store", "STORE_NOT_FOUND"})),
			StepError{Message: "take: no such store", Code: "STORE_NOT_FOUND"},
		},
		{"of a lost lease, somebody's", replay.Answer{}, replay.Refuse(fmt.Errorf("bank: %w", execution.ErrLost)), StepError{Message: "bank: " + execution.ErrLost.Error()}},
		{
			"a result over the limit", resultOf(`"` + strings.Repeat("x", execution.MaxPayloadBytes) + `"`), nil,
			StepError{Message: "result is too large: 1048611 bytes as recorded, the limit is 1048576"},
		},
		{
			"a wait over the years",
			replay.Answer{Wait: &replay.Wait{Until: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
			nil,
			StepError{Message: "can't wait until 10000-01-01: a year past 9999 can't be recorded"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ran := 0
			want := c.want
			want.Step, want.Attempts, want.Permanent = "s", 1, true
			fn := func(ctx Context) (string, error) {
				got, err := ask(ctx, replay.Call{Name: "s", Run: func(context.Context, replay.Earlier) (replay.Answer, error) {
					ran++
					return c.answer, c.err
				}})
				failed, is := errors.AsType[*StepError](err)
				if !is || got != "" || !Failed(err) {
					t.Fatalf("got %q, %v", got, err)
				}
				wantEqual(t, "error", *failed, want)
				return "caught", nil
			}
			wantCompleted(t, b.deliver(fn), `"caught"`)
			wantCompleted(t, b.deliver(fn), `"caught"`)
			wantEqual(t, "runs", ran, 1)
			wantList(t, "events", b.stepEvents(), []string{"s failed", "s replayed"})
		})
	}
}

func TestCallThatCannotBeAnsweredNow(t *testing.T) {
	t.Parallel()
	away := errors.New("etcd is away")
	cases := []struct {
		name  string
		err   error
		check func(*testing.T, verdict)
	}{
		{"any error", away, func(t *testing.T, v verdict) {
			err := retried(t, v)
			wantEqual(t, "error", err.Error(), `store update "s": etcd is away`)
			wantEqual(t, "errors.Is", errors.Is(err, away), true)
		}},
		{"lost", fmt.Errorf("store: %w", &execution.LostError{}), wantLost},
		{"a suspension out of nothing", ErrSuspended, func(t *testing.T, v verdict) {
			wantEqual(t, "errors.Is", errors.Is(retried(t, v), ErrSuspended), true)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c.check(t, b.deliver(func(ctx Context) (string, error) {
				out, err := ask(ctx, replay.Call{Name: "s", Run: gives(resultOf(`1`), c.err)})
				if !errors.Is(err, ErrSuspended) || out != "" {
					t.Errorf("got %q, %v, want ErrSuspended", out, err)
				}
				if _, err := ask(ctx, replay.Call{Name: "next", Run: refuseCall(t)}); !errors.Is(err, ErrSuspended) {
					t.Errorf("next call: got %v, want ErrSuspended", err)
				}
				return out, err
			}))
			wantEqual(t, "writes", len(b.steps.writes), 0)
		})
	}
}

func TestCallWriteErrors(t *testing.T) {
	t.Parallel()
	away := errors.New("etcd is away")
	answers := map[string]runFunc{
		"a result": gives(resultOf(`1`), nil),
		"an error": gives(replay.Answer{}, replay.Refuse(errors.New("no such store"))),
		"a wait":   gives(replay.Answer{Wait: &replay.Wait{}}, nil),
	}
	cases := []struct {
		name  string
		err   error
		check func(*testing.T, verdict)
	}{
		{"lost", &execution.LostError{}, wantLost},
		{"away", away, func(t *testing.T, v verdict) { wantEqual(t, "error", retried(t, v), away) }},
	}
	for _, c := range cases {
		for what, run := range answers {
			t.Run(c.name+", of "+what, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.steps.before = func(context.Context, execution.StepWrite) error { return c.err }
				c.check(t, b.deliver(asks(run)))
				wantEqual(t, "writes", len(b.steps.writes), 1)
			})
		}
	}
}

func TestPanicInACallIsAFailedDelivery(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		call   replay.Call
		writes int
	}{
		{"in its function", replay.Call{Run: func(context.Context, replay.Earlier) (replay.Answer, error) { panic("boom") }}, 0},
		{"by Goexit in its function", replay.Call{Run: func(context.Context, replay.Earlier) (replay.Answer, error) {
			runtime.Goexit()
			return replay.Answer{}, nil
		}}, 0},
		{"in the message of its error", replay.Call{Run: gives(replay.Answer{}, replay.Refuse((*nilError)(nil)))}, 0},
		{"in the decoder of its result", replay.Call{
			Run:    gives(resultOf(`1`), nil),
			Accept: func(json.RawMessage) error { panic("boom") },
		}, 1},
		{"by a result that is not JSON", replay.Call{Run: gives(resultOf(`{`), nil)}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			err := retried(t, b.deliver(func(ctx Context) (string, error) {
				c.call.Name = "s"
				done := make(chan error, 1)
				go func() {
					err := ErrSuspended // what Goexit leaves
					defer func() { done <- err }()
					_, err = ask(ctx, c.call)
				}()
				return "went on", <-done
			}))
			p, is := errors.AsType[*PanicError](err)
			if !is {
				t.Fatalf("got %T %v, want a *PanicError", err, err)
			}
			wantEqual(t, "where", p.Where, `store update "s"`)
			wantEqual(t, "writes", len(b.steps.writes), c.writes)
		})
	}
}

func TestCallThatIsMisused(t *testing.T) {
	t.Parallel()
	call := func(c replay.Call) func(Context) error {
		c.Run = refuseCall(t)
		return func(ctx Context) error { _, err := ask(ctx, c); return err }
	}
	cases := []struct {
		name string
		call func(Context) error
		want string
	}{
		{"a fault of its own", call(replay.Call{Name: "s", Misuse: errors.New("no selector is given")}), `store update "s": no selector is given`},
		{"an empty name", call(replay.Call{}), `step name "" is empty; want 1 to 512 bytes of UTF-8`},
		{"a step's name", call(replay.Call{Name: "step"}), `step "step": step name is used twice in one run`},
		{"a sleep's name", call(replay.Call{Name: "sleep"}), `step "sleep": step name is used twice in one run`},
		{"a call's name", call(replay.Call{Name: "call"}), `step "call": step name is used twice in one run`},
		{"a step with a call's name", func(ctx Context) error { _, err := Step(ctx, "call", refuse(t)); return err }, `step "call": step name is used twice in one run`},
		{"a sleep with a call's name", func(ctx Context) error { return Sleep(ctx, "call", 0) }, `step "call": step name is used twice in one run`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			wantFailed(t, b.deliver(func(ctx Context) (string, error) {
				_, first := Step(ctx, "step", value("x"))
				_, second := ask(ctx, replay.Call{Name: "call", Run: gives(resultOf(`1`), nil)})
				if err := errors.Join(first, Sleep(ctx, "sleep", 0), second); err != nil {
					return "", err
				}
				err := c.call(ctx)
				wantEqual(t, "error", errorText(err), c.want)
				wantEqual(t, "Failed", Failed(err), true)
				return "went on", nil
			}), c.want)
			wantEqual(t, "writes", len(b.steps.writes), 3)
		})
	}
}

func TestCallWhoseRecordDoesNotFitIsRetried(t *testing.T) {
	t.Parallel()
	const meaning = ": a name must keep its meaning while executions that recorded it are alive"
	tooOld := func(json.RawMessage) error { return errors.New("too old") }
	cases := []struct {
		name, response string
		done           bool
		accept         func(json.RawMessage) error
		want           string
	}{
		{"another type", `{"v":1,"kind":"result","result":{}}`, true, tooOld, `recorded result of store update "s" does not fit: too old`},
		{"a call that was a sleep", `{"v":1,"kind":"sleep","until":"2030-01-01T00:00:00Z"}`, true, nil, `store update "s" was recorded as a sleep` + meaning},
		{"a call that was a step", `{"v":1,"kind":"error","error":{"message":"x"},"retryAt":"2030-01-01T00:00:00Z"}`, false, nil, `store update "s" was recorded as a step` + meaning},
		{"a newer release's", `{"v":2,"kind":"what"}`, false, nil, `record of step "s", attempt 0, has version 2: a newer release wrote it; upgrade this worker`},
		{"a wait that is done", `{"v":1,"kind":"wait"}`, true, nil, `record of step "s", attempt 0, is not readable: version 1, kind "wait", done true`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.token++
			b.steps.recs[memKey{"s", 0}] = execution.Step{Key: "s", Done: c.done, Response: json.RawMessage(c.response)}
			err := retried(t, b.deliver(func(ctx Context) (string, error) {
				return ask(ctx, replay.Call{Name: "s", Run: refuseCall(t), Accept: c.accept})
			}))
			wantEqual(t, "error", err.Error(), c.want)
			wantEqual(t, "writes", len(b.steps.writes), 0)
		})
	}
}

func TestCallResultIsAccepted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var accepted []string
	fn := func(ctx Context) (string, error) {
		return ask(ctx, replay.Call{Name: "s", Run: gives(resultOf(`1`), nil), Accept: func(result json.RawMessage) error {
			accepted = append(accepted, string(result))
			return nil
		}})
	}
	wantCompleted(t, b.deliver(fn), `"1"`)
	wantCompleted(t, b.deliver(fn), `"1"`)
	wantList(t, "accepted", accepted, []string{"1", "1"})
}

// What a call comes to after its delivery's context has ended.
func TestCutShortCall(t *testing.T) {
	t.Parallel()
	causes := []struct {
		name  string
		cause error
		check func(*testing.T, verdict)
		offer bool // a result is offered to etcd
	}{
		{"lost", &execution.LostError{}, wantLost, false},
		{"unconfirmed", execution.ErrUnconfirmed, wantUnconfirmed, true},
		{"draining", execution.ErrDraining, wantHandover, true},
	}
	answers := []struct {
		name   string
		answer replay.Answer
		err    func(context.Context) error
		result bool
	}{
		{"a result", resultOf(`1`), func(context.Context) error { return nil }, true},
		{"a wait", replay.Answer{Wait: &replay.Wait{}}, func(context.Context) error { return nil }, false},
		{"an error", replay.Answer{}, context.Context.Err, false},
		{"a durable error", replay.Answer{}, func(ctx context.Context) error { return replay.Refuse(ctx.Err()) }, false},
	}
	for _, c := range causes {
		for _, a := range answers {
			t.Run(c.name+", "+a.name, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				v := b.deliverWith(ctx, nil, asks(func(ctx context.Context, _ replay.Earlier) (replay.Answer, error) {
					cancel(c.cause)
					<-ctx.Done()
					return a.answer, a.err(ctx)
				}))
				if c.offer && a.result {
					wantCompleted(t, v, `"1"`)
					wantEqual(t, "writes", len(b.steps.writes), 1)
					return
				}
				c.check(t, v)
				wantEqual(t, "writes", len(b.steps.writes), 0)
			})
		}
	}
}

func TestDrainHandsACallOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	wantHandover(t, b.deliverWith(t.Context(), closed(), asks(refuseCall(t))))
	wantCompleted(t, b.deliver(asks(gives(resultOf(`1`), nil))), `"1"`)
	wantCompleted(t, b.deliverWith(t.Context(), closed(), asks(refuseCall(t))), `"1"`)
}

func TestCallInsideACallPassesTheSuspensionOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fn := func(ctx Context) (string, error) {
		return ask(ctx, replay.Call{Name: "outer", Run: func(context.Context, replay.Earlier) (replay.Answer, error) {
			_, err := ask(ctx, replay.Call{Name: "inner", Run: gives(replay.Answer{Wait: &replay.Wait{}}, nil)})
			return replay.Answer{}, replay.Refuse(err)
		}})
	}
	wantSuspended(t, b.deliver(fn), time.Time{})
	_, recorded := b.steps.get("outer", 0)
	wantEqual(t, "the outer call is recorded", recorded, false)
}

// What stands around a step's function stands around a call's too.
func TestCallIsRunAround(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var names []string
	b.engine.around = func(ctx context.Context, step string, fn func(context.Context) (any, error)) (any, error) {
		if names = append(names, step); len(names) == 1 {
			return nil, errors.New("the worker has crashed")
		}
		return fn(ctx)
	}
	fn := asks(gives(resultOf(`1`), nil))
	wantRetry(t, b.deliver(fn))
	wantCompleted(t, b.deliver(fn), `"1"`)
	wantList(t, "names", names, []string{"s", "s"})
}
