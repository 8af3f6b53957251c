package memetcd_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/memetcd"
)

// A log is a gate that notes what passes.
type log struct {
	mu    sync.Mutex
	lines []string
}

func (l *log) gate(_ context.Context, call memetcd.Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(call.Phase)+" "+call.String())
	return nil
}

func TestGateSeesEveryCallTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t)
		var l log
		c := s.Client("node", l.gate)
		id := grant(t, c, time.Minute)
		long := strings.Repeat("x", 100)
		for _, txn := range []*etcd.Txn{
			{Then: []etcd.Op{etcd.Put{Key: "a", Value: []byte("1"), Lease: id}, etcd.Put{Key: "b", Value: []byte(long)}}},
			{
				If:   []etcd.Compare{etcd.Absent("a"), {Key: "a", Target: etcd.ModRevision, Revision: 7, Not: true}, etcd.ValueIs("b", long), etcd.RangeEmpty("a", "z")},
				Then: []etcd.Op{etcd.Delete{Key: "a"}, etcd.Delete{Key: "a", End: "z"}},
				Else: []etcd.Op{&etcd.Txn{Then: []etcd.Op{etcd.Get{Key: "a"}}}, etcd.Get{Key: "a", End: "z", Limit: 1, Revision: 2, KeysOnly: true}},
			},
		} {
			if _, err := c.Txn(t.Context(), txn); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, err := c.Get(t.Context(), etcd.Get{Key: "b"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.KeepAlive(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		_, _ = c.KeepAlive(t.Context(), 7)
		ctx, cancel := context.WithCancel(t.Context())
		<-c.Watch(ctx, "a", "b", 2)
		cancel()
		if err := c.Revoke(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		want := []string{
			`before node grant(1m0s)`,
			`after node grant(1m0s): etcd lease 1`,
			`before node txn{then put("a", "1", etcd lease 1), put("b", 100 bytes)}`,
			`after node txn{then put("a", "1", etcd lease 1), put("b", 100 bytes)}: succeeded at 2`,
			`before node txn{if created("a")=0 and mod("a")!=7 and value("b")=100 bytes and created("a", "z")=0 then delete("a"), delete("a", "z") else txn{then get("a")}, keys("a", "z") limit 1 at 2}`,
			`after node txn{if created("a")=0 and mod("a")!=7 and value("b")=100 bytes and created("a", "z")=0 then delete("a"), delete("a", "z") else txn{then get("a")}, keys("a", "z") limit 1 at 2}: ` +
				`refused at 2; 0: succeeded at 2; 0: ["a"="1" created 2 modified 2 etcd lease 1]; 1: ["a"="" created 2 modified 2 and more]`,
			`before node get("b")`,
			`after node get("b"): ["b"=100 bytes created 2 modified 2] at 2`,
			`before node keepalive(1)`,
			`after node keepalive(1): done`,
			`before node keepalive(7)`,
			`after node keepalive(7): etcd lease not found: 7`,
			`before node watch("a", "b") from 2`,
			`after node watch("a", "b") from 2: [+"a"="1" created 2 modified 2 etcd lease 1]`,
			`before node revoke(1)`,
			`after node revoke(1): done`,
		}
		if !slices.Equal(l.lines, want) {
			t.Errorf("the gate saw\n%s\nwant\n%s", strings.Join(l.lines, "\n"), strings.Join(want, "\n"))
		}
	})
}

// at is a gate that does something in one phase of one operation.
func at(o memetcd.Operation, p memetcd.Phase, do func(context.Context, memetcd.Call) error) memetcd.Gate {
	return func(ctx context.Context, call memetcd.Call) error {
		if call.Operation != o || call.Phase != p {
			return nil
		}
		return do(ctx, call)
	}
}

func refuse(context.Context, memetcd.Call) error { return context.DeadlineExceeded }

func TestGateRefusesACallOrDropsItsAnswer(t *testing.T) {
	for phase, want := range map[memetcd.Phase][]string{memetcd.Before: {}, memetcd.After: {"k"}} {
		s, _ := open(t)
		c := s.Client("node", at(memetcd.Txn, phase, refuse))
		result, err := c.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: "k"}}})
		if !errors.Is(err, context.DeadlineExceeded) || result != nil {
			t.Errorf("%s: got %+v, %v", phase, result, err)
		}
		wantKeys(t, s, want...)
	}
}

// A caller gives up; its call arrives all the same.
func TestACallOutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t)
		release, gone := make(chan struct{}), false
		c := s.Client("node", at(memetcd.Txn, memetcd.Before, func(_ context.Context, call memetcd.Call) error {
			<-call.Gone
			gone = true
			<-release
			return nil
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Txn(ctx, &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: "k"}}})
		if !errors.Is(err, context.DeadlineExceeded) || etcd.IsDefinite(err) {
			t.Fatalf("got %v", err)
		}
		wantKeys(t, s)
		close(release)
		synctest.Wait()
		wantKeys(t, s, "k")
		if !gone {
			t.Error("the gate was not told that the caller is gone")
		}
	})
}

func TestCloseEndsCallsInTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t)
		c := s.Client("node", func(ctx context.Context, _ memetcd.Call) error {
			<-ctx.Done()
			return nil
		})
		failed := make(chan error)
		go func() {
			_, err := c.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: "k"}}})
			failed <- err
		}()
		synctest.Wait()
		s.Close()
		if err := <-failed; err == nil || etcd.IsDefinite(err) {
			t.Errorf("got %v, want an error that is not definite", err)
		}
		wantKeys(t, s)
	})
}

func TestGateBreaksAWatch(t *testing.T) {
	for _, phase := range []memetcd.Phase{memetcd.Before, memetcd.After} {
		s, free := open(t)
		c := s.Client("node", at(memetcd.Watch, phase, refuse))
		watch := c.Watch(t.Context(), "k", "", 1)
		put(t, free, "k")
		if b := <-watch; !errors.Is(b.Err, context.DeadlineExceeded) || len(b.Events) != 0 {
			t.Errorf("%s: got %+v", phase, b)
		}
		wantEnd(t, watch)
	}
}

// Each client has a gate of its own.
func TestGatesOrderTwoClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t)
		turn := map[string]chan struct{}{"a": make(chan struct{}), "b": make(chan struct{})}
		park := at(memetcd.Txn, memetcd.Before, func(_ context.Context, call memetcd.Call) error {
			<-turn[call.Client]
			return nil
		})
		var wg sync.WaitGroup
		won := map[string]bool{}
		var mu sync.Mutex
		for _, name := range []string{"a", "b"} {
			c := s.Client(name, park)
			wg.Go(func() {
				result, err := c.Txn(t.Context(), &etcd.Txn{If: []etcd.Compare{etcd.Absent("k")}, Then: []etcd.Op{etcd.Put{Key: "k"}}})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				won[name] = result.Succeeded
			})
		}
		synctest.Wait()
		close(turn["b"])
		synctest.Wait()
		close(turn["a"])
		wg.Wait()
		if won["a"] || !won["b"] {
			t.Errorf("succeeded: %v, want b alone", won)
		}
	})
}
