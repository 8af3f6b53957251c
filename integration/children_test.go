package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/process"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// parentCommand as the first argument makes the test binary a worker process that
// stops for ever between its start of a child and the record of that; the others are
// the endpoint and the namespace.
const parentCommand = "parent-process"

// bearer is a parent: it starts a child, or waits for it too.
var bearer = holdfast.Define("bearer", func(ctx holdfast.Context, who string) (string, error) {
	child, err := holdfast.Start(ctx, "start", greet, who)
	if err != nil {
		return "", err
	}
	greeting, err := child.Await(ctx, "wait")
	return child.ID() + ": " + greeting, err
})

// runParent runs bearers until it is killed, or its parent has gone.
func runParent(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: arguments %q, want endpoint and namespace", parentCommand, args)
	}
	process.ExitWithParent(nil)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	around := func(ctx context.Context, step string, fn func(context.Context) (any, error)) (any, error) {
		answer, err := fn(ctx)
		if step == "start" {
			fmt.Println("started")
			<-context.Background().Done() // not when ctx ends, either
		}
		return answer, err
	}
	c, err := holdfast.Open(ctx, holdfast.Endpoints(args[0]), holdfast.Prefix(keyPrefix), holdfast.Namespace(args[1]),
		holdfast.Internal(door.Config{Around: around}))
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := holdfast.NewWorker(c, bearer, holdfast.Lease(fleetLease, fleetRenew))
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// startParent starts such a process. The channel is closed when it has started a child.
func (y *yard) startParent() (child *process.Child, started <-chan struct{}) {
	y.Helper()
	path, err := os.Executable()
	y.must(err)
	said := make(chan struct{})
	child, err = process.Start(process.Config{
		Name: "parent", Path: path, Args: []string{parentCommand, testetcd.Endpoint(y), y.h.namespace}, Stderr: os.Stderr,
		Line: func(line []byte) {
			if string(line) == "started" {
				close(said)
			}
		},
	})
	y.must(err)
	y.Cleanup(func() { y.kill(child) })
	return child, said
}

// children lists what was started.
func (y *yard) children() []execution.Record {
	y.Helper()
	page, err := y.client.List(y.Context(), execution.ListRequest{Workflow: "greet"})
	y.must(err)
	return page.Records
}

// TestChildren: what children come to when processes die, and when ids meet.
func TestChildren(t *testing.T) {
	t.Parallel()
	for slug, assert := range map[string]func(*yard){
		"parent-killed-before-its-record":     parentKilled,
		"child-ends-before-its-start-is-kept": childEndsFirst,
		"id-of-another-parent":                idOfAnotherParent,
		"ender-dies-before-it-tells":          enderDies,
		"child-deleted-before-it-is-read":     childDeleted,
		"registered-but-not-recorded":         registeredOnly,
		"child-awaited-by-the-next-run":       awaitedByNextRun,
	} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			assert(newYard(t))
		})
	}
}

// parentKilled: SIGKILL of the process of a parent between its child's creation and its
// own record. The next worker is given the same child, and no other is made.
func parentKilled(y *yard) {
	victim, started := y.startParent()
	h := begin(y, bearer, "Ada", "p")
	<-started
	y.kill(victim)
	before := y.children()
	if len(before) != 1 || y.response("p", "start", 0) != "" {
		y.Fatalf("%d children, and %q is recorded", len(before), y.response("p", "start", 0))
	}
	y.work(nil, bearer, greet)
	comesTo(y, h, string(before[0].ID)+": hello Ada")
	if after := y.children(); len(after) != 1 || y.starts() != 1 {
		y.Errorf("%d children, and %d starts are kept", len(after), y.starts())
	}
	y.nothingIsOwed()
}

// childEndsFirst: so it is if the child has ended before.
func childEndsFirst(y *yard) {
	victim, started := y.startParent()
	h := begin(y, bearer, "Ada", "p")
	<-started
	y.work(nil, greet)
	id := string(y.children()[0].ID)
	comesTo(y, greet.Handle(y.client, id), "hello Ada")
	y.kill(victim)
	y.work(nil, bearer)
	comesTo(y, h, id+": hello Ada")
	if r := y.get("p"); len(y.children()) != 1 || r.Claims != 2 {
		y.Errorf("%d children after %d deliveries of the parent, want 1 after 2", len(y.children()), r.Claims)
	}
	y.nothingIsOwed()
}

// idOfAnotherParent: two parents choose one id. One has a child; the other is told, by a
// typed error, and never of somebody else's result, not even where it would be the same.
func idOfAnotherParent(y *yard) {
	chooser := holdfast.Define("chooser", func(ctx holdfast.Context, who string) (string, error) {
		greeting, err := holdfast.Child(ctx, "child", greet, who, holdfast.WithID("shared"))
		if failed, is := errors.AsType[*holdfast.StepError](err); is {
			return failed.Code, nil
		}
		return greeting, err
	})
	y.work(nil, chooser, greet)
	comesTo(y, begin(y, chooser, "Ada", "one"), "hello Ada")
	comesTo(y, begin(y, chooser, "Ada", "another"), "START_ID_TAKEN")
	comesTo(y, begin(y, chooser, "Bob", "a third"), "START_ID_TAKEN")
	if len(y.children()) != 1 || y.starts() != 1 {
		y.Errorf("%d children, and %d starts are kept", len(y.children()), y.starts())
	}
}

// enderDies: the worker that has ended a child dies before it has woken the parent. The
// notice that it left does it.
func enderDies(y *yard) {
	y.work(nil, bearer)
	h := begin(y, bearer, "Ada", "p")
	y.wantEnds("p", "suspended")
	ender := startWorker(y.T, y.h, fate{at: puts(y.h.space.AllChanges()), applied: true}, greet)
	<-ender.died
	comesTo(y, h, string(y.children()[0].ID)+": hello Ada")
	y.nothingIsOwed()
}

// childDeleted: a child that was deleted before its parent has read what it came to is a
// failure with a code of its own.
func childDeleted(y *yard) {
	h := begin(y, bearer, "Ada", "p")
	first := startWorker(y.T, y.h, fate{at: puts(y.h.space.Waiters())}, bearer)
	<-first.died
	id := string(y.children()[0].ID)
	y.must(y.client.Cancel(y.Context(), id, "test"))
	y.must(y.client.Delete(y.Context(), id))
	begin(y, greet, "Bob", id) // and its id has another one
	y.work(nil, bearer, greet)
	failsWith(y, h, fmt.Sprintf(`step "wait" failed: wait for execution %q: it was deleted, and with it what it came to`, id))
	if o := y.get("p").Outcome; o.Error.Code != "START_TARGET_DELETED" {
		y.Errorf("outcome %+v", o.Error)
	}
}

// registeredOnly: a worker dies after it has registered its parent at the child, before
// the wait is recorded. The next one registers it again, and nothing is left over.
func registeredOnly(y *yard) {
	h := begin(y, bearer, "Ada", "p")
	first := startWorker(y.T, y.h, fate{at: puts(y.h.space.Waiters()), applied: true}, bearer)
	<-first.died
	y.work(nil, bearer, greet)
	comesTo(y, h, string(y.children()[0].ID)+": hello Ada")
	y.nothingIsOwed()
}

// awaitedByNextRun: what a run has started may be waited for by the next one.
func awaitedByNextRun(y *yard) {
	type page struct {
		Child holdfast.Started[string]
		Last  bool
	}
	pager := holdfast.Define("pager", func(ctx holdfast.Context, p page) (string, error) {
		if p.Last {
			return p.Child.Await(ctx, "wait")
		}
		child, err := holdfast.Start(ctx, "start", greet, "Ada")
		if err != nil {
			return "", err
		}
		return "", holdfast.ContinueAsNew(page{child, true})
	})
	y.work(nil, pager)
	h := begin(y, pager, page{}, "p")
	y.eventually("the next run to wait", func() bool {
		return y.get("p").Run == 1 && y.keysOf(y.h.space.Waiters().Start, y.h.space.Waiters().End) == 1
	})
	if y.starts() != 0 {
		y.Errorf("%d starts of the run that has ended are kept", y.starts())
	}
	y.work(nil, greet)
	comesTo(y, h, "hello Ada")
	y.nothingIsOwed()
}

const (
	familyParents  = 20
	familyChildren = 10
)

func familyTrade(_ say) []holdfast.WorkerOption {
	member := holdfast.Define("member", func(ctx holdfast.Context, n int) (int, error) {
		if n%3 == 0 {
			if err := holdfast.Sleep(ctx, "sleep", time.Second); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	family := holdfast.Define("family", func(ctx holdfast.Context, _ int) (int, error) {
		var members []holdfast.Started[int]
		for i := range familyChildren {
			m, err := holdfast.Start(ctx, "start-"+strconv.Itoa(i), member, i)
			if err != nil {
				return 0, err
			}
			members = append(members, m)
		}
		sum := 0
		for i, m := range members {
			n, err := m.Await(ctx, "wait-"+strconv.Itoa(i))
			if err != nil {
				return 0, err
			}
			sum += n
		}
		return sum, nil
	})
	return []holdfast.WorkerOption{family, member}
}

// TestChildrenUnderKills: parents start ten children each and wait for them, while
// workers are killed. Each step has started one, and each parent has what its own came
// to.
func TestChildrenUnderKills(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "family", 3, nil)
	stub := holdfast.Define("family", func(holdfast.Context, int) (int, error) { return 0, nil })
	kills := f.killWhile(400*time.Millisecond, func() {
		var all sync.WaitGroup
		for i := range familyParents {
			all.Go(func() {
				h, err := stub.Start(t.Context(), f.client, i, holdfast.WithID("family-"+strconv.Itoa(i)))
				sum := 0
				if err == nil {
					sum, err = h.Result(t.Context())
				}
				if want := familyChildren * (familyChildren - 1) / 2; err != nil || sum != want {
					t.Errorf("family %d came to %d, %v; want %d", i, sum, err, want)
				}
			})
		}
		all.Wait()
	})
	page, err := f.client.List(t.Context(), execution.ListRequest{Workflow: "member", Limit: 1000})
	if err != nil || len(page.Records) != familyParents*familyChildren {
		t.Errorf("%d children, %v; want %d", len(page.Records), err, familyParents*familyChildren)
	}
	starts := f.h.space.Starts()
	if n := f.keysOf(starts.Start, starts.End); n != familyParents*familyChildren {
		t.Errorf("%d starts are kept, want %d", n, familyParents*familyChildren)
	}
	waiters, outbox := f.h.space.Waiters(), f.h.space.Outbox()
	f.eventually("nobody to wait or to be woken", func() bool {
		return f.keysOf(waiters.Start, waiters.End)+f.keysOf(outbox.Start, outbox.End) == 0
	})
	if kills == 0 {
		t.Error("no worker was killed")
	}
	t.Logf("%d workers were killed", kills)
}
