package record

import (
	"encoding/json"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// An Event was sent to an execution, and no step has applied it; it never changes. The
// payload is the body.
type Event struct {
	V    int   `json:"v"`
	Sent int64 `json:"sent"` // Unix milliseconds
	// Digest is that of the payload, by which an event that is sent again is compared.
	Digest string `json:"digest"`
	Nonce  string `json:"nonce"` // of the call that sent it

	Payload json.RawMessage `json:"-"`
	Extra   Extra           `json:"-"`
}

// Encode renders the record.
func (e *Event) Encode() []byte {
	h := *e
	h.V = version
	return encode(&h, h.Extra, h.Payload)
}

// DecodeEvent reads an event.
func DecodeEvent(value []byte) (*Event, error) {
	e := new(Event)
	extra, body, err := decode(value, e)
	if err != nil {
		return nil, err
	}
	e.Extra, e.Payload = extra, body
	return e, nil
}

// An Applied is the receipt of an event: which step has applied it. It never changes.
type Applied struct {
	V       int             `json:"v"`
	Digest  string          `json:"digest"` // the event's
	Run     int64           `json:"run"`
	Step    string          `json:"step"`
	Token   execution.Token `json:"token"`   // of the delivery that wrote it
	Written int64           `json:"written"` // Unix milliseconds
	Extra   Extra           `json:"-"`
}

// Encode renders the record.
func (a *Applied) Encode() []byte {
	h := *a
	h.V = version
	return encode(&h, h.Extra, nil)
}

// DecodeApplied reads the receipt of an event.
func DecodeApplied(value []byte) (*Applied, error) {
	a := new(Applied)
	extra, _, err := decode(value, a)
	if err != nil {
		return nil, err
	}
	a.Extra = extra
	return a, nil
}
