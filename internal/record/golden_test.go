package record_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

var update = flag.Bool("update", false, "rewrite the goldens in testdata")

// modified is the mod-revision at which the tests find their records.
const modified = 42

// A kind is one kind of record: how it is read and written again.
type kind struct {
	decode func(value []byte) (any, error)
	encode func(decoded any) []byte
}

// instance is that of the tests' store.
const instance = "5e0c4a3a9d1b4d6f8a7be0c2d1f3a596"

// digest is that of an event's payload.
const digest = "9f86d081884c7d659a2feaa0c55ad015"

// An entry is a due entry with its state.
type entry struct {
	due   *record.Due
	state *record.State
}

type encoder interface{ Encode() []byte }

func plain[T encoder](decode func([]byte) (T, error)) kind {
	return kind{
		decode: func(value []byte) (any, error) { return decode(value) },
		encode: func(decoded any) []byte { return decoded.(encoder).Encode() },
	}
}

var kinds = map[string]kind{
	"spec":  plain(record.DecodeSpec),
	"state": plain(record.DecodeState),
	"live":  plain(func(v []byte) (*record.Live, error) { return record.DecodeLive(v, modified) }),
	"proc":  plain(record.DecodeProc),
	"wake":  plain(record.DecodeWake),
	"evict": plain(record.DecodeEvict),
	"step":  plain(record.DecodeStep),

	"store":   plain(record.DecodeStore),
	"receipt": plain(record.DecodeReceipt),
	"waiter":  plain(record.DecodeWaiter),
	"change":  plain(record.DecodeChange),
	"owed":    plain(record.DecodeOwed),
	"purging": plain(record.DecodePurging),
	"params":  plain(record.DecodeParams),
	"start":   plain(record.DecodeStart),
	"event":   plain(record.DecodeEvent),
	"applied": plain(record.DecodeApplied),

	"due": {
		decode: func(v []byte) (any, error) {
			d, s, err := record.DecodeDue(v, modified)
			return entry{d, s}, err
		},
		encode: func(decoded any) []byte { return decoded.(entry).due.Encode(decoded.(entry).state) },
	},
}

func admitted() *record.State {
	return &record.State{
		V: 1, Workflow: "charge-order", Queue: "shop/eu", Base: execution.StatusAdmitted,
		Due: 1_785_587_415_123, Nonce: "K7QX2M4A9ZD5T3WB",
	}
}

func timed() *record.State {
	s := admitted()
	s.Deadline = s.Due + 60_000
	return s
}

func claimed() *record.State {
	s := admitted()
	s.Claimed, s.Base, s.Unacked, s.NotBefore = true, execution.StatusSuspended, 1, 1_785_587_416_123
	s.Incarnation, s.Run, s.Claims, s.Nonce = 7, 1, 3, "CLAIM3"
	s.Deliveries = []record.Delivery{
		{
			Token: 12, Holder: "worker-1 <eu>", Proc: "P1", Claimed: 1_785_587_400_000, Ended: 1_785_587_401_000,
			How: execution.HowSuspended, Nonce: "CLAIM1", EndNonce: "ACK1",
		},
		{
			Token: 20, Holder: "worker-1 <eu>", Proc: "P1", Claimed: 1_785_587_410_000, Ended: 1_785_587_415_123,
			How: execution.HowReleased, Why: "card service: \"unavailable\"", Nonce: "CLAIM2", EndNonce: "RELEASE2",
		},
		{Holder: "wörker-2", Proc: "P2", Claimed: 1_785_587_420_000, How: execution.HowRunning, Nonce: "CLAIM3"},
	}
	return s
}

func terminal(kind execution.OutcomeKind) *record.State {
	s := claimed()
	s.Claimed, s.Unacked, s.Due, s.NotBefore, s.Nonce = false, 0, 0, 0, "ACK3"
	s.Base, s.Outcome, s.Ended = execution.Status(kind), kind, 1_785_587_421_000
	last := s.Last()
	last.Token, last.Ended, last.How, last.EndNonce = 30, 1_785_587_421_000, execution.How(kind), "ACK3"
	return s
}

func completed() *record.State {
	s := terminal(execution.Completed)
	s.Result = []byte(`{"receipt": "r-42",` + "\n" + ` "cents": 12345678901234567890, "a": 1}`)
	return s
}

func failed() *record.State {
	s := terminal(execution.Failed)
	s.Error = &execution.Error{Message: "card <declined>", Code: "declined", Stack: "goroutine 1\n\tmain.go:7"}
	return s
}

// The goldens: each file of testdata begins with its kind of record.
var goldens = map[string]any{
	"spec": &record.Spec{
		V: 1, Workflow: "charge-order", Queue: "shop/eu", Admitted: 1_785_587_415_123, Nonce: "K7QX2M4A9ZD5T3WB",
		Params: json.RawMessage("{\"id\": \"注文\",\n \"cents\": 1.50}\n"),
	},
	"spec-empty-params": &record.Spec{V: 1, Workflow: "w", Queue: "q", Admitted: 1, Nonce: "n", Params: json.RawMessage{}},
	"spec-no-params":    &record.Spec{V: 1, Workflow: "w", Queue: "q", Admitted: 1, Nonce: "n"},
	"state-admitted":    admitted(),
	"state-claimed":     claimed(),
	"state-deadline":    timed(),
	"state-completed":   completed(),
	"state-failed":      failed(),
	"live":              &record.Live{V: 1, Token: 30, Proc: "P2", Holder: "wörker-2"},
	"live-reaped": &record.Live{
		V: 1, Token: 30, Proc: "P2", Holder: "wörker-2", Reaped: 1_785_587_425_000, Expired: 1_785_587_424_000,
	},
	"due": entry{
		&record.Due{V: 1, StateRevision: 12},
		&record.State{V: 1, Workflow: "w", Queue: "q", Base: execution.StatusAdmitted, Due: 1, Incarnation: 12, Nonce: "n"},
	},
	"due-reaped":  entry{&record.Due{V: 1, StateRevision: 30, LiveRevision: 31, Expired: 1_785_587_424_000}, claimed()},
	"proc":        &record.Proc{V: 1, Holder: "wörker-2", Started: 1_785_587_400_000, TTL: 30},
	"proc-single": &record.Proc{V: 1, Holder: "wörker-2", Started: 1_785_587_400_000, TTL: 2, Single: true},
	"wake":        &record.Wake{V: 1, At: 1_785_587_430_000},
	"evict":       &record.Evict{V: 1, Token: 30},
	"evict-why":   &record.Evict{V: 1, Token: 30, Why: "cancelled: the customer changed their mind"},
	"step": &record.Step{
		V: 1, Done: true, Token: 30, Written: 1_785_587_420_500, Response: json.RawMessage(`{"z": 1, "a": 12345678901234567890}`),
	},
	"step-attempt": &record.Step{V: 1, Token: 30, Written: 1_785_587_420_500, Response: json.RawMessage(`null`)},
	"step-waits": &record.Step{
		V: 1, Token: 30, Written: 1_785_587_420_500, Waiter: &execution.StoreID{Name: "stock", ID: "a/b"}, Response: json.RawMessage(`{}`),
	},
	"store": &record.Store{
		V: 1, Instance: instance, Version: 12, Created: 1_785_587_400_000, Updated: 1_785_587_420_500, Recent: []string{"CALL11", "CALL12"},
		State: json.RawMessage("{\"left\": 12345678901234567890,\n \"a\": \"注文\"}"),
	},
	"store-new": &record.Store{
		V: 1, Instance: instance, Created: 1_785_587_400_000, Updated: 1_785_587_400_000, Recent: []string{"CALL0"}, State: json.RawMessage(`null`),
	},
	"receipt": &record.Receipt{
		V: 1, Kind: "update", Instance: instance, Version: 12, Written: 1_785_587_420_500,
		Result: json.RawMessage(`{"state":{"z": 1, "a": 1.50},"previousVersion":11,"version":12}`),
	},
	"waiter": &record.Waiter{
		V: 1, Instance: instance, Since: 11, Paths: json.RawMessage(`[["messages",0],["sta\u003ctus"]]`), Registered: 1_785_587_410_000,
	},
	"waiter-pulled": &record.Waiter{
		V: 1, Instance: instance, Paths: json.RawMessage(`[[]]`), Registered: 1_785_587_410_000, Pulled: true, Workflow: "charge-order",
		Event: json.RawMessage("{\"kind\": \"store\",\n \"n\": 1e400}"),
	},
	"change": &record.Change{V: 1, Instance: instance, Version: 12, Paths: json.RawMessage(`[["messages",0],["messages","length"]]`)},
	"owed": &record.Owed{
		V: 1, Instance: instance, Execution: "order/42", Incarnation: 7, Run: 1, Step: "wait for stock", Since: 11, Workflow: "charge-order",
	},
	"owed-pulled": &record.Owed{V: 1, Instance: instance, Execution: "py-1", Step: "0", Event: json.RawMessage(`{"kind": "store"}`)},
	"purging":     &record.Purging{V: 1, Started: 1_785_587_500_000, Incarnation: 7},
	"params": &record.Params{
		V: 1, Written: 1_785_587_421_000, Params: json.RawMessage("{\"page\": 2,\n \"seen\": 12345678901234567890}"),
	},
	"start": &record.Start{
		V: 1, Target: "order/42/parcel", Workflow: "ship-parcel", ParamsPresent: true, Written: 1_785_587_420_500,
		Params: json.RawMessage(`{"a":12345678901234567890,"z":"注文"}`),
	},
	"start-no-params": &record.Start{V: 1, Target: "k7qx2m4a9zd5t3wb", Workflow: "w", Written: 1},
	"event": &record.Event{
		V: 1, Sent: 1_785_587_420_500, Digest: digest, Nonce: "K7QX2M4A9ZD5T3WB", Payload: json.RawMessage(`{"by":"注文","n":12345678901234567890}`),
	},
	"applied":       &record.Applied{V: 1, Digest: digest, Run: 1, Step: "approved", Token: 30, Written: 1_785_587_421_000},
	"change-ending": record.Ending(1_042),
	"waiter-ending": record.AwaitEnding(1_042, 1_785_587_410_000, "ship-order"),

	// Two that a transaction wrote which could not know its own revision.
	"live-own": &record.Live{V: 1, Token: record.Own, Proc: "P2", Holder: "wörker-2"},
	"due-own":  entry{&record.Due{V: 1, StateRevision: record.Own}, admitted()},
}

// resolved is what reading a golden gives where that differs from what was
// written: revisions that were its own are numbers.
var resolved = map[string]any{
	"live-own": &record.Live{V: 1, Token: modified, Proc: "P2", Holder: "wörker-2"},
	"due-own": func() any {
		s := admitted()
		s.Incarnation = modified
		return entry{&record.Due{V: 1, StateRevision: modified}, s}
	}(),
}

// TestGoldens fails where the format changed. It is frozen: every release must
// read what the earlier ones wrote.
func TestGoldens(t *testing.T) {
	t.Parallel()
	for name, written := range goldens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kindOf(t, name)
			file := filepath.Join("testdata", name+".golden")
			got := k.encode(written)
			if *update {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			golden := read(t, file)
			if string(got) != string(golden) {
				t.Errorf("encoded\n got %s\nwant %s", got, golden)
			}
			want, ok := resolved[name]
			if !ok {
				want = written
			}
			decoded, err := k.decode(golden)
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := decoded.(entry); ok {
				e.due.State = nil // the bytes that the state was read from
			}
			if !reflect.DeepEqual(decoded, want) {
				t.Errorf("decoded\n got %s\nwant %s", k.encode(decoded), k.encode(want))
			}
		})
	}
}

// TestGoldensAreUsed fails for a file that no test reads.
func TestGoldensAreUsed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.golden"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no goldens in testdata: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if _, ok := goldens[name[:len(name)-len(".golden")]]; !ok {
			t.Errorf("%s belongs to no case", file)
		}
	}
}

func kindOf(tb testing.TB, name string) kind {
	tb.Helper()
	for prefix, k := range kinds {
		if name == prefix || len(name) > len(prefix) && name[:len(prefix)+1] == prefix+"-" {
			return k
		}
	}
	tb.Fatalf("golden %q begins with no kind of record", name)
	return kind{}
}

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}
