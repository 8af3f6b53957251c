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

// ErrNewer is the error of a record that a later release wrote in a way that this
// one must not touch. Upgrade.
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
// the unknown fields (nil: none) and the body (nil: none).
func decode(value []byte, h any) (Extra, []byte, error) {
	line, body, _ := bytes.Cut(value, []byte{'\n'})
	var v struct {
		V int `json:"v"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		return nil, nil, unreadable(h, value, err)
	}
	switch {
	case v.V > version:
		return nil, nil, fmt.Errorf("%s record has version %d, this release reads %d: %w", kind(h), v.V, version, ErrNewer)
	case v.V < 1:
		return nil, nil, unreadable(h, value, errors.New("it has no version"))
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if d.Decode(h) == nil {
		return nil, body, nil
	}
	if err := json.Unmarshal(line, h); err != nil {
		return nil, nil, unreadable(h, value, err)
	}
	extra := Extra{}
	if err := json.Unmarshal(line, &extra); err != nil {
		return nil, nil, unreadable(h, value, err)
	}
	if n, ok := h.(nester); ok {
		if err := n.keepNested(line); err != nil {
			return nil, nil, unreadable(h, value, err)
		}
	}
	return extra.without(h), body, nil
}

// A nester is a header with structs in it that keep their unknown fields too.
type nester interface{ keepNested(line []byte) error }

// without drops the names that h, a pointer to a struct, has fields for, in any
// case, as encoding/json matches them.
func (e Extra) without(h any) Extra {
	for f := range reflect.TypeOf(h).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		for other := range e {
			if strings.EqualFold(name, other) {
				delete(e, other)
			}
		}
	}
	if len(e) == 0 {
		return nil
	}
	return e
}

func unreadable(h any, value []byte, err error) error {
	return fmt.Errorf("%s record of %d bytes, %.32q, is not readable: %w", kind(h), len(value), value, err)
}

// kind names the record that h points to.
func kind(h any) string { return strings.ToLower(reflect.TypeOf(h).Elem().Name()) }
