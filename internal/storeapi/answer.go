package storeapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/holdfast-io/holdfast/internal/stores"
)

// An answer is a JSON object while it is written. It is written by hand: encoding/json
// would compact the raw values in it, and escape some of their characters.
type answer struct{ b []byte }

func object() *answer { return &answer{b: []byte{'{'}} }

func (a *answer) name(name string) {
	if len(a.b) > 1 {
		a.b = append(a.b, ',')
	}
	a.b = append(append(a.b, quote(name)...), ':')
}

// raw adds a value as it is.
func (a *answer) raw(name string, value []byte) *answer {
	a.name(name)
	a.b = append(a.b, value...)
	return a
}

func (a *answer) text(name, value string) *answer { return a.raw(name, quote(value)) }

func (a *answer) number(name string, value int64) *answer {
	return a.raw(name, strconv.AppendInt(nil, value, 10))
}

func (a *answer) flag(name string, value bool) *answer {
	return a.raw(name, strconv.AppendBool(nil, value))
}

// end returns the object.
func (a *answer) end() []byte { return append(a.b, '}') }

// list returns a JSON list of the values.
func list(values [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(values, []byte{','})...), ']')
}

func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(fmt.Sprintf("store API: quote %q: %v", s, err)) // it is a string
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

func snapshotAnswer(s stores.Snapshot) []byte {
	return object().raw("state", s.State).text("instanceId", s.Instance).number("version", s.Version).end()
}

// send writes the answer, with a line's end for people.
func send(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)+1))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an error is the caller's having gone
}

// sendFault writes the error.
func sendFault(w http.ResponseWriter, f *fault) {
	if f.code == MethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	inner := object().text("code", string(f.code)).text("message", f.Error()).end()
	send(w, f.code.Status(), object().raw("error", inner).end())
}
