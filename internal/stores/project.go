package stores

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Project returns the document without what lies beside the given paths of member
// names, and the paths that a reader of it has read: a change that they do not meet
// leaves the projection as it is. A member that is absent stays so. A path that leads
// through anything but an object, an array for instance, keeps that value whole, and
// the empty path keeps everything.
//
// A member is kept, as often as it is there, if its name differs from a given one in
// case alone: encoding/json may put all of these into one field, in their order.
func Project(doc json.RawMessage, paths [][]string) (json.RawMessage, Paths, error) {
	if !json.Valid(doc) {
		return nil, nil, errors.New("document is not JSON")
	}
	root := &wanted{}
	for _, p := range paths {
		root.add(p)
	}
	var read Paths
	out, err := root.project(doc, Path{}, &read)
	if err != nil {
		return nil, nil, fmt.Errorf("document: %w", err)
	}
	return out, read, nil
}

// A wanted is a value that is kept whole, or of which some members are.
type wanted struct {
	name    string
	whole   bool
	members map[string]*wanted // by their folded names
}

func (w *wanted) add(path []string) {
	if len(path) == 0 {
		w.whole = true
		return
	}
	inner, found := w.members[fold(path[0])]
	if !found {
		inner = &wanted{name: path[0]}
		if w.members == nil {
			w.members = map[string]*wanted{}
		}
		w.members[fold(path[0])] = inner
	}
	inner.add(path[1:])
}

// project returns what is wanted of the value, which is at the path, and appends the
// paths that were read.
func (w *wanted) project(value json.RawMessage, at Path, read *Paths) (json.RawMessage, error) {
	if w.whole || !isObject(value) {
		*read = read.with(at)
		return value, nil
	}
	kept, below := []byte{'{'}, map[string]*Paths{} // what was read, by the folded names
	err := eachMember(value, func(name string, inner json.RawMessage) error {
		f := fold(name)
		want := w.members[f]
		if want == nil {
			return nil
		}
		if below[f] == nil {
			below[f] = &Paths{}
		}
		out, err := want.project(inner, want.below(at), below[f])
		if err != nil {
			return err
		}
		kept, err = appendMember(kept, name, out)
		return err
	})
	for _, f := range slices.Sorted(maps.Keys(w.members)) {
		if below[f] == nil {
			*read = read.with(w.members[f].below(at))
			continue
		}
		for _, path := range *below[f] {
			*read = read.with(path)
		}
	}
	return append(kept, '}'), err
}

// below returns the path of the member in the value at the path.
func (w *wanted) below(at Path) Path { return append(slices.Clone(at), segmentOf(w.name)) }

// eachMember calls fn for the members of an object as they come.
func eachMember(object json.RawMessage, fn func(name string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		name, _ := token.(string) // the decoder sees to it
		if err := fn(name, value); err != nil {
			return err
		}
	}
	return nil
}

func appendMember(object []byte, name string, value json.RawMessage) ([]byte, error) {
	quoted, err := json.Marshal(name)
	if err != nil {
		return nil, err
	}
	if len(object) > 1 {
		object = append(object, ',')
	}
	return append(append(append(object, quoted...), ':'), value...), nil
}

// isObject says whether the valid JSON is an object.
func isObject(value json.RawMessage) bool {
	for _, c := range value {
		switch c {
		case ' ', '\t', '\r', '\n':
		default:
			return c == '{'
		}
	}
	return false
}
