package stores

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// An object is a JSON object as it is written. Who reads it may take members for the
// same whose names differ in case alone, and put one after the other into one value.
type object struct {
	list    []member
	byName  map[string]any // of members with the same name the last one
	doubled bool           // there are such members
}

type member struct {
	name  string
	value any
}

// decodeDocument returns a document as values of the types *object, []any, string,
// json.Number, bool and nil.
func decodeDocument(doc []byte) (any, error) {
	whole := json.NewDecoder(bytes.NewReader(doc))
	var raw json.RawMessage
	if err := whole.Decode(&raw); err != nil {
		return nil, err
	}
	if _, err := whole.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one value")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return decodeValue(d)
}

func decodeValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	switch {
	case err != nil:
		return nil, err
	case token == json.Delim('{'):
		return decodeObject(d)
	case token == json.Delim('['):
		return decodeList(d)
	}
	return token, nil
}

func decodeObject(d *json.Decoder) (*object, error) {
	o, folded := &object{byName: map[string]any{}}, map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		value, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		name, _ := token.(string) // the decoder sees to it
		o.list, o.byName[name] = append(o.list, member{name, value}), value
		f := fold(name)
		o.doubled = o.doubled || folded[f]
		folded[f] = true
	}
	_, err := d.Token()
	return o, err
}

func decodeList(d *json.Decoder) ([]any, error) {
	list := []any{}
	for d.More() {
		value, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		list = append(list, value)
	}
	_, err := d.Token()
	return list, err
}

// identical says whether the values are written alike, all members in the same order.
func identical(a, b any) bool {
	switch a := a.(type) {
	case *object:
		b, is := b.(*object)
		return is && slices.EqualFunc(a.list, b.list, func(x, y member) bool {
			return x.name == y.name && !doubtful(x.name) && identical(x.value, y.value)
		})
	case []any:
		b, is := b.([]any)
		return is && slices.EqualFunc(a, b, identical)
	case string:
		return a == b && !doubtful(a)
	}
	switch b.(type) {
	case *object, []any:
		return false // which == can't compare
	}
	return a == b
}
