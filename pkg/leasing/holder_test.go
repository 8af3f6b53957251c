package leasing_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

func newHolder(t *testing.T, c *leasing.Client, cfg leasing.HolderConfig) *leasing.Holder {
	t.Helper()
	if cfg.Duration == 0 {
		cfg.Duration = minute
	}
	cfg.Queues, cfg.Workflows = []string{"w"}, []string{"w"}
	h, err := c.NewHolder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close(context.Background()) })
	return h
}

// watch runs the holder's watches until the test ends.
func watch(t *testing.T, h *leasing.Holder, evicted func(*execution.LostError)) (renew chan struct{}) {
	t.Helper()
	if evicted == nil {
		evicted = func(*execution.LostError) {}
	}
	renew = make(chan struct{}, 16)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Watch(ctx, func(time.Time) {}, evicted, func() {
			select {
			case renew <- struct{}{}:
			default:
			}
		})
	}()
	t.Cleanup(func() { cancel(); <-done })
	return renew
}

func claimAll(t *testing.T, h *leasing.Holder, n int) map[execution.ID]execution.Delivery {
	t.Helper()
	got := map[execution.ID]execution.Delivery{}
	eventually(t, func() bool {
		ds, _, err := h.Claim(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			got[d.ID] = d
		}
		return len(got) == n
	})
	return got
}

// A holder whose etcd lease ends keeps what nobody has taken, under the same
// tokens, and learns what it has lost.
func TestHolderRenewsOntoANewEtcdLease(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	const n = 40 // more than one batch
	for i := range n {
		w.admit(execution.ID(fmt.Sprintf("x%02d", i)))
	}
	h := newHolder(t, w.Client, leasing.HolderConfig{})
	held := claimAll(t, h, n)
	renew := watch(t, h, nil)
	w.expire("x00")
	<-renew
	taken := claimOn(t, w.peer(time.Millisecond), "x07")
	_, lost, err := h.KeepAlive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, l := range lost {
		found = found || l.ID == "x07" && l.Carried == held["x07"].Token && l.Current == taken.Token
	}
	if !found {
		t.Fatalf("lost: %v", lost)
	}
	kept := 0
	for id, d := range held {
		rec := w.get(id)
		if rec.Token == d.Token && rec.Status == execution.StatusRunning {
			kept++
			if err := h.Acknowledge(t.Context(), d.Lease, completed(`1`)); err != nil {
				t.Errorf("acknowledge %q: %v", string(id), err)
			}
		}
	}
	if kept != n-len(lost) {
		t.Fatalf("kept %d of %d, lost %d", kept, n, len(lost))
	}
}

func TestHolderIsToldOfEvictions(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	h := newHolder(t, w.Client, leasing.HolderConfig{})
	d := claimAll(t, h, 1)["x"]
	evicted := make(chan *execution.LostError, 1)
	watch(t, h, func(l *execution.LostError) { evicted <- l })
	if err := w.Cancel(t.Context(), "x", "stop"); err != nil {
		t.Fatal(err)
	}
	if l := <-evicted; l.ID != "x" || l.Carried != d.Token || !errors.Is(l, execution.ErrLost) {
		t.Fatalf("evicted: %v", l)
	}
	eventually(t, func() bool {
		span := w.space.AllEvicts()
		res, _, err := w.hook.Get(t.Context(), etcd.Get{Key: span.Start, End: span.End})
		return err == nil && len(res.KVs) == 0
	})
}

// An eviction whose deletion fails does not stay for ever.
func TestEvictionIsDeletedInTheEnd(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	h := newHolder(t, w.Client, leasing.HolderConfig{ScanInterval: 20 * time.Millisecond})
	claimAll(t, h, 1)
	span := w.space.AllEvicts()
	failed := make(chan struct{})
	w.hook.BeforeTxn = func(txn *etcd.Txn) error {
		d, is := txn.Then[0].(etcd.Delete)
		if !is || d.Key < span.Start || d.Key >= span.End {
			return nil
		}
		select {
		case <-failed:
			return nil
		default:
			close(failed)
			return context.DeadlineExceeded
		}
	}
	watch(t, h, nil)
	if err := w.Cancel(t.Context(), "x", "stop"); err != nil {
		t.Fatal(err)
	}
	<-failed
	eventually(t, func() bool {
		res, _, err := w.hook.Get(t.Context(), etcd.Get{Key: span.Start, End: span.End})
		return err == nil && len(res.KVs) == 0
	})
}

// A crashed process's claims are found by whoever watches, without a claim call.
func TestCrashedHolderIsReapedByWatch(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	w.claim("x")
	h := newHolder(t, w.peer(time.Millisecond), leasing.HolderConfig{ScanInterval: time.Hour})
	watch(t, h, nil)
	w.expire("x")
	eventually(t, func() bool { rec := w.get("x"); return !rec.NotBefore.IsZero() })
	if d := claimAll(t, h, 1)["x"]; !d.Takeover || d.UnacknowledgedDeliveries != 1 {
		t.Fatalf("%+v", d)
	}
}

// A restore from a backup rewrites the epoch: every lease from before is refused.
func TestRestoredNamespaceRefusesOlderLeases(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	h := newHolder(t, w.Client, leasing.HolderConfig{})
	d := claimAll(t, h, 1)["x"]
	if _, err := testetcd.Client(t).Put(t.Context(), w.space.Epoch(), "restored"); err != nil {
		t.Fatal(err)
	}
	if err := h.Acknowledge(t.Context(), d.Lease, completed(`1`)); !errors.Is(err, execution.ErrLost) {
		t.Fatalf("acknowledge: %v", err)
	}
	w.admit("y")
	eventually(t, func() bool { // the first claim finds out, and throws the process away
		ds, _, err := h.Claim(t.Context(), 1)
		return err == nil && len(ds) == 1 && ds[0].Epoch == "restored"
	})
}

func TestHolderConfigIsChecked(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	for name, cfg := range map[string]leasing.HolderConfig{
		"no duration":  {Queues: []string{"w"}, Workflows: []string{"w"}},
		"too long":     {Duration: 48 * time.Hour, Queues: []string{"w"}, Workflows: []string{"w"}},
		"no queues":    {Duration: minute, Workflows: []string{"w"}},
		"no workflows": {Duration: minute, Queues: []string{"w"}},
		"bad queue":    {Duration: minute, Queues: []string{""}, Workflows: []string{"w"}},
		"bad interval": {Duration: minute, Queues: []string{"w"}, Workflows: []string{"w"}, ScanInterval: -1},
	} {
		if _, err := w.NewHolder(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
