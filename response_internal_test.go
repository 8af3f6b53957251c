package holdfast

// White-box: the format of records is not exported.

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// resultRecord is the record of a step that returned the JSON.
func resultRecord(key, result string) execution.Step {
	return execution.Step{Key: key, Done: true, Response: resultResponse(json.RawMessage(result)).encode()}
}

// The files in testdata are what this release and every later one must read. They
// are never rewritten.
func TestResponseGoldens(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 9, 30, 0, 250e6, time.UTC)
	cases := []struct {
		file string
		done bool
		resp response
	}{
		{"result", true, resultResponse(json.RawMessage(`{"number":"r-1","lines":[1,2]}`))},
		{"result-null", true, resultResponse(json.RawMessage(`null`))},
		{"error", true, errorResponse(codedError{"declined", "card"}, false)},
		{"error-permanent", true, errorResponse(errors.New("no such card"), true)},
		{"retry", false, retryResponse(errors.New("busy"), at)},
		{"sleep", true, sleepResponse(at)},
		{"wait", false, waitResponse(time.Time{})},
		{"wait-until", false, waitResponse(at)},
	}
	for _, c := range cases {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			golden, err := os.ReadFile(filepath.Join("testdata", "response", c.file+".json"))
			if err != nil {
				t.Fatal(err)
			}
			wantEqual(t, "encoding", string(c.resp.encode())+"\n", string(golden))
			got, err := decodeResponse(execution.Step{Key: "s", Done: c.done, Response: golden})
			if err != nil {
				t.Fatal(err)
			}
			want := c.resp
			want.V = responseVersion
			if !reflect.DeepEqual(got, want) {
				t.Errorf("decoding: got %+v, want %+v", got, want)
			}
		})
	}
}

func FuzzDecodeResponse(f *testing.F) {
	for _, seed := range []string{`{"v":1,"kind":"result","result":null}`, `{"v":1,"kind":"error","error":{"message":"x"},"retryAt":"2026-12-01T00:00:00Z"}`, `{"v":1,"kind":"wait"}`, `{`, ``} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, doc []byte, done bool) {
		r, err := decodeResponse(execution.Step{Key: "s", Done: done, Response: doc})
		if err != nil {
			return
		}
		again, err := decodeResponse(execution.Step{Key: "s", Done: done, Response: r.encode()})
		if err != nil {
			t.Fatalf("%s is not readable once encoded again: %v", doc, err)
		}
		if again.Kind != r.Kind || !again.wake().Equal(r.wake()) {
			t.Errorf("%s became %+v", doc, again)
		}
	})
}
