package record

import (
	"encoding/json"
	"slices"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// HistoryLimit bounds State.Deliveries. It also bounds how many later claims an
// unknown outcome can be told apart after.
const HistoryLimit = 10

// A State is an execution's state record: the lock, the fence and the truth.
// Times are Unix milliseconds, 0 for none.
type State struct {
	V        int    `json:"v"`
	Workflow string `json:"workflow"`
	Queue    string `json:"queue"`
	// Claimed: a delivery runs; live exists exactly while this is set.
	Claimed bool `json:"claimed,omitempty"`
	// Base is the status without regard to a lease: admitted, suspended, completed
	// or failed.
	Base      execution.Status `json:"base"`
	Unacked   int64            `json:"unacked,omitempty"`
	Due       int64            `json:"due,omitempty"`
	NotBefore int64            `json:"notBefore,omitempty"`
	// Deadline is when the execution fails unless it has ended; it never changes.
	Deadline int64 `json:"deadline,omitempty"`
	// Incarnation is the state's create-revision; 0 in the record that admit wrote.
	Incarnation int64 `json:"inc,omitempty"`
	Run         int64 `json:"run,omitempty"`
	// Claims counts every claim ever made.
	Claims int64 `json:"claims,omitempty"`
	// Nonce identifies the call that wrote this record.
	Nonce      string     `json:"nonce"`
	Ended      int64      `json:"ended,omitempty"` // when it became terminal
	Deliveries []Delivery `json:"deliveries,omitempty"`
	// Outcome is the terminal kind, Error the failed outcome's. The completed result
	// is the record's body. All three are written once: a terminal record is never
	// rewritten.
	Outcome execution.OutcomeKind `json:"outcome,omitempty"`
	Error   *execution.Error      `json:"error,omitempty"`

	Result []byte `json:"-"`
	Extra  Extra  `json:"-"`
}

// A Delivery is one entry of a state's bounded history, oldest first. The entry
// of the delivery that runs has no token, since a transaction can't know its own
// revision: it is the mod-revision of the record.
type Delivery struct {
	Token   execution.Token `json:"token,omitempty"`
	Holder  string          `json:"holder"`
	Proc    string          `json:"proc"`
	Claimed int64           `json:"claimed"`
	Ended   int64           `json:"ended,omitempty"`
	How     execution.How   `json:"how"`
	Why     string          `json:"why,omitempty"`
	// Nonce and EndNonce identify the calls that claimed it and ended it.
	Nonce    string `json:"nonce"`
	EndNonce string `json:"endNonce,omitempty"`

	Extra Extra `json:"-"`
}

// Encode renders the record.
func (s *State) Encode() []byte { return encode(s.header(), s.Extra, s.Result) }

// header returns what is rendered of the state, in this release's version.
func (s *State) header() any {
	h := *s
	h.V = version
	if !slices.ContainsFunc(s.Deliveries, func(d Delivery) bool { return len(d.Extra) > 0 }) {
		return &h
	}
	entries := make([]json.RawMessage, len(s.Deliveries))
	for i := range s.Deliveries {
		entries[i] = encode(&s.Deliveries[i], s.Deliveries[i].Extra, nil)
	}
	return struct {
		*State
		Deliveries []json.RawMessage `json:"deliveries"` // in place of the state's
	}{&h, entries}
}

// DecodeState reads a state record.
func DecodeState(value []byte) (*State, error) {
	s := new(State)
	extra, body, err := decode(value, s)
	if err != nil {
		return nil, err
	}
	s.Extra, s.Result = extra, body
	return s, nil
}

// keepNested keeps the unknown fields of the entries of the history.
func (s *State) keepNested(line []byte) error {
	var h struct {
		Deliveries []Extra `json:"deliveries"`
	}
	if err := json.Unmarshal(line, &h); err != nil {
		return err
	}
	for i, extra := range h.Deliveries {
		s.Deliveries[i].Extra = extra.without(&s.Deliveries[i])
	}
	return nil
}

// Clone returns a copy that shares nothing that is changed in place.
func (s *State) Clone() *State {
	c := *s
	c.Deliveries = slices.Clone(s.Deliveries)
	return &c
}

// Terminal says whether the execution has ended.
func (s *State) Terminal() bool { return s.Base.Terminal() }

// Knows says whether the call with this nonce wrote this record or is in its
// history. No call has an empty nonce.
func (s *State) Knows(nonce string) bool {
	switch nonce {
	case "":
		return false
	case s.Nonce:
		return true
	}
	return slices.ContainsFunc(s.Deliveries, func(d Delivery) bool { return d.Nonce == nonce || d.EndNonce == nonce })
}

// Last returns the newest entry of the history, or nil.
func (s *State) Last() *Delivery {
	if len(s.Deliveries) == 0 {
		return nil
	}
	return &s.Deliveries[len(s.Deliveries)-1]
}

// Append adds an entry and drops the oldest ones over the limit.
func (s *State) Append(d Delivery) {
	s.Deliveries = append(s.Deliveries, d)
	if over := len(s.Deliveries) - HistoryLimit; over > 0 {
		s.Deliveries = slices.Delete(s.Deliveries, 0, over)
	}
}
