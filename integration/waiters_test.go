package integration_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/door"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/etcdv3"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/process"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// openerCommand as the first argument makes the test binary a process that opens the
// gate, for whom all wait, and comes to a stand before it has woken all of them. The
// others are the endpoint, the namespace, and how many transactions it may make.
const openerCommand = "opener-process"

var gate = store.Define[bool]("gate")

var passGate = holdfast.Define("pass", func(ctx holdfast.Context, _ int) (int, error) {
	_, err := store.When(ctx, "open", gate.At("gate"), func(open bool) (bool, bool) { return open, open })
	return 0, err
})

func passTrade(_ say) []holdfast.WorkerOption {
	return []holdfast.WorkerOption{passGate, holdfast.Concurrency(128)}
}

// runOpener updates the gate. When it has made so many transactions it says so and
// waits to be killed.
func runOpener(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%s: arguments %q, want endpoint, namespace and number of transactions", openerCommand, args)
	}
	limit, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	process.ExitWithParent(nil)
	inner, _, err := etcdv3.Dial(etcdv3.DialConfig{Endpoints: args[:1]})
	if err != nil {
		return err
	}
	var made atomic.Int64
	hook := &testetcd.Hook{Store: inner, BeforeTxn: func(*etcd.Txn) error {
		if made.Add(1) > limit {
			fmt.Println("stands")
			<-gone // never: it is killed here
		}
		return nil
	}}
	ctx := context.Background()
	c, err := holdfast.Open(ctx, holdfast.Prefix(keyPrefix), holdfast.Namespace(args[1]), holdfast.Internal(door.Config{Store: hook}))
	if err != nil {
		return err
	}
	_, err = gate.At("gate").On(c.Stores()).Update(ctx, func(open *bool) error { *open = true; return nil })
	return err
}

// TestWakersDeath: 500 executions wait for one store, and the process that changes it
// is killed in the middle of waking them. The workers wake the others; nobody is woken
// more than once more than needed.
func TestWakersDeath(t *testing.T) {
	t.Parallel()
	const waiters = 500
	f := newFleet(t, "pass", 2, nil)
	if _, err := gate.At("gate").On(f.client.Stores()).GetOrCreate(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() { f.runAll("pass", waiters) })
	span := f.h.space.Waiters()
	f.eventually("all wait", func() bool {
		return f.keysOf(span.Start, span.End) == waiters && f.allSuspended(waiters)
	})
	f.openAndDie(200) // open and read, commit, and some of the about 1000 that 500 wakes take
	all.Wait()
	most, twice := int64(0), 0
	for i := range waiters {
		r, err := f.client.Get(t.Context(), strconv.Itoa(i))
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, r.Claims)
		if r.Claims > 2 {
			twice++
		}
	}
	if most > 3 { // to come to the wait, to be woken, and once more
		t.Errorf("an execution was claimed %d times", most)
	}
	f.nothingLeft(keyspace.Space.Waiters, "waiters")
	f.nothingLeft(keyspace.Space.Outbox, "wakes that are owed")
	t.Logf("%d of %d executions were woken once more", twice, waiters)
}

// allSuspended says whether so many executions are suspended.
func (f *fleet) allSuspended(n int) bool {
	f.t.Helper()
	page, err := f.client.List(f.t.Context(), execution.ListRequest{Status: execution.StatusSuspended, Limit: 1000})
	if err != nil {
		f.t.Fatal(err)
	}
	return len(page.Records) == n
}

// openAndDie starts an opener, and kills it where it stands.
func (f *fleet) openAndDie(transactions int) {
	f.t.Helper()
	path, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	stands := make(chan struct{}, 64)
	child, err := process.Start(process.Config{
		Name: "opener", Path: path, Stderr: os.Stderr,
		Args: []string{openerCommand, testetcd.Endpoint(f.t), f.h.namespace, strconv.Itoa(transactions)},
		Line: func([]byte) { stands <- struct{}{} },
	})
	if err != nil {
		f.t.Fatal(err)
	}
	select {
	case <-stands:
	case <-child.Done():
		f.t.Fatalf("the opener ended before it came to a stand: %v", child.Err())
	}
	f.kill(child)
}
