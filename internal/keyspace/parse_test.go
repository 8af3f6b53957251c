package keyspace_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/keyspace"
)

func TestParseReads(t *testing.T) {
	t.Parallel()
	s := space(t, "/holdfast", "n")
	at := time.UnixMilli(1_785_587_415_123).UTC()
	due := keyspace.Due{Queue: "q/1", Priority: 5, At: at, ID: "a/b"}
	step := keyspace.Step{ID: "a/b", Incarnation: 7, Run: 2, Key: "charge", Attempt: 3}
	store := keyspace.StoreKey{Name: "s/1", ID: emoji}
	call := keyspace.CallKey{ID: "a/b", Incarnation: 7, Run: 2, Step: "take/one"}
	event := keyspace.EventKey{ID: "a/b", Incarnation: 7, Name: "approved/1", Event: "%"}
	type key = keyspace.Key
	for name, c := range map[string]struct {
		key  string
		want keyspace.Key
	}{
		"epoch": {s.Epoch(), keyspace.Key{Kind: keyspace.KindEpoch}},
		"proc":  {s.Proc("p"), keyspace.Key{Kind: keyspace.KindProc, Proc: "p"}},
		"spec":  {s.Spec("a/b"), keyspace.Key{Kind: keyspace.KindSpec, ID: "a/b"}},
		"state": {s.State("a/b"), keyspace.Key{Kind: keyspace.KindState, ID: "a/b"}},
		"live":  {s.Live(emoji), keyspace.Key{Kind: keyspace.KindLive, ID: emoji}},
		"wake":  {s.Wake("../x"), keyspace.Key{Kind: keyspace.KindWake, ID: "../x"}},
		"evict": {s.Evict("p", "%2F"), keyspace.Key{Kind: keyspace.KindEvict, Proc: "p", ID: "%2F"}},
		"done":  {s.Done(at, "a"), keyspace.Key{Kind: keyspace.KindDone, At: at, ID: "a"}},
		"due":   {s.Due(due), keyspace.Key{Kind: keyspace.KindDue, ID: "a/b", Due: due}},
		"step":  {s.Step(step), keyspace.Key{Kind: keyspace.KindStep, ID: "a/b", Step: step}},

		"store":   {s.Store(store), key{Kind: keyspace.KindStore, Store: store}},
		"receipt": {s.Receipt(call, store), key{Kind: keyspace.KindReceipt, ID: "a/b", Call: call, Store: store}},
		"waiter":  {s.Waiter(store, call), key{Kind: keyspace.KindWaiter, ID: "a/b", Call: call, Store: store}},
		"change":  {s.Change(store, 12), key{Kind: keyspace.KindChange, Store: store, Version: 12}},
		"owed":    {s.Owed(store, "%"), key{Kind: keyspace.KindOwed, Store: store, Wake: "%"}},
		"pulled":  {s.Pulled(store, "w"), key{Kind: keyspace.KindPulled, Store: store, Wake: "w"}},
		"purging": {s.Purging("a/b"), key{Kind: keyspace.KindPurging, ID: "a/b"}},
		"start":   {s.Start(call), key{Kind: keyspace.KindStart, ID: "a/b", Call: call}},
		"event":   {s.Event(event), key{Kind: keyspace.KindEvent, ID: "a/b", Event: event}},
		"applied": {s.Applied(event), key{Kind: keyspace.KindApplied, ID: "a/b", Event: event}},
		"params":  {s.Params("a/b", 7, 2), key{Kind: keyspace.KindParams, ID: "a/b", Call: keyspace.CallKey{ID: "a/b", Incarnation: 7, Run: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := s.Parse(c.key)
			if err != nil || got != c.want {
				t.Errorf("Parse(%q)\n got %+v, %v\nwant %+v", c.key, got, err, c.want)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	s := space(t, "/holdfast", "n")
	const root = "/holdfast/v1/n/"
	refuses(t, s, map[string]string{
		"empty":                         "",
		"another namespace":             "/holdfast/v1/n2/epoch",
		"another version":               "/holdfast/v2/n/epoch",
		"the root alone":                root,
		"unknown kind":                  root + "other/a",
		"kind with another case":        root + "State/a",
		"too few segments":              root + "state",
		"too many segments":             root + "state/a/b",
		"epoch with a segment":          root + "epoch/",
		"empty id":                      root + "state/",
		"empty proc":                    root + "proc/",
		"empty proc of an eviction":     root + "evict//a",
		"unescaped control byte":        root + "state/a\nb",
		"unescaped delete":              root + "state/a\x7f",
		"lower-case escape":             root + "state/a%2fb",
		"needless escape":               root + "state/%41",
		"escape cut off":                root + "state/a%2",
		"escape of nothing":             root + "state/a%",
		"escape that is no number":      root + "state/a%G0",
		"escape with a sign":            root + "state/a%+F",
		"escaped NUL":                   root + "state/a%00",
		"not UTF-8":                     root + "state/a\xff",
		"escaped byte that is no UTF-8": root + "state/%FF",
		"done, time too short":          root + "done/01785587415123/a",
		"done, time too long":           root + "done/0001785587415123/a",
		"done, time with a sign":        root + "done/+01785587415123/a",
		"done, negative time":           root + "done/-01785587415123/a",
		"done, time with underscores":   root + "done/0017855874_5123/a",
		"done, time in hexadecimal":     root + "done/0x1785587415123/a",
		"done, time in other digits":    root + "done/00178558741512٣/a",
		"due, priority of two digits":   root + "due/q/10/0/001785587415123/a",
		"due, priority no digit":        root + "due/q/x/0/001785587415123/a",
		"due, empty priority":           root + "due/q//0/001785587415123/a",
		"due, empty queue":              root + "due//5/0/001785587415123/a",
		"due, empty id":                 root + "due/q/5/0/001785587415123/",
		"due, another id's shard":       root + "due/q/5/1/001785587415123/a",
		"due, shard in lower case":      root + "due/q/5/f/001785587415123/a%2Fb",
		"due, empty shard":              root + "due/q/5//001785587415123/a",
		"due, bad time":                 root + "due/q/5/0/now/a",
		"step, incarnation too great":   root + "step/a/9223372036854775808/0000000001/k/0000000001",
		"step, incarnation too short":   root + "step/a/7/0000000001/k/0000000001",
		"step, run too long":            root + "step/a/0000000000000000007/10000000000/k/0000000001",
		"step, attempt too short":       root + "step/a/0000000000000000007/0000000001/k/1",
		"step, attempt too long":        root + "step/a/0000000000000000007/0000000001/k/10000000000",
		"step, empty key":               root + "step/a/0000000000000000007/0000000001//0000000001",
		"step, empty id":                root + "step//0000000000000000007/0000000001/k/0000000001",
		"step, bad key":                 root + "step/a/0000000000000000007/0000000001/%/0000000001",
	})
}

func TestParseRefusesKeysOfRunsAndStores(t *testing.T) {
	t.Parallel()
	s := space(t, "/holdfast", "n")
	const root = "/holdfast/v1/n/"
	refuses(t, s, map[string]string{
		"params without a run":          root + "params/a/0000000000000000007",
		"params, run too short":         root + "params/a/0000000000000000007/1",
		"params, bad incarnation":       root + "params/a/7/0000000001",
		"params, empty id":              root + "params//0000000000000000007/0000000001",
		"store without an id":           root + "store/s",
		"store, empty name":             root + "store//a",
		"store, empty id":               root + "store/s/",
		"receipt, too few segments":     root + "receipt/a/0000000000000000007/0000000001/k/s",
		"receipt, too many segments":    root + "receipt/a/0000000000000000007/0000000001/k/s/i/x",
		"receipt, bad incarnation":      root + "receipt/a/7/0000000001/k/s/i",
		"receipt, bad run":              root + "receipt/a/0000000000000000007/1/k/s/i",
		"receipt, empty step":           root + "receipt/a/0000000000000000007/0000000001//s/i",
		"receipt, bad store id":         root + "receipt/a/0000000000000000007/0000000001/k/s/%",
		"waiter, bad store name":        root + "waiter/%/i/a/0000000000000000007/0000000001/k",
		"waiter, bad id":                root + "waiter/s/i/%/0000000000000000007/0000000001/k",
		"waiter, bad incarnation":       root + "waiter/s/i/a/9223372036854775808/0000000001/k",
		"waiter, empty step":            root + "waiter/s/i/a/0000000000000000007/0000000001/",
		"the outbox alone":              root + "outbox",
		"the outbox with nothing in it": root + "outbox/",
		"unknown kind in the outbox":    root + "outbox/other/s/i/x",
		"escaped kind in the outbox":    root + "outbox%2Fwake/s/i/x",
		"change without a version":      root + "outbox/change/s/i",
		"change, bad version":           root + "outbox/change/s/i/12",
		"change, negative version":      root + "outbox/change/s/i/-000000000000000012",
		"owed, empty wake":              root + "outbox/wake/s/i/",
		"owed, bad store":               root + "outbox/wake//i/w",
		"pulled, empty wake":            root + "pulled/s/i/",
		"pulled, too many segments":     root + "pulled/s/i/w/x",
		"purging, empty id":             root + "purging/",
		"start without a step":          root + "start/a/0000000000000000007/0000000001",
		"start, empty step":             root + "start/a/0000000000000000007/0000000001/",
		"start, too many segments":      root + "start/a/0000000000000000007/0000000001/k/0000000000",
		"start, bad incarnation":        root + "start/a/7/0000000001/k",
		"start, bad run":                root + "start/a/0000000000000000007/1/k",
		"start, bad id":                 root + "start/%/0000000000000000007/0000000001/k",
		"event without its own id":      root + "event/a/0000000000000000007/n",
		"event, empty id of its own":    root + "event/a/0000000000000000007/n/",
		"event, empty name":             root + "event/a/0000000000000000007//e",
		"event, too many segments":      root + "event/a/0000000000000000007/n/e/x",
		"event, bad incarnation":        root + "event/a/7/n/e",
		"event, bad id":                 root + "event/%/0000000000000000007/n/e",
		"applied, empty id":             root + "applied//0000000000000000007/n/e",
		"applied, bad id of its own":    root + "applied/a/0000000000000000007/n/%",
	})
}

// refuses demands that no key is parsed; they are named.
func refuses(t *testing.T, s keyspace.Space, keys map[string]string) {
	t.Helper()
	for name, key := range keys {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := s.Parse(key)
			if err == nil {
				t.Fatalf("Parse(%q) = %+v; want an error", key, k)
			}
			if k != (keyspace.Key{}) {
				t.Errorf("Parse(%q) returned %+v with its error", key, k)
			}
			if key != "" && !strings.Contains(err.Error(), "key ") {
				t.Errorf("the error does not name the key: %v", err)
			}
		})
	}
}
