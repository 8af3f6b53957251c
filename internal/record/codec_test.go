package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// forEachGolden runs the test with each golden's bytes.
func forEachGolden(t *testing.T, test func(t *testing.T, k kind, golden []byte)) {
	t.Helper()
	for name, written := range goldens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := kindOf(t, name)
			test(t, k, k.encode(written))
		})
	}
}

// splice puts fields at the end of the header's object.
func splice(golden []byte, fields string) []byte {
	line, body, found := bytes.Cut(golden, []byte("\n"))
	out := append(bytes.Clone(line[:len(line)-1]), ","+fields+"}"...)
	if found {
		out = append(append(out, '\n'), body...)
	}
	return out
}

func rewrite(t *testing.T, k kind, value []byte) []byte {
	t.Helper()
	decoded, err := k.decode(value)
	if err != nil {
		t.Fatalf("decode %s: %v", value, err)
	}
	return k.encode(decoded)
}

func TestNewerVersionIsRefused(t *testing.T) {
	t.Parallel()
	forEachGolden(t, func(t *testing.T, k kind, golden []byte) {
		newer := bytes.Replace(golden, []byte(`{"v":1,`), []byte(`{"v":2,`), 1)
		_, err := k.decode(newer)
		if !errors.Is(err, record.ErrNewer) {
			t.Fatalf("decode %s: %v, want ErrNewer", newer, err)
		}
		if !strings.Contains(err.Error(), "version 2") {
			t.Errorf("the error does not name the version: %v", err)
		}
	})
}

// The shape of a later version is unknown, so only its number is looked at.
func TestNewerVersionOfAnotherShapeIsRefused(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		_, err := k.decode([]byte(`{"v":9,"token":{"epoch":1},"base":7,"workflow":[],"at":"noon","state":3}`))
		if !errors.Is(err, record.ErrNewer) {
			t.Errorf("%s: %v, want ErrNewer", name, err)
		}
	}
	newer := `{"v":1,"stateRev":3,"state":{"v":2}}`
	if _, _, err := record.DecodeDue([]byte(newer), modified); !errors.Is(err, record.ErrNewer) {
		t.Errorf("due entry with a newer state: %v, want ErrNewer", err)
	}
}

func TestGarbageIsRefused(t *testing.T) {
	t.Parallel()
	random := make([]byte, 512)
	source := rand.NewChaCha8([32]byte{7})
	_, _ = source.Read(random) // never fails
	for name, value := range map[string][]byte{
		"nil":               nil,
		"empty":             {},
		"a line feed":       []byte("\n"),
		"a body alone":      []byte("\n{\"v\":1}"),
		"a NUL":             {0},
		"random":            random,
		"null":              []byte("null"),
		"a number":          []byte("1"),
		"a list":            []byte(`[{"v":1}]`),
		"no version":        []byte(`{"token":1,"workflow":"w","stateRev":1,"state":{"v":1}}`),
		"version 0":         []byte(`{"v":0}`),
		"negative version":  []byte(`{"v":-1}`),
		"version a text":    []byte(`{"v":"1"}`),
		"version a half":    []byte(`{"v":1.5}`),
		"version too great": []byte(`{"v":99999999999999999999}`),
		"cut off":           []byte(`{"v":1,"token":1`),
		"rest after it":     []byte(`{"v":1} {"v":1}`),
		"deep":              []byte(strings.Repeat(`{"v":`, 100_000)),
	} {
		for kind, k := range kinds {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				_, err := k.decode(value)
				if err == nil {
					t.Fatalf("%.40q was accepted", value)
				}
				if errors.Is(err, record.ErrNewer) {
					t.Errorf("%.40q passes for a newer release's record", value)
				}
				if want := fmt.Sprintf("%s record of %d bytes", kind, len(value)); !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to say %q", err, want)
				}
				if len(err.Error()) > 512 {
					t.Errorf("the error has %d bytes", len(err.Error()))
				}
			})
		}
	}
}

func TestWrongTypesAreRefused(t *testing.T) {
	t.Parallel()
	for kind, header := range map[string]string{
		"spec":  `{"v":1,"workflow":7}`,
		"state": `{"v":1,"deliveries":[{"token":"x","new":1}]}`,
		"live":  `{"v":1,"token":1e99}`,
		"due":   `{"v":1,"stateRev":"x"}`,
		"proc":  `{"v":1,"ttl":30.5}`,
		"wake":  `{"v":1,"at":"2026-01-01T00:00:00Z"}`,
		"evict": `{"v":1,"token":9223372036854775808}`,
		"step":  `{"v":1,"done":"yes"}`,

		"store":   `{"v":1,"recent":"CALL1"}`,
		"receipt": `{"v":1,"version":"12"}`,
		"waiter":  `{"v":1,"pulled":1}`,
		"change":  `{"v":1,"instance":7}`,
		"owed":    `{"v":1,"since":null,"step":{}}`,
		"purging": `{"v":1,"inc":1.5}`,
		"params":  `{"v":1,"written":"now"}`,
	} {
		if _, err := kinds[kind].decode([]byte(header)); err == nil || !strings.Contains(err.Error(), kind+" record") {
			t.Errorf("%s %s: %v, want an error that names the kind", kind, header, err)
		}
	}
	for name, header := range map[string]string{
		"no state":      `{"v":1,"stateRev":3}`,
		"a null state":  `{"v":1,"stateRev":3,"state":null}`,
		"a bad state":   `{"v":1,"stateRev":3,"state":[]}`,
		"an old format": `{"v":1,"stateRev":3,"state":"{\"v\":1}"}`,
	} {
		if _, _, err := record.DecodeDue([]byte(header), modified); err == nil || !strings.Contains(err.Error(), "the entry's state") {
			t.Errorf("due entry with %s: %v, want an error about its state", name, err)
		}
	}
}

// Every header cut short anywhere is refused.
func TestTruncatedHeaderIsRefused(t *testing.T) {
	t.Parallel()
	forEachGolden(t, func(t *testing.T, k kind, golden []byte) {
		line, _, _ := bytes.Cut(golden, []byte("\n"))
		for n := range line {
			if _, err := k.decode(line[:n]); err == nil {
				t.Errorf("the first %d bytes of %s were accepted", n, line)
			}
		}
	})
}

func TestUnknownFieldsSurviveARewrite(t *testing.T) {
	t.Parallel()
	const fields = `"zz":{"b":[1,2.50,12345678901234567890],"a":null},"newer":"é <&>"`
	forEachGolden(t, func(t *testing.T, k kind, golden []byte) {
		out := rewrite(t, k, splice(golden, fields))
		line, body, found := bytes.Cut(out, []byte("\n"))
		_, wantBody, wantFound := bytes.Cut(golden, []byte("\n"))
		if found != wantFound || !bytes.Equal(body, wantBody) {
			t.Errorf("body %q, want %q", body, wantBody)
		}
		var got map[string]json.RawMessage
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if want := `{"b":[1,2.50,12345678901234567890],"a":null}`; string(got["zz"]) != want {
			t.Errorf("zz is %s, want %s", got["zz"], want)
		}
		if string(got["newer"]) != `"é \u003c\u0026\u003e"` {
			t.Errorf("newer is %s", got["newer"])
		}
		if again := rewrite(t, k, out); !bytes.Equal(again, out) {
			t.Errorf("a second rewrite\n got %s\nwant %s", again, out)
		}
	})
}

func TestNestedUnknownFieldsSurviveARewrite(t *testing.T) {
	t.Parallel()
	state := bytes.ReplaceAll(claimed().Encode(), []byte(`"holder":"w`), []byte(`"zone":{"name":"eu-1"},"holder":"w`))
	state = splice(state, `"priority":7`)
	reaped := record.Due{StateRevision: 30, LiveRevision: 31}
	due := splice(reaped.Encode(claimed()), `"class":"bulk"`)
	line, _, _ := bytes.Cut(claimed().Encode(), []byte("\n"))
	due = bytes.Replace(due, line, state, 1)

	for name, c := range map[string]struct {
		kind  string
		value []byte
		want  map[string]int
	}{
		"history of a state": {"state", state, map[string]int{`"zone":{"name":"eu-1"}`: 3, `"priority":7`: 1}},
		"state of an entry":  {"due", due, map[string]int{`"zone":{"name":"eu-1"}`: 3, `"priority":7`: 1, `"class":"bulk"`: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := rewrite(t, kinds[c.kind], c.value)
			for field, n := range c.want {
				if got := bytes.Count(out, []byte(field)); got != n {
					t.Errorf("%s is there %d times, want %d: %s", field, got, n, out)
				}
			}
			if n := bytes.Count(out, []byte(`"deliveries"`)); n != 1 {
				t.Errorf("%d histories: %s", n, out)
			}
			if again := rewrite(t, kinds[c.kind], out); !bytes.Equal(again, out) {
				t.Errorf("a second rewrite\n got %s\nwant %s", again, out)
			}
		})
	}
}

// A release that does not know a field of the history keeps it while it adds an
// entry of its own, and drops it with the entry.
func TestNestedUnknownFieldsFollowTheirEntry(t *testing.T) {
	t.Parallel()
	s, err := record.DecodeState([]byte(`{"v":1,"workflow":"w","deliveries":[{"how":"released","nonce":"0","new":0},{"how":"released","nonce":"1","new":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for i := range record.HistoryLimit - 1 {
		s.Append(record.Delivery{Nonce: fmt.Sprint(i + 2), How: execution.HowReleased})
	}
	s, err = record.DecodeState(s.Encode())
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range s.Deliveries {
		if want := fmt.Sprint(i + 1); d.Nonce != want {
			t.Fatalf("entry %d is of call %s, want %s", i, d.Nonce, want)
		}
		if got := string(d.Extra["new"]); got != map[int]string{0: "1"}[i] {
			t.Errorf("entry %d has new = %q", i, got)
		}
	}
}

// A field that differs by case only is the same one: it must not come back beside
// the new value.
func TestFieldInAnotherCaseIsNotKeptBesideItself(t *testing.T) {
	t.Parallel()
	l, err := record.DecodeLive([]byte(`{"v":1,"TOKEN":5,"proc":"P","holder":"h","ſtray":1}`), modified)
	if err != nil {
		t.Fatal(err)
	}
	if l.Token != 5 {
		t.Fatalf("token %d, want 5", l.Token)
	}
	l.Token = 6
	if l, err = record.DecodeLive(l.Encode(), modified); err != nil || l.Token != 6 {
		t.Errorf("read back %+v, %v; want token 6", l, err)
	}
	if string(l.Extra["ſtray"]) != "1" {
		t.Errorf("unknown fields %v", l.Extra)
	}
}

func TestPayloadsAreKeptByteForByte(t *testing.T) {
	t.Parallel()
	for name, body := range map[string][]byte{
		"none":                nil,
		"empty":               {},
		"null":                []byte("null"),
		"a line feed":         []byte("\n"),
		"two line feeds":      []byte("\n\n"),
		"carriage returns":    []byte("\r\n{}\r\n"),
		"indented":            []byte("{\n  \"a\": 1\n}\n"),
		"key order":           []byte(`{"z":1,"a":2,"z":3}`),
		"big numbers":         []byte(`[12345678901234567890123,1e400,-0,1.50,0.1e-7]`),
		"HTML":                []byte(`"<a href=\"x\">&</a>` + "\u2028" + `"`),
		"not UTF-8":           []byte("\"\xff\xfe\xc3\""),
		"NUL":                 {0, '\n', 0},
		"not JSON":            []byte("charge me"),
		"looks like a header": []byte(`{"v":2}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec, err := record.DecodeSpec((&record.Spec{Workflow: "w", Params: body}).Encode())
			if err != nil || !same(spec.Params, body) {
				t.Errorf("params %q, %v; want %q", spec.Params, err, body)
			}
			step, err := record.DecodeStep((&record.Step{Token: 1, Response: body}).Encode())
			if err != nil || !same(step.Response, body) {
				t.Errorf("response %q, %v; want %q", step.Response, err, body)
			}
			state, err := record.DecodeState((&record.State{Result: body}).Encode())
			if err != nil || !same(state.Result, body) {
				t.Errorf("result %q, %v; want %q", state.Result, err, body)
			}
			params, err := record.DecodeParams((&record.Params{Params: body}).Encode())
			if err != nil || !same(params.Params, body) {
				t.Errorf("params of a run %q, %v; want %q", params.Params, err, body)
			}
			start, err := record.DecodeStart((&record.Start{Target: "x", Params: body}).Encode())
			if err != nil || !same(start.Params, body) {
				t.Errorf("params of a start %q, %v; want %q", start.Params, err, body)
			}
			event, err := record.DecodeEvent((&record.Event{Digest: "d", Payload: body}).Encode())
			if err != nil || !same(event.Payload, body) {
				t.Errorf("payload of an event %q, %v; want %q", event.Payload, err, body)
			}
			store, err := record.DecodeStore((&record.Store{State: body}).Encode())
			if err != nil || !same(store.State, body) {
				t.Errorf("state %q, %v; want %q", store.State, err, body)
			}
			receipt, err := record.DecodeReceipt((&record.Receipt{Result: body}).Encode())
			if err != nil || !same(receipt.Result, body) {
				t.Errorf("result of a receipt %q, %v; want %q", receipt.Result, err, body)
			}
			waiter, err := record.DecodeWaiter((&record.Waiter{Event: body}).Encode())
			if err != nil || !same(waiter.Event, body) {
				t.Errorf("event of a waiter %q, %v; want %q", waiter.Event, err, body)
			}
			owed, err := record.DecodeOwed((&record.Owed{Event: body}).Encode())
			if err != nil || !same(owed.Event, body) {
				t.Errorf("event of a wake %q, %v; want %q", owed.Event, err, body)
			}
		})
	}
}

// same tells no body from an empty one.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

func TestOwnRevisionsAreResolved(t *testing.T) {
	t.Parallel()
	live := record.Live{Token: record.Own}
	if l, err := record.DecodeLive(live.Encode(), 99); err != nil || l.Token != 99 {
		t.Errorf("live: %+v, %v; want token 99", l, err)
	}
	live.Token = 7
	if l, err := record.DecodeLive(live.Encode(), 99); err != nil || l.Token != 7 {
		t.Errorf("renewed live: %+v, %v; want token 7", l, err)
	}
	for name, c := range map[string]struct{ state, live, inc, wantState, wantLive, wantInc int64 }{
		"written by admit":       {record.Own, 0, 0, 99, 0, 99},
		"written with the state": {record.Own, 0, 3, 99, 0, 3},
		"written by a reaper":    {50, record.Own, 3, 50, 99, 3},
		"written for both known": {50, 60, 3, 50, 60, 3},
		"both its own":           {record.Own, record.Own, 3, 99, 99, 3},
	} {
		due := record.Due{StateRevision: c.state, LiveRevision: c.live}
		d, s, err := record.DecodeDue(due.Encode(&record.State{Incarnation: c.inc}), 99)
		if err != nil || d.StateRevision != c.wantState || d.LiveRevision != c.wantLive || s.Incarnation != c.wantInc {
			t.Errorf("%s: %+v, %+v, %v; want revisions %d and %d, incarnation %d", name, d, s, err, c.wantState, c.wantLive, c.wantInc)
		}
	}
}

// Encoding changes nothing of the record, so that one may be encoded by many.
func TestEncodeChangesNothing(t *testing.T) {
	t.Parallel()
	s := &record.State{Workflow: "w", Result: []byte("r")}
	d := &record.Due{StateRevision: 1}
	_, _ = s.Encode(), d.Encode(s)
	if s.V != 0 || d.V != 0 || d.State != nil {
		t.Errorf("state %+v, due %+v", s, d)
	}
	if due := d.Encode(s); bytes.Contains(due, []byte("\n")) {
		t.Errorf("the entry holds the state's result: %s", due)
	}
}
