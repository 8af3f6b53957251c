package record

import "encoding/json"

// A Start is what one step has started; it never changes. The params are the body, in
// the canonical form in which a repetition is compared with them.
type Start struct {
	V        int    `json:"v"`
	Target   string `json:"target"` // the id of what was started
	Workflow string `json:"workflow"`
	// ParamsPresent: params were given. None are something else than null or {}.
	ParamsPresent bool  `json:"paramsPresent"`
	Written       int64 `json:"written"` // Unix milliseconds

	Params json.RawMessage `json:"-"`
	Extra  Extra           `json:"-"`
}

// Encode renders the record.
func (s *Start) Encode() []byte {
	h := *s
	h.V = version
	return encode(&h, h.Extra, h.Params)
}

// DecodeStart reads what a step has started.
func DecodeStart(value []byte) (*Start, error) {
	s := new(Start)
	extra, body, err := decode(value, s)
	if err != nil {
		return nil, err
	}
	s.Extra, s.Params = extra, body
	return s, nil
}
