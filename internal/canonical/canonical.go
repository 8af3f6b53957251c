// Package canonical gives JSON one form, in which two documents that say the same are
// the same bytes: requests that may be repeated are compared, and kept, in it.
//
// The form is JSON without white space, the members of objects sorted by the bytes of
// their names. A number is written by its value, which is kept exactly: 1.0 and 1e0 are
// 1, and -0 is 0. A string is written as it is but for the escapes that JSON demands.
// What has no single meaning is refused: objects with one name twice, text that is no
// valid Unicode, and numbers beyond those of a float64, which other languages read as
// infinite.
//
// It depends on nothing but the document. The form is frozen: what one release
// recorded, every later one compares with.
package canonical

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// JSON returns the document in the canonical form. The error says what of it has none.
func JSON(doc []byte) ([]byte, error) {
	if !json.Valid(doc) {
		return nil, errors.New("it is not JSON")
	}
	if !utf8.Valid(doc) || HalfSurrogate(doc) != "" {
		return nil, errors.New("it holds text that is not valid Unicode")
	}
	in := json.NewDecoder(bytes.NewReader(doc))
	in.UseNumber()
	v, err := read(in)
	if err != nil {
		return nil, err
	}
	return write(make([]byte, 0, len(doc)), v), nil
}

// A value that was read is a string, a list, an object or, of what is written as it is,
// a literal.
type (
	literal string
	list    []any
	object  []member
)

// A member is one of an object.
type member struct {
	name  string
	value any
}

// read reads one value.
func read(in *json.Decoder) (any, error) {
	token, err := in.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return readObject(in)
		}
		return readList(in)
	case json.Number:
		return number(v.String())
	case string:
		return v, nil
	case bool:
		return literal(strconv.FormatBool(v)), nil
	}
	return literal("null"), nil
}

func readList(in *json.Decoder) (list, error) {
	var l list
	for in.More() {
		v, err := read(in)
		if err != nil {
			return nil, err
		}
		l = append(l, v)
	}
	_, err := in.Token() // the end
	return l, err
}

func readObject(in *json.Decoder) (object, error) {
	var o object
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return nil, err
		}
		v, err := read(in)
		if err != nil {
			return nil, err
		}
		o = append(o, member{name: name.(string), value: v}) //nolint:forcetypeassert // as every name of a valid document
	}
	slices.SortFunc(o, func(a, b member) int { return strings.Compare(a.name, b.name) })
	for i := 1; i < len(o); i++ {
		if o[i].name == o[i-1].name {
			return nil, fmt.Errorf("it has the member %.64q twice in one object", o[i].name)
		}
	}
	_, err := in.Token() // the end
	return o, err
}

// write appends the value.
func write(out []byte, value any) []byte {
	switch v := value.(type) {
	case literal:
		return append(out, v...)
	case string:
		return writeString(out, v)
	case list:
		out = append(out, '[')
		for i, element := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = write(out, element)
		}
		return append(out, ']')
	case object:
		out = append(out, '{')
		for i, m := range v {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(writeString(out, m.name), ':')
			out = write(out, m.value)
		}
		return append(out, '}')
	}
	panic(fmt.Sprintf("canonical: a value of type %T", value)) // read makes no other
}

const hexDigits = "0123456789abcdef"

// writeString appends a string of valid UTF-8.
func writeString(out []byte, s string) []byte {
	out = append(out, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, '\\', 'n')
		case c == '\r':
			out = append(out, '\\', 'r')
		case c == '\t':
			out = append(out, '\\', 't')
		case c < 0x20:
			out = append(out, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
