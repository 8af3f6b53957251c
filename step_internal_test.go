package holdfast

// White-box: see harness_internal_test.go.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

type receipt struct {
	Number string
	Lines  []int
	Note   *string
	At     time.Time
	hidden int
}

func TestStepReplaysItsRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ran := 0
	var seen []receipt
	fn := func(ctx Context) (string, error) {
		r, err := Step(ctx, "charge", func(context.Context) (receipt, error) {
			ran++
			return receipt{Number: "r-1 <&>", Lines: []int{1, 2}, At: time.Now(), hidden: 3}, nil
		})
		seen = append(seen, r)
		return r.Number, err
	}
	first, second := b.deliver(fn), b.deliver(fn)
	wantCompleted(t, first, `"r-1 \u003c\u0026\u003e"`)
	wantEqual(t, "replayed outcome", show(second), show(first))
	wantEqual(t, "runs", ran, 1)
	if !reflect.DeepEqual(seen[0], seen[1]) {
		t.Errorf("first run got %+v, replay %+v", seen[0], seen[1])
	}
	wantEqual(t, "what JSON does not carry", seen[0].hidden, 0)
	wantList(t, "events", b.stepEvents(), []string{"charge ran", "charge replayed"})
}

func TestStepGivesTheExistingRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.steps.recs[memKey{"charge", 0}] = execution.Step{Key: "charge", Done: true, Response: resultResponse(json.RawMessage(`"theirs"`)).encode()}
	// The first delivery reads nothing, so the record shows at the write only.
	v := b.deliver(func(ctx Context) (string, error) { return Step(ctx, "charge", value("mine")) })
	wantCompleted(t, v, `"theirs"`)
}

func TestStepResultsOfAnyKind(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		fn   body
	}{
		{"an empty struct", func(ctx Context) (string, error) { return asText(Step(ctx, "s", value(struct{}{}))) }},
		{"a nil pointer", func(ctx Context) (string, error) { return asText(Step(ctx, "s", value((*receipt)(nil)))) }},
		{"a nil interface", func(ctx Context) (string, error) { return asText(Step(ctx, "s", value(any(nil)))) }},
		{"a number that is a float", func(ctx Context) (string, error) { return asText(Step(ctx, "s", value(any(1)))) }},
		{"bytes", func(ctx Context) (string, error) { return asText(Step(ctx, "s", value([]byte{0, 255}))) }},
		{"raw JSON", func(ctx Context) (string, error) {
			return asText(Step(ctx, "s", value(json.RawMessage(`{"b":1, "a":2}`))))
		}},
		{"a string that is not UTF-8", func(ctx Context) (string, error) { return asText(Step(ctx, "s", value("\xff"))) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			first := b.deliver(c.fn)
			if first.outcome == nil || first.outcome.Kind != execution.Completed {
				t.Fatalf("got %s", show(first))
			}
			wantEqual(t, "replay", show(b.deliver(c.fn)), show(first))
		})
	}
}

func asText(v any, err error) (string, error) { return fmt.Sprintf("%T %[1]v", v), err }

func TestStepErrorIsTheSameOnReplay(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		err  error
		opts []StepOption
		want StepError
	}{
		{"plain", errors.New("declined"), nil, StepError{Step: "s", Attempts: 1, Message: "declined"}},
		{"with a code", fmt.Errorf("bank: %w", codedError{"declined", "card"}), nil, StepError{Step: "s", Attempts: 1, Message: "bank: declined", Code: "card"}},
		{"permanent", Permanent(codedError{"declined", "card"}), []StepOption{MaxAttempts(9)}, StepError{Step: "s", Attempts: 1, Message: "declined", Code: "card", Permanent: true}},
		{"permanent, wrapped", fmt.Errorf("bank: %w", Permanent(errors.New("declined"))), []StepOption{MaxAttempts(9)}, StepError{Step: "s", Attempts: 1, Message: "bank: declined", Permanent: true}},
		{"exhausted", errors.New("busy"), []StepOption{MaxAttempts(3), Backoff(0, 1, 0)}, StepError{Step: "s", Attempts: 3, Message: "busy"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			ran := 0
			var seen []StepError
			fn := func(ctx Context) (string, error) {
				got, err := Step(ctx, "s", func(context.Context) (string, error) { ran++; return "ignored", c.err }, c.opts...)
				var failed *StepError
				if !errors.As(err, &failed) || got != "" || !Failed(err) {
					t.Fatalf("got %q, %v", got, err)
				}
				seen = append(seen, *failed)
				return "caught", nil
			}
			wantCompleted(t, b.deliver(fn), `"caught"`)
			wantCompleted(t, b.deliver(fn), `"caught"`)
			wantEqual(t, "first run", seen[0], c.want)
			wantEqual(t, "replay", seen[1], c.want)
			wantEqual(t, "runs", int64(ran), c.want.Attempts)
		})
	}
}

func TestStepResultThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		fn   func(Context) error
		want string
	}{
		{
			"not JSON",
			func(ctx Context) error { _, err := Step(ctx, "s", value(math.NaN()), MaxAttempts(5)); return err },
			`step "s" failed: result can't be encoded as JSON: json: unsupported value: NaN`,
		},
		{
			"not decodable",
			func(ctx Context) error {
				_, err := Step(ctx, "s", value(io.Reader(strings.NewReader("x"))), MaxAttempts(5))
				return err
			},
			`step "s" failed: result can't be decoded from its own JSON: json: cannot unmarshal object into Go value of type io.Reader`,
		},
		{
			"too large",
			func(ctx Context) error {
				_, err := Step(ctx, "s", value(strings.Repeat("x", execution.MaxPayloadBytes)), MaxAttempts(5))
				return err
			},
			`step "s" failed: result is too large: 1048611 bytes as recorded, the limit is 1048576`,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			fn := func(ctx Context) (string, error) { return "", c.fn(ctx) }
			first := b.deliver(fn)
			wantFailed(t, first, c.want)
			wantEqual(t, "replay", show(b.deliver(fn)), show(first))
			wantList(t, "events", b.stepEvents(), []string{"s failed", "s replayed"})
		})
	}
}

func TestRecordThatDoesNotFitIsRetried(t *testing.T) {
	t.Parallel()
	step := func(ctx Context) (string, error) { return Step(ctx, "s", refuse(t)) }
	sleep := func(ctx Context) (string, error) { return "", Sleep(ctx, "s", time.Hour) }
	cases := []struct {
		name, response string
		done           bool
		fn             body
		want           string
	}{
		{"another type", `{"v":1,"kind":"result","result":{}}`, true, step, `recorded result of step "s" does not fit string: json: cannot unmarshal object into Go value of type string`},
		{"a step that was a sleep", `{"v":1,"kind":"sleep","until":"2030-01-01T00:00:00Z"}`, true, step, `step "s" was recorded as a sleep: a name must keep its meaning while executions that recorded it are alive`},
		{"a sleep that was a step", `{"v":1,"kind":"result","result":1}`, true, sleep, `sleep "s" was recorded as a step: a name must keep its meaning while executions that recorded it are alive`},
		{"a step that was a wait", `{"v":1,"kind":"wait"}`, false, step, `step "s" was recorded as a wait: a name must keep its meaning while executions that recorded it are alive`},
		{"a sleep that was a wait", `{"v":1,"kind":"wait"}`, false, sleep, `sleep "s" was recorded as a wait: a name must keep its meaning while executions that recorded it are alive`},
		{"a wait that is done", `{"v":1,"kind":"wait"}`, true, step, `record of step "s", attempt 0, is not readable: version 1, kind "wait", done true`},
		{"a newer release's", `{"v":2,"kind":"what"}`, true, step, `record of step "s", attempt 0, has version 2: a newer release wrote it; upgrade this worker`},
		{"no version", `{"kind":"result","result":1}`, true, step, `record of step "s", attempt 0, is not readable: version 0, kind "result", done true`},
		{"unknown kind", `{"v":1,"kind":"what"}`, true, step, `record of step "s", attempt 0, is not readable: version 1, kind "what", done true`},
		{"a retry without a time", `{"v":1,"kind":"error","error":{"message":"x"}}`, false, step, `record of step "s", attempt 0, is not readable: version 1, kind "error", done false`},
		{"not JSON", `{`, true, sleep, `record of step "s", attempt 0, is not readable: unexpected end of JSON input`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.token++
			b.steps.recs[memKey{"s", 0}] = execution.Step{Key: "s", Done: c.done, Response: json.RawMessage(c.response)}
			wantEqual(t, "error", retried(t, b.deliver(c.fn)).Error(), c.want)
			wantEqual(t, "writes", len(b.steps.writes), 0)
		})
	}
}

func TestWriteErrors(t *testing.T) {
	t.Parallel()
	away := errors.New("etcd is away")
	cases := []struct {
		name  string
		err   error
		check func(*testing.T, verdict)
	}{
		{"lost", &execution.LostError{ID: "order-42", Carried: 101, Current: 105}, wantLost},
		{"away", away, func(t *testing.T, v verdict) { wantEqual(t, "error", retried(t, v), away) }},
	}
	calls := map[string]body{
		"a result": func(ctx Context) (string, error) { return Step(ctx, "s", value("x")) },
		"an error": func(ctx Context) (string, error) {
			return Step(ctx, "s", func(context.Context) (string, error) { return "", errors.New("x") })
		},
		"a retry": func(ctx Context) (string, error) {
			return Step(ctx, "s", func(context.Context) (string, error) { return "", errors.New("x") }, MaxAttempts(2))
		},
		"a sleep": func(ctx Context) (string, error) { return "", Sleep(ctx, "s", time.Hour) },
	}
	for _, c := range cases {
		for what, fn := range calls {
			t.Run(c.name+", of "+what, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.steps.before = func(context.Context, execution.StepWrite) error { return c.err }
				c.check(t, b.deliver(func(ctx Context) (string, error) {
					out, err := fn(ctx)
					if !errors.Is(err, ErrSuspended) {
						t.Errorf("got %v, want ErrSuspended", err)
					}
					if _, err := Step(ctx, "next", refuse(t)); !errors.Is(err, ErrSuspended) {
						t.Errorf("next step: got %v, want ErrSuspended", err)
					}
					return out, err
				}))
				wantEqual(t, "writes", len(b.steps.writes), 1)
				wantEqual(t, "swallowed", len(b.swallowed()), 0)
			})
		}
	}
}

func TestMisuseFailsTheExecution(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		call func(Context) error
		want string
	}{
		{"a step's name twice", func(ctx Context) error { _, err := Step(ctx, "first", refuse(t)); return err }, `step "first": step name is used twice in one run`},
		{"a sleep with a step's name", func(ctx Context) error { return Sleep(ctx, "first", 0) }, `step "first": step name is used twice in one run`},
		{"an empty name", func(ctx Context) error { _, err := Step(ctx, "", refuse(t)); return err }, `step name "" is empty; want 1 to 512 bytes of UTF-8`},
		{"a NUL in a name", func(ctx Context) error { return Sleep(ctx, "a\x00b", 0) }, `step name "a\x00b" holds a NUL character`},
		{"no attempts", func(ctx Context) error { _, err := Step(ctx, "s", refuse(t), MaxAttempts(0)); return err }, `step "s": MaxAttempts "0" is not at least 1`},
		{"a shrinking backoff", func(ctx Context) error { _, err := Step(ctx, "s", refuse(t), Backoff(1, 0.5, 1)); return err }, `step "s": Backoff factor "0.5" is not a number of at least 1`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			v := b.deliver(func(ctx Context) (string, error) {
				if _, err := Step(ctx, "first", value("x")); err != nil {
					return "", err
				}
				err := c.call(ctx)
				wantEqual(t, "error", errorText(err), c.want)
				wantEqual(t, "Failed", Failed(err), true)
				if _, err := Step(ctx, "later", refuse(t)); !errors.Is(err, ErrSuspended) {
					t.Errorf("later step: got %v", err)
				}
				return "went on", nil
			})
			wantFailed(t, v, c.want)
			wantEqual(t, "writes", len(b.steps.writes), 1)
		})
	}
	t.Run("errors.Is", func(t *testing.T) {
		t.Parallel()
		newBench(t).deliver(func(ctx Context) (string, error) {
			for i := range 2 {
				if err := Sleep(ctx, "tick", 0); errors.Is(err, ErrDuplicateStep) != (i == 1) {
					t.Errorf("call %d: %v", i, err)
				}
			}
			return "", nil
		})
	})
}

func TestRetryWaitsAndUsesAttempts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var ran []time.Duration
		begun := time.Now()
		fn := func(ctx Context) (string, error) {
			return Step(ctx, "charge", func(context.Context) (string, error) {
				ran = append(ran, time.Since(begun))
				if len(ran) < 4 {
					return "", fmt.Errorf("busy %d", len(ran))
				}
				return "charged", nil
			}, MaxAttempts(4), Backoff(time.Minute, 2, 90*time.Second))
		}
		wantSuspended(t, b.deliver(fn), begun.Add(time.Minute))
		rec, _ := b.steps.get("charge", 0)
		wantEqual(t, "done", rec.Done, false)

		advance(59 * time.Second)
		wantSuspended(t, b.deliver(fn), begun.Add(time.Minute)) // early and stray: no attempt is used
		wantEqual(t, "runs", len(ran), 1)

		advance(time.Second)
		wantSuspended(t, b.deliver(fn), begun.Add(150*time.Second))
		advance(90 * time.Second)
		wantSuspended(t, b.deliver(fn), begun.Add(240*time.Second))
		advance(time.Hour)
		wantCompleted(t, b.deliver(fn), `"charged"`)
		wantCompleted(t, b.deliver(fn), `"charged"`)
		wantEqual(t, "runs", len(ran), 4)
		wantList(t, "events", b.stepEvents(), []string{
			"charge retried", "charge retried", "charge retried", "charge ran", "charge replayed",
		})
		rec, found := b.steps.get("charge", 3)
		wantEqual(t, "the last attempt is recorded as done", found && rec.Done, true)
	})
}

func TestRetryExhaustedAcrossDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		fn := func(ctx Context) (string, error) {
			return Step(ctx, "charge", func(context.Context) (string, error) { return "", errors.New("busy") }, MaxAttempts(2))
		}
		wantSuspended(t, b.deliver(fn), time.Now().Add(time.Second))
		advance(time.Second)
		wantFailed(t, b.deliver(fn), `step "charge" failed after 2 attempts: busy`)
		wantFailed(t, b.deliver(fn), `step "charge" failed after 2 attempts: busy`)
	})
}

func TestRetryWithoutAnIntervalStaysInTheDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ran := 0
	v := b.deliver(func(ctx Context) (string, error) {
		return Step(ctx, "charge", func(context.Context) (string, error) {
			if ran++; ran < 5 {
				return "", errors.New("busy")
			}
			return "charged", nil
		}, MaxAttempts(5), Backoff(0, 2, time.Minute))
	})
	wantCompleted(t, v, `"charged"`)
	wantEqual(t, "runs", ran, 5)
	wantEqual(t, "records", len(b.steps.recs), 5)
}

func TestStepInsideAStepPassesTheSuspensionOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		fn := func(ctx Context) (string, error) {
			return Step(ctx, "outer", func(context.Context) (string, error) {
				return "slept", Sleep(ctx, "inner", time.Minute) //nolint:contextcheck // the outer one, on purpose
			})
		}
		wantSuspended(t, b.deliver(fn), time.Now().Add(time.Minute))
		_, recorded := b.steps.get("outer", 0)
		wantEqual(t, "the outer step is recorded", recorded, false)
		advance(time.Minute)
		wantCompleted(t, b.deliver(fn), `"slept"`)
	})
}
