package dispatch_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/pkg/dispatch"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const leaseDuration = 30 * time.Second

var errSick = errors.New("etcd is away")

// A fakeHolder holds leases in memory. Everything due is in queue.
type fakeHolder struct {
	mu        sync.Mutex
	queue     []execution.ID
	token     execution.Token
	claims    int
	renewals  int
	sick      bool                   // claims and renewals fail
	lost      []*execution.LostError // told by the next renewal
	endErr    error                  // what Acknowledge and Release return
	ended     map[execution.ID]string
	forgotten []execution.ID
	closed    bool
	deadline  map[execution.ID]time.Time

	due     func(time.Time)
	evicted func(*execution.LostError)
}

func newFake(ids ...execution.ID) *fakeHolder {
	return &fakeHolder{queue: ids, ended: map[execution.ID]string{}}
}

func (f *fakeHolder) Claim(_ context.Context, limit int) (ds []execution.Delivery, next time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.claims++
	if f.sick {
		return nil, next, errSick
	}
	n := min(limit, len(f.queue))
	for _, id := range f.queue[:n] {
		f.token++
		ds = append(ds, execution.Delivery{Lease: execution.Lease{ID: id, Token: f.token}, Workflow: "w", Deadline: f.deadline[id]})
	}
	f.queue = f.queue[n:]
	return ds, next, nil
}

func (f *fakeHolder) KeepAlive(context.Context) (time.Time, []*execution.LostError, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.renewals++
	if f.sick {
		return time.Time{}, nil, errSick
	}
	lost := f.lost
	f.lost = nil
	return time.Now().Add(leaseDuration), lost, nil
}

func (f *fakeHolder) end(id execution.ID, how string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.endErr != nil {
		return f.endErr
	}
	f.ended[id] = how
	return nil
}

func (f *fakeHolder) Acknowledge(_ context.Context, l execution.Lease, o execution.Outcome) error {
	how := string(o.Kind)
	if o.Handover {
		how = "handover"
	}
	return f.end(l.ID, how)
}

func (f *fakeHolder) Release(_ context.Context, l execution.Lease, why string) error {
	return f.end(l.ID, "released: "+why)
}

func (f *fakeHolder) Forget(l execution.Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forgotten = append(f.forgotten, l.ID)
}

func (f *fakeHolder) Duration() time.Duration { return leaseDuration }

func (f *fakeHolder) Close(context.Context) { f.set(func() { f.closed = true }) }

func (f *fakeHolder) Watch(ctx context.Context, due func(time.Time), evicted func(*execution.LostError), _ func()) {
	f.set(func() { f.due, f.evicted = due, evicted })
	<-ctx.Done()
}

// set runs a change under the lock.
func (f *fakeHolder) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// counts returns how many claims and renewals were tried, and what is still due.
func (f *fakeHolder) counts() (claims, renewals, queued int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.claims, f.renewals, len(f.queue)
}

func (f *fakeHolder) how(id execution.ID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended[id]
}

// run starts a dispatcher inside a bubble of virtual time, calls test once it is
// idle, and drains it afterwards. The configuration is made inside the bubble: a
// channel from outside would keep virtual time from passing.
func run(t *testing.T, f *fakeHolder, config func() dispatch.Config, test func(t *testing.T, stop context.CancelFunc)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.Holder = f
		d, err := dispatch.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		defer func() {
			stop()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
			if !f.closed {
				t.Error("the holder was not closed")
			}
		}()
		synctest.Wait()
		test(t, stop)
	})
}

var done = dispatch.Reply{Outcome: &execution.Outcome{Kind: execution.Completed}}
