package record_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/record"
)

// FuzzDecodeSpec and those below: a decoder never panics; what it accepts is
// rewritten without loss and stays as it is from then on.
func FuzzDecodeSpec(f *testing.F) { fuzz(f, "spec", record.Spec{}) }

// FuzzDecodeState reads state records.
func FuzzDecodeState(f *testing.F) { fuzz(f, "state", record.State{}) }

// FuzzDecodeLive reads live records.
func FuzzDecodeLive(f *testing.F) { fuzz(f, "live", record.Live{}) }

// FuzzDecodeDue reads due entries.
func FuzzDecodeDue(f *testing.F) { fuzz(f, "due", record.Due{}) }

// FuzzDecodeProc reads proc records.
func FuzzDecodeProc(f *testing.F) { fuzz(f, "proc", record.Proc{}) }

// FuzzDecodeWake reads wakes.
func FuzzDecodeWake(f *testing.F) { fuzz(f, "wake", record.Wake{}) }

// FuzzDecodeEvict reads evictions.
func FuzzDecodeEvict(f *testing.F) { fuzz(f, "evict", record.Evict{}) }

// FuzzDecodeStep reads step records.
func FuzzDecodeStep(f *testing.F) { fuzz(f, "step", record.Step{}) }

// FuzzDecodeStore reads stores.
func FuzzDecodeStore(f *testing.F) { fuzz(f, "store", record.Store{}) }

// FuzzDecodeReceipt reads receipts.
func FuzzDecodeReceipt(f *testing.F) { fuzz(f, "receipt", record.Receipt{}) }

// FuzzDecodeWaiter reads registrations at stores.
func FuzzDecodeWaiter(f *testing.F) { fuzz(f, "waiter", record.Waiter{}) }

// FuzzDecodeChange reads changes.
func FuzzDecodeChange(f *testing.F) { fuzz(f, "change", record.Change{}) }

// FuzzDecodeOwed reads wakes that are owed.
func FuzzDecodeOwed(f *testing.F) { fuzz(f, "owed", record.Owed{}) }

// FuzzDecodePurging reads deletions in progress.
func FuzzDecodePurging(f *testing.F) { fuzz(f, "purging", record.Purging{}) }

// FuzzDecodeParams reads the params of runs.
func FuzzDecodeParams(f *testing.F) { fuzz(f, "params", record.Params{}) }

// FuzzDecodeStart reads what steps have started.
func FuzzDecodeStart(f *testing.F) { fuzz(f, "start", record.Start{}) }

// FuzzDecodeEvent reads events.
func FuzzDecodeEvent(f *testing.F) { fuzz(f, "event", record.Event{}) }

// FuzzDecodeApplied reads receipts of events.
func FuzzDecodeApplied(f *testing.F) { fuzz(f, "applied", record.Applied{}) }

func fuzz(f *testing.F, name string, header any) {
	k := kinds[name]
	for golden, written := range goldens {
		if golden == name || strings.HasPrefix(golden, name+"-") {
			value := kindOf(f, golden).encode(written)
			f.Add(value)
			f.Add(splice(value, `"new":[1],"deliveries":[{"new":1}]`))
			f.Add(bytes.ToUpper(value))
			f.Add(value[:len(value)/2])
		}
	}
	for _, seed := range []string{
		"", "\n", "null", "{}", `{"v":2}`, `{"v":1}`, `{"v":1,"v":2}`, `{"v":1,"V":1,"x":1,"x":2}`,
		`{"v":1,"deliveries":[null,{}],"Deliveries":[{"x":1},{"x":2},{"x":3}]}`, `{"v":1,"deliveries":null,"x":1}`,
		`{"v":1,"state":{"v":1,"x":1},"y":1}`, "{\"v\":1,\"\xff\":1,\"\xfe\":2}\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		before := bytes.Clone(value)
		decoded, err := k.decode(value)
		if err != nil {
			if !errors.Is(err, record.ErrNewer) && !strings.Contains(err.Error(), " is not readable") {
				t.Errorf("%q: %v", value, err)
			}
			return
		}
		out := k.encode(decoded)
		again, err := k.decode(out)
		if err != nil {
			t.Fatalf("%q is rewritten as %q: %v", value, out, err)
		}
		if twice := k.encode(again); !bytes.Equal(twice, out) {
			t.Errorf("%q is rewritten as\n%q and that as\n%q", value, out, twice)
		}
		if !bytes.Equal(before, value) {
			t.Errorf("decoding and encoding changed %q to %q", before, value)
		}
		unknownSurvive(t, value, out, header)
	})
}

// unknownSurvive checks that the fields which the header lacks are in out as they
// were in value.
func unknownSurvive(t *testing.T, value, out []byte, header any) {
	t.Helper()
	was, is := fields(t, value), fields(t, out)
	for f := range reflect.TypeOf(header).Fields() {
		for name := range was {
			if known, _, _ := strings.Cut(f.Tag.Get("json"), ","); strings.EqualFold(known, name) {
				delete(was, name)
			}
		}
	}
	for name, v := range was {
		var want bytes.Buffer
		if err := json.Compact(&want, v); err != nil {
			t.Fatal(err)
		}
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, want.Bytes())
		if got := is[name]; !bytes.Equal(got, escaped.Bytes()) {
			t.Errorf("%q: field %q is rewritten as %s", value, name, got)
		}
	}
}

func fields(t *testing.T, value []byte) map[string]json.RawMessage {
	t.Helper()
	line, _, _ := bytes.Cut(value, []byte("\n"))
	var m map[string]json.RawMessage
	if err := json.Unmarshal(line, &m); err != nil {
		t.Fatalf("%q: %v", value, err)
	}
	return m
}
