package holdfast_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

var pages = store.Define[int]("pages")

// crawl loads so many pages, each in a run of its own, and counts them in a store too.
func crawl(last int) *holdfast.Workflow[int, string] {
	return holdfast.Define("crawl", func(ctx holdfast.Context, page int) (string, error) {
		title, err := holdfast.Step(ctx, "load", func(context.Context) (string, error) { return fmt.Sprintf("page %d", page), nil })
		if err != nil {
			return "", err
		}
		count, err := store.Update(ctx, "count", pages.At("loaded"), func(n *int) error { *n++; return nil })
		switch {
		case err != nil:
			return "", err
		case page < last:
			return "", holdfast.ContinueAsNew(page + 1)
		}
		return fmt.Sprintf("%s, %d in all", title, count.State), nil
	})
}

func begun(t *testing.T, env *holdfasttest.Env, w *holdfast.Workflow[int, string]) holdfast.Handle[string] {
	t.Helper()
	if _, err := pages.At("loaded").On(env.Client().Stores()).GetOrCreate(env.Context(), 0); err != nil {
		t.Fatal(err)
	}
	h, err := w.Start(env.Context(), env.Client(), 1, holdfast.WithID("crawl-7"))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantCrawled(t *testing.T, env *holdfasttest.Env, h holdfast.Handle[string], want string) execution.Record {
	t.Helper()
	if got, err := h.Result(env.Context()); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	rec, err := env.Client().Get(env.Context(), h.ID())
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// A worker that freezes in the middle of a run comes back when another one has brought
// the execution into later runs. It goes on in its old history, and is refused.
func TestFrozenWorkerComesBackAfterItsRun(t *testing.T) {
	for name, moment := range map[string]struct {
		at      func(*holdfasttest.Env, string, func(*holdfasttest.Worker))
		refused string
	}{
		"before a record": {(*holdfasttest.Env).BeforeRecord, "writeStep"},
		"before a step":   {(*holdfasttest.Env).BeforeStep, "writeStep"},
	} {
		t.Run(name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				w := crawl(3)
				moment.at(env, "load", (*holdfasttest.Worker).Freeze)
				frozen := env.Worker(w)
				h := begun(t, env, w)
				synctest.Wait()
				env.Worker(w)
				before := wantCrawled(t, env, h, "page 3, 3 in all")
				frozen.Thaw()
				env.Advance(time.Minute)
				refused := env.Refused()
				if len(refused) == 0 || refused[0].Operation != moment.refused || refused[0].Carried != before.Deliveries[0].Token {
					t.Errorf("refused %v, want the first holder's %s", refused, moment.refused)
				}
				after := wantCrawled(t, env, h, "page 3, 3 in all")
				if after.Run != 2 || after.Claims != before.Claims || env.Takeovers() != 1 {
					t.Errorf("%+v, %d takeovers; want run 2 as before, and 1", after, env.Takeovers())
				}
				now, err := pages.At("loaded").On(env.Client().Stores()).Get(env.Context())
				if err != nil || now.State != 3 {
					t.Errorf("%d pages, %v; want 3", now.State, err)
				}
			})
		})
	}
}

// Whatever the moment at which a worker crashes, in whichever run, another one goes on,
// and each run's work counts once.
func TestLoopSurvivesACrashInEachRun(t *testing.T) {
	type at = func(*holdfasttest.Env, string, func(*holdfasttest.Worker))
	for name, moment := range map[string]at{
		"before the step":   (*holdfasttest.Env).BeforeStep,
		"before the record": (*holdfasttest.Env).BeforeRecord,
		"after the step":    (*holdfasttest.Env).AfterStep,
	} {
		t.Run(name, func(t *testing.T) {
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				w := crawl(4)
				for range 4 {
					moment(env, "load", func(crashed *holdfasttest.Worker) {
						crashed.Crash()
						env.Worker(w)
					})
				}
				env.Worker(w)
				rec := wantCrawled(t, env, begun(t, env, w), "page 4, 4 in all")
				if rec.Run != 3 || string(rec.Params) != "4" || string(rec.FirstParams) != "1" {
					t.Errorf("%+v, want run 3", rec)
				}
			})
		})
	}
}
