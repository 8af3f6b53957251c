package effect_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/effect"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// protocol returns the client of the stores, as they are.
func protocol(t *testing.T, env *holdfasttest.Env) *stores.Client {
	t.Helper()
	c, err := stores.Of(env.Client().Stores())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	times   = regexp.MustCompile(`"(at|wakeAt)":\d+`)
	digests = regexp.MustCompile(`"sha256":"[0-9a-f]{64}"`)
)

// kept returns what the store holds, without times and digests.
func kept(t *testing.T, env *holdfasttest.Env, name, id string) string {
	t.Helper()
	snap, err := protocol(t, env).Get(env.Context(), execution.StoreID{Name: name, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return digests.ReplaceAllString(times.ReplaceAllString(string(snap.State), `"$1":0`), `"sha256":""`)
}

// What is kept is a format. Frozen.
func TestKeptForms(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		p.performed, p.found = loses(1), func(int) (effect.Found[string], error) { return effect.Found[string]{}, nil }
		e := p.effect("<tea>")
		e.ID = "charge"
		w := act(e)
		env.Worker(w)
		h := begin(t, env, w)
		env.Advance(time.Second)
		const begun = `{"v":1,"operation":"act","input":"<tea>","status":"%s","begun":{"executionId":"order-42","stepKey":"act","at":0}%s}`
		if got, want := kept(t, env, "holdfast:effect", "charge"), fmt.Sprintf(begun, "pending", ""); got != want {
			t.Errorf("pending: %s", got)
		}
		waiting, err := protocol(t, env).Registrations(env.Context(), execution.StoreID{Name: "holdfast:effect", ID: "charge"})
		if err != nil || len(waiting) != 1 || times.ReplaceAllString(string(waiting[0].Note), `"$1":0`) != `{"wakeAt":0,"reason":"Perform: connection reset"}` || waiting[0].Workflow != "act" {
			t.Errorf("waiting: %+v, %v", waiting, err)
		}
		effects := effect.NewClient(env.Client())
		if err := effects.Settle(env.Context(), "charge", "<done>"); err != nil {
			t.Error(err)
		}
		wantResult(t, env, h, "<done>")
		if got, want := kept(t, env, "holdfast:effect", "charge"), fmt.Sprintf(begun, "settled", `,"result":{"value":"<done>"},"settled":{"at":0}`); got != want {
			t.Errorf("settled: %s", got)
		}
		if err := effects.Decline(env.Context(), "charge", errors.New("no")); err == nil {
			t.Error("declined although it is done")
		}
		const want = `{"v":1,"operation":"act","result":{"value":"<done>"},"settled":{"at":0},"reports":[` +
			`{"conflictingResult":{"declined":{"message":"no","code":"EFFECT_DECLINED"}},"sha256":"","at":0}]}`
		if got := kept(t, env, "holdfast:effect-conflict", "charge"); got != want {
			t.Errorf("conflicts: %s", got)
		}
	})
}

// An operator reads what is asked for, who waits and why, and who has settled it.
func TestGet(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		p := newProvider()
		p.performed = loses(1)
		e := p.effect("tea")
		e.ID = "charge"
		w := act(e)
		env.Worker(w)
		h := begin(t, env, w)
		env.Advance(time.Second)
		effects := effect.NewClient(env.Client())
		r, err := effects.Get(env.Context(), "charge")
		if err != nil || r.ID != "charge" || r.Operation != "act" || string(r.Input) != `"tea"` || r.Result != nil || r.Settled != (effect.By{}) ||
			r.Begun.Execution != "order-42" || r.Begun.Step != "act" || len(r.Waiting) != 1 {
			t.Fatalf("pending: %+v, %v", r, err)
		}
		if wait := r.Waiting[0]; wait.Execution != "order-42" || wait.Step != "act" || wait.Reason != "Perform: connection reset" || !wait.WakeAt.Equal(recordOf(t, env, "order-42").Due) {
			t.Errorf("waiting: %+v", wait)
		}
		wantResult(t, env, h, "done: tea")
		r, err = effects.Get(env.Context(), "charge")
		if err != nil || r.Result == nil || string(r.Result.Value) != `"done: tea"` || r.Settled.Execution != "order-42" || len(r.Waiting) != 0 {
			t.Errorf("settled: %+v, %v", r, err)
		}
		if err := env.Client().Delete(env.Context(), "order-42"); err != nil {
			t.Fatal(err)
		}
		if again, err := effects.Get(env.Context(), "charge"); err != nil || again.Result == nil {
			t.Errorf("after the deletion of its execution: %+v, %v", again, err)
		}
	})
}

// Reports are bounded, by their number and by their size, and each is kept once.
func TestReportsAreBounded(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		ctx, effects := env.Context(), effect.NewClient(env.Client())
		step := execution.StepID{Execution: "order-42", Step: "act"}
		large := strings.Repeat("x", effect.MaxResultBytes-2)
		for _, id := range []string{"many", "large"} {
			if _, err := effects.Begin(ctx, effect.Request{Step: step, ID: id, Operation: "act", Input: []byte(`1`)}); err != nil {
				t.Fatal(err)
			}
			if err := effects.Settle(ctx, id, large); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 20 {
			for range 2 { // the second adds nothing
				conflict, is := errors.AsType[*effect.ConflictError](effects.Settle(ctx, "many", i))
				if !is || string(conflict.Conflicting.Value) != fmt.Sprint(i) || len(conflict.Result.Value) != len(large)+2 {
					t.Fatalf("settled again: %v", conflict)
				}
			}
		}
		for i := range 4 {
			_ = effects.Settle(ctx, "large", fmt.Sprint(i)+large[1:])
		}
		all, err := effects.Conflicts(ctx)
		if err != nil || len(all) != 2 || all[0].Effect != "large" || all[1].Effect != "many" {
			t.Fatalf("%d conflicts, %v", len(all), err)
		}
		// Those that are not kept are counted each time: nobody knows if they were before.
		if many := all[1]; len(many.Reports) != 16 || many.Omitted != 8 || string(many.Reports[15].Result.Value) != "15" {
			t.Errorf("%d reports, %d omitted", len(many.Reports), many.Omitted)
		}
		for i, r := range all[0].Reports {
			if kept := r.Result.Value != nil; kept != (i < 3) || len(r.SHA256) != 64 {
				t.Errorf("report %d: kept %t, digest %q", i, kept, r.SHA256)
			}
		}
	})
}

// Bad input is refused, and changes nothing.
func TestClientRefuses(t *testing.T) {
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		ctx, effects := env.Context(), effect.NewClient(env.Client())
		for name, c := range map[string]struct {
			err  error
			want string
		}{
			"no such effect to settle":  {effects.Settle(ctx, "none", 1), `settle: effect "none": not found`},
			"no such effect to decline": {effects.Decline(ctx, "none", errReset), `settle: effect "none": not found`},
			"id":                        {effects.Settle(ctx, "\x00", 1), `settle: store id "\x00" holds a NUL`},
			"value":                     {effects.Settle(ctx, "charge", make(chan int)), `settle effect "charge": result "chan int" can't be encoded as JSON: json: unsupported type: chan int`},
			"text":                      {effects.Settle(ctx, "charge", strings.Repeat("x", effect.MaxResultBytes)), `result "string" is too large: 163842 bytes, the limit is 163840`},
			"no refusal":                {effects.Decline(ctx, "charge", nil), `refusal "" is nil; pass the error that says why the effect is not done`},
			"result":                    {effects.SettleAs(ctx, execution.StepID{}, "charge", effect.Result{}), `result "charge" must be a value or a refusal`},
		} {
			if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", name, c.err, c.want)
			}
		}
		if _, err := effects.Get(ctx, "none"); !errors.Is(err, execution.ErrNotFound) {
			t.Errorf("get: %v", err)
		}
		if all, err := effects.Conflicts(ctx); err != nil || len(all) != 0 {
			t.Errorf("conflicts: %v, %v", all, err)
		}
	})
	none := effect.NewClient(nil)
	_, getErr := none.Get(context.Background(), "x")
	_, listErr := none.Conflicts(context.Background())
	_, beginErr := none.Begin(context.Background(), effect.Request{})
	_, waitErr := none.Wait(context.Background(), effect.Waiting{})
	for _, err := range []error{getErr, listErr, beginErr, waitErr, none.Settle(context.Background(), "x", 1)} {
		if err == nil || !strings.Contains(err.Error(), "the client is nil") {
			t.Errorf("without a client: %v", err)
		}
	}
}

// What a later release has written is not touched, and what nobody has written neither.
func TestUnreadableState(t *testing.T) {
	for name, c := range map[string]struct{ state, want string }{
		"newer":      {`{"v":2,"status":"pending"}`, "version 2 was written by a newer release; upgrade this one"},
		"no version": {`{"status":"pending"}`, "version 0 is none"},
		"no status":  {`{"v":1}`, "neither pending nor settled"},
		"no result":  {`{"v":1,"status":"settled"}`, "neither pending nor settled"},
		"no object":  {`[]`, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				key := execution.StoreID{Name: "holdfast:effect", ID: "charge"}
				if _, err := protocol(t, env).Create(env.Context(), key, func() ([]byte, error) { return []byte(c.state), nil }); err != nil {
					t.Fatal(err)
				}
				effects := effect.NewClient(env.Client())
				_, getErr := effects.Get(env.Context(), "charge")
				_, beginErr := effects.Begin(env.Context(), effect.Request{Step: execution.StepID{Execution: "x", Step: "s"}, ID: "charge", Operation: "act", Input: []byte(`1`)})
				for _, err := range []error{getErr, beginErr, effects.Settle(env.Context(), "charge", 1)} {
					own, is := errors.AsType[*effect.Error](err)
					if !is || own.Code() != effect.CodeInvariant || !strings.Contains(err.Error(), c.want) {
						t.Errorf("got %v, want %s", err, c.want)
					}
				}
				if got := kept(t, env, key.Name, key.ID); got != c.state {
					t.Errorf("became %s", got)
				}
			})
		})
	}
}
