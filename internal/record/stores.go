package record

import "encoding/json"

// A Store is one store as its last mutation left it; the state is the body.
type Store struct {
	V int `json:"v"`
	// Instance is drawn anew at each creation: a store that was deleted and created
	// again is another one.
	Instance string `json:"instance"`
	// Version counts the commits of the instance since its creation, which is 0.
	Version int64 `json:"version"`
	Created int64 `json:"created"` // Unix milliseconds, of the instance
	Updated int64 `json:"updated"` // Unix milliseconds
	// Recent holds the nonces of the last calls that wrote it, newest last, so that
	// a call whose answer was lost finds out whether it was applied.
	Recent []string `json:"recent"`

	State json.RawMessage `json:"-"`
	Extra Extra           `json:"-"`
}

// Encode renders the record.
func (s *Store) Encode() []byte {
	h := *s
	h.V = version
	return encode(&h, h.Extra, h.State)
}

// DecodeStore reads a store.
func DecodeStore(value []byte) (*Store, error) {
	s := new(Store)
	extra, body, err := decode(value, s)
	if err != nil {
		return nil, err
	}
	s.Extra, s.State = extra, body
	return s, nil
}

// A Receipt is what one step's mutation of a store came to; it never changes. The
// recorded result is the body.
type Receipt struct {
	V        int    `json:"v"`
	Kind     string `json:"kind"` // which call it was: "update", "delete", "take"
	Instance string `json:"instance"`
	Version  int64  `json:"version"` // the one that the commit made; of a delete, the last
	Written  int64  `json:"written"` // Unix milliseconds

	Result json.RawMessage `json:"-"`
	Extra  Extra           `json:"-"`
}

// Encode renders the record.
func (r *Receipt) Encode() []byte {
	h := *r
	h.V = version
	return encode(&h, h.Extra, h.Result)
}

// DecodeReceipt reads a receipt.
func DecodeReceipt(value []byte) (*Receipt, error) {
	r := new(Receipt)
	extra, body, err := decode(value, r)
	if err != nil {
		return nil, err
	}
	r.Extra, r.Result = extra, body
	return r, nil
}

// A Waiter is a step's registration at a store: whoever changes one of the paths
// after the version owes the step a wake. The event of a waiter that is pulled is
// the body.
type Waiter struct {
	V        int    `json:"v"`
	Instance string `json:"instance"`
	Since    int64  `json:"since"` // the version that the step has seen
	// Paths is a JSON list of the paths that the step has read.
	Paths      json.RawMessage `json:"paths"`
	Registered int64           `json:"registered"`       // Unix milliseconds
	Pulled     bool            `json:"pulled,omitempty"` // its wake is fetched, not delivered
	Workflow   string          `json:"workflow,omitempty"`

	Event json.RawMessage `json:"-"`
	Extra Extra           `json:"-"`
}

// Encode renders the record.
func (w *Waiter) Encode() []byte {
	h := *w
	h.V = version
	return encode(&h, h.Extra, h.Event)
}

// DecodeWaiter reads a registration.
func DecodeWaiter(value []byte) (*Waiter, error) {
	w := new(Waiter)
	extra, body, err := decode(value, w)
	if err != nil {
		return nil, err
	}
	w.Extra, w.Event = extra, body
	return w, nil
}

// A Change says what a commit to a store changed, until everyone who waits for it
// has been woken.
type Change struct {
	V        int             `json:"v"`
	Instance string          `json:"instance"`
	Version  int64           `json:"version"` // the one that the commit made
	Paths    json.RawMessage `json:"paths"`   // a JSON list

	Extra Extra `json:"-"`
}

// Encode renders the record.
func (c *Change) Encode() []byte {
	h := *c
	h.V = version
	return encode(&h, h.Extra, nil)
}

// DecodeChange reads a change.
func DecodeChange(value []byte) (*Change, error) {
	c := new(Change)
	extra, _, err := decode(value, c)
	if err != nil {
		return nil, err
	}
	c.Extra = extra
	return c, nil
}

// An Owed is a wake that one step is owed: to be delivered or, with an event as the
// body, to be fetched.
type Owed struct {
	V           int    `json:"v"`
	Instance    string `json:"instance"`
	Execution   string `json:"execution"`
	Incarnation int64  `json:"inc,omitempty"`
	Run         int64  `json:"run,omitempty"`
	Step        string `json:"step"`
	Since       int64  `json:"since"` // as in the registration
	Workflow    string `json:"workflow,omitempty"`

	Event json.RawMessage `json:"-"`
	Extra Extra           `json:"-"`
}

// Encode renders the record.
func (o *Owed) Encode() []byte {
	h := *o
	h.V = version
	return encode(&h, h.Extra, h.Event)
}

// DecodeOwed reads a wake that is owed.
func DecodeOwed(value []byte) (*Owed, error) {
	o := new(Owed)
	extra, body, err := decode(value, o)
	if err != nil {
		return nil, err
	}
	o.Extra, o.Event = extra, body
	return o, nil
}

// A Purging says that an execution and what belongs to it are being deleted, in
// batches.
type Purging struct {
	V           int   `json:"v"`
	Started     int64 `json:"started"` // Unix milliseconds
	Incarnation int64 `json:"inc"`     // what is being deleted; a later one stays

	Extra Extra `json:"-"`
}

// Encode renders the record.
func (p *Purging) Encode() []byte {
	h := *p
	h.V = version
	return encode(&h, h.Extra, nil)
}

// DecodePurging reads a deletion in progress.
func DecodePurging(value []byte) (*Purging, error) {
	p := new(Purging)
	extra, _, err := decode(value, p)
	if err != nil {
		return nil, err
	}
	p.Extra = extra
	return p, nil
}
