package store_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/memetcd"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is an etcd in memory.
type world struct {
	t      *testing.T
	server *memetcd.Server
	space  keyspace.Space
	gate   memetcd.Gate // of all clients; default: everything passes
}

func newWorld(t *testing.T) *world {
	t.Helper()
	server, err := memetcd.New(memetcd.Config{})
	if err != nil {
		t.Fatal(err)
	}
	space, err := keyspace.New("/holdfast", "test")
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, server: server, space: space}
}

func (w *world) etcd() etcd.Store { return w.server.Client("test", w.gate) }

// protocol returns a new client of the protocol, as another process would have one.
func (w *world) protocol() *stores.Client {
	w.t.Helper()
	c, err := stores.New(stores.Config{
		Store: w.etcd(), Space: w.space,
		Wake: func(context.Context, execution.StepID) error { return nil },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// client is protocol with types.
func (w *world) client() *store.Client { return stores.NewAccess(w.protocol()) }

// A board is the state of most tests.
type board struct {
	Title string            `json:"title"`
	Notes []note            `json:"notes,omitempty"`
	Marks map[string]int    `json:"marks,omitempty"`
	Owner owner             `json:"owner"`
	Free  map[string]any    `json:"free,omitempty"`
	Texts map[string]string `json:"texts,omitempty"`
}

type note struct {
	Text string `json:"text"`
	Done bool   `json:"done,omitempty"`
}

type owner struct {
	Name string `json:"name"`
	Age  int    `json:"age"`
}

var boards = store.Define[board]("board")

// make creates the board with the id.
func (w *world) make(id string, state board) store.Handle[board] {
	w.t.Helper()
	h := boards.At(id).On(w.client())
	if _, err := h.GetOrCreate(w.t.Context(), state); err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *world) get(h store.Handle[board]) store.Snapshot[board] {
	w.t.Helper()
	snap, err := h.Get(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return snap
}

// refuse is an updater that must not run.
func refuse(t *testing.T) func(*board) error {
	return func(*board) error {
		t.Error("a function ran that must not run")
		return nil
	}
}

// title is an updater.
func title(text string) func(*board) error {
	return func(b *board) error {
		b.Title = text
		return nil
	}
}

// serve opens a client of an etcd in memory, of which a worker runs the workflows until
// stop is called.
func serve(workflows ...holdfast.WorkerOption) (client *holdfast.Client, stop func()) {
	server := must(memetcd.New(memetcd.Config{}))
	ctx, cancel := context.WithCancel(context.Background())
	client = must(holdfast.Open(ctx, holdfast.Internal(door.Config{Store: server.Client("example", nil)})))
	drained := make(chan error, 1)
	if len(workflows) == 0 {
		drained <- nil
	} else {
		worker := must(holdfast.NewWorker(client, workflows...))
		go func() { drained <- worker.Run(ctx) }()
	}
	return client, func() {
		cancel()
		if err := errors.Join(<-drained, client.Close()); err != nil {
			panic(err)
		}
	}
}

// must stands for the error handling of a real program.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
