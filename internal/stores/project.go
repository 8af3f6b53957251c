package stores

import (
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
	whole   bool
	members map[string]*wanted
}

func (w *wanted) add(path []string) {
	if len(path) == 0 {
		w.whole = true
		return
	}
	inner, found := w.members[path[0]]
	if !found {
		inner = &wanted{}
		if w.members == nil {
			w.members = map[string]*wanted{}
		}
		w.members[path[0]] = inner
	}
	inner.add(path[1:])
}

// project returns what is wanted of the value, which is at the path, and appends the
// paths that were read.
func (w *wanted) project(value json.RawMessage, at Path, read *Paths) (json.RawMessage, error) {
	if w.whole || !isObject(value) {
		*read = append(*read, at)
		return value, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(value, &all); err != nil {
		return nil, err
	}
	kept := map[string]json.RawMessage{}
	for _, name := range slices.Sorted(maps.Keys(w.members)) {
		below := append(slices.Clone(at), segmentOf(name))
		inner, found := all[name]
		if !found {
			*read = append(*read, below)
			continue
		}
		out, err := w.members[name].project(inner, below, read)
		if err != nil {
			return nil, err
		}
		kept[name] = out
	}
	return json.Marshal(kept)
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
