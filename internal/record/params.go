package record

import "encoding/json"

// A Params record holds what a run was given in the place of the spec's params: by
// the run before it, which turned over. The params are the body.
type Params struct {
	V       int   `json:"v"`
	Written int64 `json:"written"` // Unix milliseconds

	Params json.RawMessage `json:"-"`
	Extra  Extra           `json:"-"`
}

// Encode renders the record.
func (p *Params) Encode() []byte {
	h := *p
	h.V = version
	return encode(&h, h.Extra, h.Params)
}

// DecodeParams reads the params of a run.
func DecodeParams(value []byte) (*Params, error) {
	p := new(Params)
	extra, body, err := decode(value, p)
	if err != nil {
		return nil, err
	}
	p.Extra, p.Params = extra, body
	return p, nil
}
