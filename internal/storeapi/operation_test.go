package storeapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast/internal/storeapi"
)

func TestCreateReadListDelete(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.expect(`{"ids":[]}`, "listStores", `{"storeName":"n"}`)
	s.refused(storeapi.StoreNotFound, "getStore", `{`+key+`}`)
	made := s.ok("createStore", `{%s,"state":{"n":1}}`, key)
	v := s.snapshot(made)
	if string(v.State) != `{"n":1}` || v.Version != 0 || strings.Trim(v.InstanceID, "0123456789abcdef-") != "" {
		t.Errorf("created: %s", made)
	}
	s.expect(made, "createStore", `{%s,"state":{"n":2}}`, key) // as it is
	s.expect(made, "getStore", `{%s}`, key)
	for _, id := range []string{"b/c", "b", "é", "B", "b%", "b c"} {
		s.ok("createStore", `{"storeName":"n","storeId":%q,"state":null}`, id)
	}
	s.ok("createStore", `{"storeName":"n/a","storeId":"x","state":null}`)
	s.expect(`{"ids":["B","a","b","b c","b%","b/c","é"]}`, "listStores", `{"storeName":"n"}`)
	for range 2 {
		s.expect(`{}`, "deleteStore", `{%s}`, key)
	}
	s.refused(storeapi.StoreNotFound, "getStore", `{`+key+`}`)
	if again := s.snapshot(s.ok("createStore", `{%s,"state":3}`, key)); again.InstanceID == v.InstanceID || again.Version != 0 {
		t.Errorf("created anew: %+v, was %+v", again, v)
	}
}

func TestCommit(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	at := s.version("a")
	v := s.snapshot(s.ok("getStore", `{%s}`, key))
	commit := `{` + key + `,"expected":%s,"nextState":%d,"changedPaths":[[]],"result":{"was":%d},%s}`
	s.expect(`{"found":false}`, "getReceipt", `{%s,%s}`, key, step)
	s.expect(`{"status":"committed"}`, "commit", commit, at, 1, 0, step)
	s.expect(`{"found":true,"result":{"was":0}}`, "getReceipt", `{%s,%s}`, key, step)
	now := fmt.Sprintf(`{"state":1,"instanceId":%q,"version":1}`, v.InstanceID)
	s.expect(now, "getStore", `{%s}`, key)

	// The receipt comes before all else: the version, the instance, the store itself.
	for _, expected := range []string{at, `{"instanceId":"","version":9}`, `{"instanceId":"other","version":0}`} {
		s.expect(`{"status":"already-applied","result":{"was":0}}`, "commit", commit, expected, 7, 7, step)
	}
	other := strings.Replace(step, `"s"`, `"t"`, 1)
	for _, expected := range []string{at, `{"instanceId":"other","version":1}`} {
		s.expect(`{"status":"conflict","snapshot":`+now+`}`, "commit", commit, expected, 7, 7, other)
	}
	s.expect(`{"found":false}`, "getReceipt", `{%s,%s}`, key, other)
	s.expect(`{}`, "deleteStore", `{%s}`, key)
	s.expect(`{"status":"already-applied","result":{"was":0}}`, "commit", commit, at, 7, 7, step)
	s.refused(storeapi.StoreNotFound, "commit", fmt.Sprintf(commit, at, 7, 7, other))
}

func TestCommitWithoutStep(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, none := range []string{``, `,"stepId":null`} {
		s.expect(`{"status":"committed"}`, "commit", `{%s,"expected":%s,"nextState":1,"changedPaths":[],"result":null%s}`, key, s.version("a"), none)
	}
	if v := s.snapshot(s.ok("getStore", `{%s}`, key)); v.Version != 2 {
		t.Errorf("version %d, want 2", v.Version)
	}
}

func TestDeleteFrom(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	remove := `{` + key + `,"expected":%s,%s}`
	s.expect(`{"deleted":false,"reason":"not-found","expectedInstanceId":"i","expectedVersion":3}`,
		"deleteStoreFrom", remove, `{"instanceId":"i","version":3}`, step)
	at := s.version("a")
	v := s.snapshot(s.ok("getStore", `{%s}`, key))
	for _, want := range []string{fmt.Sprintf(`"expectedInstanceId":%q,"expectedVersion":1`, v.InstanceID), `"expectedInstanceId":"<i>","expectedVersion":0`} {
		expected := strings.NewReplacer("expectedInstanceId", "instanceId", "expectedVersion", "version").Replace(want)
		s.expect(fmt.Sprintf(`{"deleted":false,"reason":"conflict",%s,"actualInstanceId":%q,"actualVersion":0}`, want, v.InstanceID),
			"deleteStoreFrom", remove, "{"+expected+"}", step)
	}
	s.expect(`{"found":false}`, "getReceipt", `{%s,%s}`, key, step)
	s.expect(`{"deleted":true}`, "deleteStoreFrom", remove, at, step)
	s.expect(`{"found":true,"result":{"deleted":true}}`, "getReceipt", `{%s,%s}`, key, step)
	again := s.version("a")
	for _, expected := range []string{at, again, `{"instanceId":"","version":0}`} {
		s.expect(`{"deleted":true}`, "deleteStoreFrom", remove, expected, step)
	}
	if now := s.version("a"); now != again {
		t.Errorf("the store is at %s, was at %s: a repeated deletion deleted another instance", now, again)
	}
	s.expect(`{"deleted":true}`, "deleteStoreFrom", `{%s,"expected":%s}`, key, again)
}

func TestWakesArePulled(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	at := s.version("a")
	v := s.snapshot(s.ok("getStore", `{%s}`, key))
	register := func(step, paths string, since int64) string {
		return s.ok("registerWaiter", `{%s,"workflowId":"w","executionId":"e","stepKey":%q,"event":{ "for": %q },"instanceId":%q,"sinceVersion":%d,"readPaths":%s}`,
			key, step, step, v.InstanceID, since, paths)
	}
	commit := func(paths string) {
		s.expect(`{"status":"committed"}`, "commit", `{%s,"expected":%s,"nextState":1,"changedPaths":%s,"result":0}`, key, at, paths)
		at = s.version("a")
	}
	pulled := func(want ...string) []wake {
		t.Helper()
		wakes := s.pending()
		var got []string
		for _, w := range wakes {
			got = append(got, string(w.Event))
		}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Fatalf("pending: %q, want %q", got, want)
		}
		return wakes
	}
	if got := register("hit", `[["a",0]]`, 0); got != `{"stale":false}` {
		t.Errorf("registered: %s", got)
	}
	register("missed", `[["a",1],["b"]]`, 0)
	register("never", `[]`, 0)
	commit(`[["c"]]`)
	pulled()
	commit(`[["a",0,"x"]]`)
	first := pulled(`{ "for": "hit" }`)
	register("hit", `[["a"]]`, 2)
	commit(`[["a"]]`)
	both := s.pending()
	if len(both) != 3 { // hit twice, and missed
		t.Fatalf("pending: %v", both)
	}
	for _, w := range both {
		if w.ID != first[0].ID {
			s.expect(`{}`, "ackWake", `{"wakeId":%q}`, w.ID)
		}
	}
	register("hit", `[["a"]]`, 3)
	for range 2 {
		s.expect(`{}`, "ackWake", `{"wakeId":%q}`, first[0].ID)
	}
	s.expect(`{}`, "ackWake", `{"wakeId":"nobody knows it"}`)
	pulled()
	commit(`[["a"]]`) // the acknowledgement has left the newer registration
	pulled(`{ "for": "hit" }`)
	s.expect(`{}`, "deleteStore", `{%s}`, key)
	pulled()
}

// A waiter that is late is woken at once, and not kept.
func TestStaleWaiters(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ok("commit", `{%s,"expected":%s,"nextState":1,"changedPaths":[],"result":0}`, key, s.version("a"))
	v := s.snapshot(s.ok("getStore", `{%s}`, key))
	for name, w := range map[string]struct {
		id, instance string
		since        int64
	}{
		"older version":    {"a", v.InstanceID, 0},
		"another instance": {"a", "other", 1},
		"no such store":    {"b", v.InstanceID, 1},
	} {
		s.expect(`{"stale":true}`, "registerWaiter",
			`{"storeName":"n","storeId":%q,"workflowId":"w","executionId":"e","stepKey":%q,"event":%q,"instanceId":%q,"sinceVersion":%d,"readPaths":[["x"]]}`,
			w.id, name, name, w.instance, w.since)
		wakes := s.pending()
		if len(wakes) != 1 || string(wakes[0].Event) != fmt.Sprintf("%q", name) {
			t.Fatalf("%s: pending: %v", name, wakes)
		}
		s.ok("ackWake", `{"wakeId":%q}`, wakes[0].ID)
	}
	s.ok("commit", `{%s,"expected":%s,"nextState":2,"changedPaths":[[]],"result":0}`, key, s.version("a"))
	s.expect(`{"wakes":[]}`, "pendingWakes", `{}`)
}

func TestDropNamespace(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.ok("dropNamespace", `{}`)
	at := s.version("a")
	s.ok("commit", `{%s,"expected":%s,"nextState":1,"changedPaths":[],"result":0,%s}`, key, at, step)
	s.ok("registerWaiter", `{%s}`, waiter)
	if status, answer := s.post("another", "createStore", `{`+key+`,"state":5}`); status != 200 {
		t.Fatal(answer)
	}
	other := s.dump("another")
	s.expect(`{}`, "dropNamespace", `{}`)
	if left := s.dump(namespace); left != "" {
		t.Errorf("it left\n%s", left)
	}
	if s.dump("another") != other {
		t.Error("it changed another namespace")
	}
	s.expect(`{"ids":[]}`, "listStores", `{"storeName":"n"}`)
	s.expect(`{"wakes":[]}`, "pendingWakes", `{}`)
	s.expect(`{"found":false}`, "getReceipt", `{%s,%s}`, key, step)
}

// Reading a namespace that nobody has written to writes nothing.
func TestUnknownNamespaceIsEmpty(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, ns := range []string{"unknown", "a/b", "ü 100%", "..", "v1"} {
		for op, want := range map[string]struct{ body, answer string }{
			"listStores":      {`{"storeName":"n"}`, `{"ids":[]}`},
			"getReceipt":      {`{` + key + `,` + step + `}`, `{"found":false}`},
			"pendingWakes":    {`{}`, `{"wakes":[]}`},
			"deleteStore":     {`{` + key + `}`, `{}`},
			"dropNamespace":   {`{}`, `{}`},
			"deleteStoreFrom": {`{` + key + `,` + expected(`"i"`, "0") + `}`, `{"deleted":false,"reason":"not-found","expectedInstanceId":"i","expectedVersion":0}`},
		} {
			if status, got := s.post(ns, op, want.body); status != 200 || got != want.answer {
				t.Errorf("%s in %q: status %d, %s", op, ns, status, got)
			}
		}
		status, answer := s.post(ns, "getStore", `{`+key+`}`)
		s.isFault(storeapi.StoreNotFound, status, answer)
	}
	if left := s.everything(); left != 0 {
		t.Errorf("%d keys were written", left)
	}
}

// More namespaces than are kept open are as good as few.
func TestManyNamespaces(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for range 2 {
		for i := range storeapi.MaxNamespaces + 3 {
			ns := fmt.Sprint("ns-", i)
			want := fmt.Sprintf(`{"state":%d,`, i)
			if status, got := s.post(ns, "createStore", fmt.Sprintf(`{%s,"state":%d}`, key, i)); status != 200 || !strings.HasPrefix(got, want) {
				t.Errorf("%s: status %d, %s", ns, status, got)
			}
		}
	}
}

// Two callers race on one store: each increment is applied once, and no version is
// left out.
func TestRace(t *testing.T) {
	t.Parallel()
	const callers, each = 2, 100
	s := newScene(t)
	s.version("a")
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				s.increment(fmt.Sprintf("%d-%d", c, i))
			}
		})
	}
	wg.Wait()
	v := s.snapshot(s.ok("getStore", `{%s}`, key))
	if string(v.State) != fmt.Sprint(callers*each) || v.Version != callers*each {
		t.Errorf("state %s at version %d, want %d at %[3]d", v.State, v.Version, callers*each)
	}
	seen := map[string]bool{}
	for c := range callers {
		for i := range each {
			seen[s.ok("getReceipt", `{%s,"stepId":{"executionId":"e","stepKey":"%d-%d"}}`, key, c, i)] = true
		}
	}
	if len(seen) != callers*each || seen[`{"found":false}`] {
		t.Errorf("%d different receipts, want %d", len(seen), callers*each)
	}
}

// increment adds 1 to the store as another runtime does: read, commit, and again on a
// conflict.
func (s *scene) increment(stepKey string) {
	v := s.snapshot(s.ok("getStore", `{%s}`, key))
	for {
		n := v.Version + 1
		answer := s.ok("commit", `{%s,"expected":{"instanceId":%q,"version":%d},"nextState":%d,"changedPaths":[[]],"result":%d,"stepId":{"executionId":"e","stepKey":%q}}`,
			key, v.InstanceID, v.Version, n, n, stepKey)
		if answer == `{"status":"committed"}` {
			return
		}
		var a struct {
			Status   string
			Snapshot snapshot
		}
		if err := json.Unmarshal([]byte(answer), &a); err != nil || a.Status != "conflict" {
			s.t.Errorf("step %s: %s, %v", stepKey, answer, err)
			return
		}
		v = a.Snapshot
	}
}

// Waiters whose events fit together into no request to etcd are all woken.
func TestLargeEvents(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	v := s.snapshot(s.ok("createStore", `{%s,"state":0}`, key))
	for i, size := range []int{512<<10 - 3, 1<<20 - 2, 512<<10 - 3, 1<<20 - 2, 1} {
		s.ok("registerWaiter", `{%s,"workflowId":"w","executionId":"e%d","stepKey":"s","event":"%s","instanceId":%q,"sinceVersion":0,"readPaths":[[]]}`,
			key, i, strings.Repeat("x", size), v.InstanceID)
	}
	s.ok("commit", `{%s,"expected":%s,"nextState":1,"changedPaths":[[]],"result":0}`, key, s.version("a"))
	if got := len(s.pending()); got != 5 {
		t.Errorf("%d wakes are pending, want 5", got)
	}
}

// The deletion of a store that does not exist does nothing: wakes that are pending because
// it did not exist stay.
func TestWakesOfAStoreThatDoesNotExist(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.expect(`{"stale":true}`, "registerWaiter", `{%s}`, waiter)
	s.expect(`{}`, "deleteStore", `{%s}`, key)
	if n := len(s.pending()); n != 1 {
		t.Errorf("%d wakes are pending, want 1", n)
	}
	s.version("a")
	s.expect(`{}`, "deleteStore", `{%s}`, key)
	if n := len(s.pending()); n != 0 {
		t.Errorf("%d wakes are pending after the store's deletion, want none", n)
	}
}
