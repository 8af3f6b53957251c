package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// version is the newest version of the format that this release can read. Frozen
// at 1 until a change makes older readers wrong.
const version = 1

// Extra holds the header fields that this release does not know.
type Extra map[string]json.RawMessage

// ErrNewer: a later release wrote the record in a way that this one must not
// touch. Upgrade.
var ErrNewer = errors.New("record was written by a newer release; upgrade this one")

// encode renders the header h, with the unknown fields of an earlier decode, and
// the body, if there is one.
func encode(h any, extra Extra, body []byte) []byte {
	line, err := json.Marshal(h)
	if err != nil {
		panic(fmt.Sprintf("record: %T: %v", h, err)) // a header has plain fields only
	}
	if len(extra) > 0 {
		more, err := json.Marshal(extra)
		if err != nil {
			panic(fmt.Sprintf("record: unknown fields: %v", err)) // they came out of a decode
		}
		line = append(append(line[:len(line)-1], ','), more[1:]...)
	}
	if body != nil {
		line = append(append(line, '\n'), body...)
	}
	return line
}

// decode reads a header into h, which must be a pointer to a struct, and returns
// the unknown fields and the body (nil: none).
func decode(value []byte, h any) (Extra, []byte, error) {
	line, body, found := bytes.Cut(value, []byte{'\n'})
	if !found {
		body = nil
	} else if body == nil {
		body = []byte{}
	}
	var v struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, nil, fmt.Errorf("record of %d bytes is not readable: %w", len(value), err)
	}
	switch {
	case v.V > version:
		return nil, nil, fmt.Errorf("version %d: %w", v.V, ErrNewer)
	case v.V < 1:
		return nil, nil, fmt.Errorf("record of %d bytes has no version", len(value))
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if d.Decode(h) == nil {
		return nil, body, nil
	}
	if err := json.Unmarshal(line, h); err != nil {
		return nil, nil, fmt.Errorf("record of %d bytes is not readable: %w", len(value), err)
	}
	extra := Extra{}
	if err := json.Unmarshal(line, &extra); err != nil {
		return nil, nil, fmt.Errorf("record of %d bytes is not readable: %w", len(value), err)
	}
	for _, name := range known(reflect.TypeOf(h).Elem()) {
		delete(extra, name)
	}
	return extra, body, nil
}

// known lists the JSON names of a struct's fields.
func known(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	return names
}
