package event

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// MaxPayloadBytes bounds a payload, as it is stored: compact, with '<', '>' and '&'
// escaped as encoding/json does. A step's record must hold it.
const MaxPayloadBytes = execution.MaxPayloadBytes - 1<<10

// A Message is an event to be sent.
type Message struct {
	Execution execution.ID
	Name      string // what is waited for: 1 to 512 bytes of UTF-8 without NUL
	// ID tells it from others of its name that are sent to the execution: to send the
	// same one again does nothing. Default: a random one.
	ID      string
	Payload json.RawMessage // default: null; at most MaxPayloadBytes
}

// A Sent is an event that is there, or was.
type Sent struct {
	ID string
	// Repeated: an event with this id, and with this payload, had been sent before;
	// nothing was added.
	Repeated bool
}

// Send puts the event, and asks for a delivery of the execution, both or neither.
//
//	compare  no event and no receipt with the id; otherwise as a requestWake does
//	then     the event; otherwise as by a requestWake
//	keeps    I6, I8, I9, I10
//
// An unknown execution gives an [execution.ErrNotFound]; one that has ended an
// [execution.ErrTerminal], unless the event had been sent before; an id that another
// payload was sent with an [execution.ErrConflict]; a bad name, id or payload an
// [*execution.InvalidError]. In all these cases nothing is stored. Other errors leave
// open whether the event was sent: send it again, with the same id.
func (c *Client) Send(ctx context.Context, m Message) (Sent, error) {
	rec, err := m.complete()
	if err != nil {
		return Sent{}, err
	}
	box := Inbox{Execution: m.Execution, Name: m.Name}
	own := false
	repeated, err := c.cfg.Executions.WakeBeside(ctx, m.Execution, leasing.WakeBeside{
		Do: func(incarnation int64) leasing.Beside {
			box.Incarnation = incarnation
			event, applied := c.cfg.Space.Event(box.key(m.ID)), c.cfg.Space.Applied(box.key(m.ID))
			return leasing.Beside{
				If:   []etcd.Compare{etcd.Absent(event), etcd.Absent(applied)},
				Then: []etcd.Op{etcd.Put{Key: event, Value: rec.Encode()}},
				Else: []etcd.Op{etcd.Get{Key: event}, etcd.Get{Key: applied}},
			}
		},
		Met: func(read []etcd.Result) (met bool, err error) {
			met, own, err = rec.met(read)
			return met, err
		},
	})
	if err != nil {
		return Sent{}, fmt.Errorf("send event %q, %q, to %q: %w", m.Name, m.ID, string(m.Execution), err)
	}
	return Sent{ID: m.ID, Repeated: repeated && !own}, nil
}

// A sending is the record of an event that is being sent.
type sending struct{ record.Event }

// met reads what there is with the event's id: whether anything is, and whether it is
// of this very call. What a step has applied no longer tells.
func (s *sending) met(read []etcd.Result) (met, own bool, err error) {
	digest := ""
	if kv, there := read[0].One(); there {
		rec, err := record.DecodeEvent(kv.Value)
		if err != nil {
			return false, false, fmt.Errorf("key %q: %w", kv.Key, err)
		}
		digest, own, met = rec.Digest, rec.Nonce == s.Nonce, true
	}
	if kv, there := read[1].One(); there {
		rec, err := record.DecodeApplied(kv.Value)
		if err != nil {
			return false, false, fmt.Errorf("key %q: %w", kv.Key, err)
		}
		digest, met = rec.Digest, true
	}
	if met && digest != s.Digest {
		return false, false, fmt.Errorf("%w: an event with this id, and another payload, had been sent before; choose another id", execution.ErrConflict)
	}
	return met, own, nil
}

// complete validates the message, fills in what it lacks and makes the record of it.
func (m *Message) complete() (*sending, error) {
	if m.ID == "" {
		m.ID = string(execution.NewID())
	}
	if err := m.Execution.Validate(); err != nil {
		return nil, err
	}
	if err := (execution.AppliedEvent{Name: m.Name, ID: m.ID}).Validate(); err != nil {
		return nil, err
	}
	if len(m.Payload) == 0 {
		m.Payload = json.RawMessage("null")
	}
	payload, digest, err := stored(m.Payload)
	if err != nil {
		return nil, err
	}
	return &sending{record.Event{Sent: time.Now().UnixMilli(), Digest: digest, Nonce: rand.Text()[:16], Payload: payload}}, nil
}

// stored returns the payload as it is stored, and its digest: that of its content, with
// the members of objects in order.
func stored(payload json.RawMessage) (json.RawMessage, string, error) {
	invalid := func(reason string) error {
		return &execution.InvalidError{What: "payload", Value: string(payload), Reason: reason}
	}
	var compact, escaped bytes.Buffer
	if err := json.Compact(&compact, payload); err != nil {
		return nil, "", invalid("is not JSON")
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	if err := execution.ValidateSize("payload", escaped.Bytes(), MaxPayloadBytes); err != nil {
		return nil, "", err
	}
	d := json.NewDecoder(&compact)
	d.UseNumber()
	var content any
	if err := d.Decode(&content); err != nil {
		return nil, "", invalid("is not JSON: " + err.Error())
	}
	ordered, err := json.Marshal(content)
	if err != nil {
		return nil, "", errors.Join(invalid("is not JSON"), err)
	}
	sum := sha256.Sum256(ordered)
	return escaped.Bytes(), hex.EncodeToString(sum[:16]), nil
}
