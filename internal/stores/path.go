package stores

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Path leads from the root of a document to a value in it. Its segments are
// strings and integers: members of an object by their names, elements of an array by
// their indices, and "length" for how many elements there are. A name that is all
// digits, without a leading zero, is an integer too, as runtimes of other languages
// have it. The empty path is the root.
type Path []any

// Paths are the values that somebody has read, or that a mutation has changed. As
// JSON they are a list of lists: [["messages",0],["status"]].
type Paths []Path

// with returns the paths and one more, unless it is there.
func (p Paths) with(path Path) Paths {
	if slices.ContainsFunc(p, func(q Path) bool { return slices.Equal(q, path) }) {
		return p
	}
	return append(p, path)
}

// maxExact is where floating point stops to tell integers apart. Segments beyond it
// are taken for equal, since a runtime whose numbers are floats may have rounded one.
const maxExact = 1 << 53

// ParsePaths reads the JSON form. It takes nothing but lists of lists of strings and
// whole numbers; anything else gives an [*execution.InvalidError] that says where.
func ParsePaths(raw []byte) (Paths, error) {
	refuse := func(where string, value []byte, reason string) (Paths, error) {
		return nil, &execution.InvalidError{What: "paths" + where, Value: excerpt(value), Reason: reason}
	}
	var lists []json.RawMessage
	if err := json.Unmarshal(raw, &lists); err != nil || lists == nil {
		return refuse("", raw, "are not a JSON list of paths"+because(err))
	}
	paths := make(Paths, len(lists))
	for i, list := range lists {
		var segments []json.RawMessage
		if err := json.Unmarshal(list, &segments); err != nil || segments == nil {
			return refuse(fmt.Sprintf("[%d]", i), list, "is not a list of strings and whole numbers")
		}
		paths[i] = make(Path, len(segments))
		for j, text := range segments {
			segment, ok := parseSegment(text)
			if !ok {
				return refuse(fmt.Sprintf("[%d][%d]", i, j), text, "is neither a string nor a whole number")
			}
			paths[i][j] = segment
		}
	}
	return paths, nil
}

func because(err error) string {
	if err == nil {
		return "" // it was null
	}
	return ": " + err.Error()
}

// excerpt bounds what an error quotes.
func excerpt(text []byte) string {
	if len(text) > 32 {
		return string(text[:32]) + "…"
	}
	return string(text)
}

// parseSegment reads one segment, which is valid JSON.
func parseSegment(text json.RawMessage) (any, bool) {
	switch c := text[0]; {
	case c == '"':
		var s string
		err := json.Unmarshal(text, &s)
		return s, err == nil
	case c == '-' || '0' <= c && c <= '9':
		return wholeNumber(string(text))
	}
	return nil, false
}

// wholeNumber returns the integer that the JSON number is.
func wholeNumber(text string) (any, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return exact(n), true
	}
	f, _ := strconv.ParseFloat(text, 64) // infinite where it is out of range
	if f != math.Trunc(f) {
		return nil, false
	}
	return exact(int64(max(-maxExact, min(f, maxExact)))), true
}

func exact(n int64) int64 { return max(-maxExact, min(n, maxExact)) }

// segmentOf returns the segment by which a member of an object is known.
func segmentOf(name string) any {
	for i := range len(name) {
		if name[i] < '0' || name[i] > '9' {
			return name
		}
	}
	if name == "" || name[0] == '0' && name != "0" {
		return name
	}
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil {
		n = maxExact
	}
	return exact(n)
}

// MarshalJSON renders the paths; no paths are [].
func (p Paths) MarshalJSON() ([]byte, error) {
	lists := make([][]any, len(p))
	for i, path := range p {
		lists[i] = make([]any, len(path))
		for j, segment := range path {
			switch s := segment.(type) {
			case string, int64, int:
				lists[i][j] = s
			default:
				return nil, fmt.Errorf("segment %d of path %d is a %T: want a string or an int64", j, i, segment)
			}
		}
	}
	return json.Marshal(lists)
}

// Intersect says whether a change of the one paths can be seen by who has read the
// others: one path of either is the beginning of, or is, one of the other. So a
// change of the root is seen by whoever has read anything, and who has read nothing
// sees no change. Names that differ in case alone are the same, as they are to Go's
// encoding/json.
func Intersect(read, changed Paths) bool {
	return slices.ContainsFunc(read, func(r Path) bool { return slices.ContainsFunc(changed, r.meets) })
}

// meets says whether one of the paths is the beginning of the other.
func (p Path) meets(q Path) bool {
	for i := range min(len(p), len(q)) {
		if !sameSegment(p[i], q[i]) {
			return false
		}
	}
	return true
}

// sameSegment compares by type, too: the number 0 is not the string "0".
func sameSegment(a, b any) bool {
	x, isText := a.(string)
	y, areTexts := b.(string)
	if isText && areTexts {
		return strings.EqualFold(x, y)
	}
	return widen(a) == widen(b)
}

// widen lets a path that is written in Go hold plain ints.
func widen(segment any) any {
	if n, is := segment.(int); is {
		return int64(n)
	}
	return segment
}
