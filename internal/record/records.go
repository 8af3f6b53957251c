package record

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Own stands in a record for the mod-revision of that record's own transaction,
// which the transaction can't know.
const Own int64 = -1

// A Spec is what an execution was admitted with; it never changes. The params
// are the record's body.
type Spec struct {
	V        int    `json:"v"`
	Workflow string `json:"workflow"`
	Queue    string `json:"queue"`
	Admitted int64  `json:"admitted"`
	Nonce    string `json:"nonce"`

	Params json.RawMessage `json:"-"`
	Extra  Extra           `json:"-"`
}

// Encode renders the record.
func (s *Spec) Encode() []byte {
	h := *s
	h.V = version
	return encode(&h, h.Extra, h.Params)
}

// DecodeSpec reads a spec.
func DecodeSpec(value []byte) (*Spec, error) {
	s := new(Spec)
	extra, body, err := decode(value, s)
	if err != nil {
		return nil, err
	}
	s.Extra, s.Params = extra, body
	return s, nil
}

// A Live record says who holds an execution. It exists exactly while the state
// says claimed.
type Live struct {
	V int `json:"v"`
	// Token is Own where the claim itself wrote the record.
	Token  int64  `json:"token"`
	Proc   string `json:"proc"`
	Holder string `json:"holder"`
	// Reaped is the due time that a reaper gave the execution, in Unix
	// milliseconds; 0: none did.
	Reaped int64 `json:"reaped,omitempty"`
	// Expired is when the reaper saw that the holder was gone.
	Expired int64 `json:"expired,omitempty"`
	Extra   Extra `json:"-"`
}

// Encode renders the record.
func (l *Live) Encode() []byte {
	h := *l
	h.V = version
	return encode(&h, h.Extra, nil)
}

// DecodeLive reads a live record that was found at the mod-revision. Its token is
// then a number.
func DecodeLive(value []byte, modified int64) (*Live, error) {
	l := new(Live)
	extra, _, err := decode(value, l)
	if err != nil {
		return nil, err
	}
	if l.Extra = extra; l.Token == Own {
		l.Token = modified
	}
	return l, nil
}

// A Due entry makes an execution claimable. It is for one revision of state and
// of live, and holds a copy of the state that those compares make exact, so that
// a claim reads nothing else.
type Due struct {
	V int `json:"v"`
	// StateRevision is Own where the entry was written with the state;
	// LiveRevision is Own where a reaper wrote it with live, and 0 where the
	// execution is unclaimed.
	StateRevision int64 `json:"stateRev"`
	LiveRevision  int64 `json:"liveRev,omitempty"`
	// Expired is when a reaper saw the holder gone, in Unix milliseconds.
	Expired int64           `json:"expired,omitempty"`
	State   json.RawMessage `json:"state"`

	Extra Extra `json:"-"`
}

// Encode renders the entry with the state that it is for. A state's result has no
// place in it: a terminal execution has no entry.
func (d *Due) Encode(s *State) []byte {
	h := *d
	h.V = version
	h.State = encode(s.header(), s.Extra, nil)
	return encode(&h, h.Extra, nil)
}

// DecodeDue reads an entry that was found at the mod-revision, and the state in
// it. Its revisions are then numbers.
func DecodeDue(value []byte, modified int64) (*Due, *State, error) {
	d := new(Due)
	extra, _, err := decode(value, d)
	if err != nil {
		return nil, nil, err
	}
	if d.Extra = extra; d.StateRevision == Own {
		d.StateRevision = modified
	}
	if d.LiveRevision == Own {
		d.LiveRevision = modified
	}
	s, err := DecodeState(d.State)
	if err != nil {
		return nil, nil, fmt.Errorf("the entry's state: %w", err)
	}
	if s.Incarnation == 0 {
		s.Incarnation = d.StateRevision
	}
	return d, s, nil
}

// A Proc record tells of a holder process. Its key is bound to an etcd lease.
type Proc struct {
	V       int    `json:"v"`
	Holder  string `json:"holder"`
	Started int64  `json:"started"`
	// TTL is what etcd granted, in seconds. Single: it serves one claim only.
	TTL    int64 `json:"ttl"`
	Single bool  `json:"single,omitempty"`
	Extra  Extra `json:"-"`
}

// Encode renders the record.
func (p *Proc) Encode() []byte {
	h := *p
	h.V = version
	return encode(&h, h.Extra, nil)
}

// DecodeProc reads a proc record.
func DecodeProc(value []byte) (*Proc, error) {
	p := new(Proc)
	extra, _, err := decode(value, p)
	if err != nil {
		return nil, err
	}
	p.Extra = extra
	return p, nil
}

// A Wake holds the earliest wake requested since the claim, in Unix milliseconds.
type Wake struct {
	V     int   `json:"v"`
	At    int64 `json:"at"`
	Extra Extra `json:"-"`
}

// Encode renders the record.
func (w *Wake) Encode() []byte {
	h := *w
	h.V = version
	return encode(&h, h.Extra, nil)
}

// DecodeWake reads a wake.
func DecodeWake(value []byte) (*Wake, error) {
	w := new(Wake)
	extra, _, err := decode(value, w)
	if err != nil {
		return nil, err
	}
	w.Extra = extra
	return w, nil
}

// An Evict tells a holder process to stop the delivery with this token.
type Evict struct {
	V     int             `json:"v"`
	Token execution.Token `json:"token"`
	Why   string          `json:"why,omitempty"`
	Extra Extra           `json:"-"`
}

// Encode renders the record.
func (e *Evict) Encode() []byte {
	h := *e
	h.V = version
	return encode(&h, h.Extra, nil)
}

// DecodeEvict reads an eviction.
func DecodeEvict(value []byte) (*Evict, error) {
	e := new(Evict)
	extra, _, err := decode(value, e)
	if err != nil {
		return nil, err
	}
	e.Extra = extra
	return e, nil
}

// A Step is one attempt's record; the response is its body, byte for byte.
type Step struct {
	V       int             `json:"v"`
	Done    bool            `json:"done,omitempty"`
	Token   execution.Token `json:"token"`
	Written int64           `json:"written"`
	// Place is the step's place in its run, from 1 on; 0: unknown.
	Place int64 `json:"place,omitempty"`
	// Waiter is the store at which the step waits; only on a record with Done false.
	Waiter *execution.StoreID `json:"waiter,omitempty"`

	Response json.RawMessage `json:"-"`
	Extra    Extra           `json:"-"`
}

// Encode renders the record.
func (s *Step) Encode() []byte {
	h := *s
	h.V = version
	return encode(&h, h.Extra, h.Response)
}

// DecodeStep reads a step record.
func DecodeStep(value []byte) (*Step, error) {
	s := new(Step)
	extra, body, err := decode(value, s)
	if err != nil {
		return nil, err
	}
	s.Extra, s.Response = extra, body
	return s, nil
}
