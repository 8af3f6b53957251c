package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A path names a part of a document. Its segments are strings and json.Numbers,
// which never equal each other.
type path []any

// parsePaths reads a JSON list of paths.
func parsePaths(raw json.RawMessage) (paths []path, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&paths); err != nil {
		return nil, fmt.Errorf("its paths: %w", err)
	}
	for _, p := range paths {
		for _, segment := range p {
			switch segment.(type) {
			case string, json.Number:
			default:
				return nil, fmt.Errorf("its paths: segment %v is neither a string nor a number", segment)
			}
		}
	}
	return paths, nil
}

// intersect says whether one of either is a prefix of one of the other.
func intersect(as, bs []path) bool {
	for _, a := range as {
		for _, b := range bs {
			n := min(len(a), len(b))
			same := true
			for i := range n {
				same = same && a[i] == b[i]
			}
			if same {
				return true
			}
		}
	}
	return false
}
