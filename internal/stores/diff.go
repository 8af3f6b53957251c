package stores

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"
)

// diffPaths and diffBytes bound what Diff returns. A segment counts as its name and
// segmentBytes.
const (
	diffPaths    = 256
	diffBytes    = 32 << 10
	segmentBytes = 12
)

// Diff returns the paths of the values by which two JSON documents differ. A value
// of another type is named by its own path, and so is one that comes or goes; of an
// array the elements are compared by their indices, and its "length" is named where
// that differs. Whatever a reader finds at a path that [Intersect] does not meet is
// the same in both documents.
//
// Numbers are compared by their text, so that no precision is lost: 1 and 1.0 differ.
// An object with members whose names are the same, or differ in case alone, is compared
// as it is written, and named as a whole: what a reader finds in it depends on their
// order. Where more than 256 paths differ,
// or paths of more than 32 KiB, values are named in place of what is in them, the
// deepest first: at worst the root alone.
func Diff(before, after json.RawMessage) (Paths, error) {
	if bytes.Equal(before, after) && json.Valid(before) {
		return nil, nil
	}
	b, err := decodeDocument(before)
	if err != nil {
		return nil, fmt.Errorf("document before the change is not JSON: %w", err)
	}
	a, err := decodeDocument(after)
	if err != nil {
		return nil, fmt.Errorf("document after the change is not JSON: %w", err)
	}
	root, changed := compare(b, a)
	if !changed {
		return nil, nil
	}
	return root.paths(), nil
}

// A change is a value that differs.
type change struct {
	segment any      // of the value in the one around it
	inner   []change // what differs in it; none: the value as such
}

// compare returns what differs between the values, and whether anything does.
func compare(before, after any) (change, bool) {
	switch b := before.(type) {
	case *object:
		a, is := after.(*object)
		if !is || a.doubled || b.doubled {
			return change{}, !identical(b, after)
		}
		return within(compareMembers(b.byName, a.byName))
	case []any:
		if a, is := after.([]any); is {
			return within(compareElements(b, a))
		}
		return change{}, true
	}
	return change{}, !identical(before, after)
}

func within(inner []change) (change, bool) { return change{inner: inner}, len(inner) > 0 }

// doubtful says whether the string may be another one than it seems: half of a
// surrogate pair is decoded as U+FFFD, whichever it is. Other languages tell them
// apart.
func doubtful(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }

func compareMembers(before, after map[string]any) []change {
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, both := before[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var inner []change
	for _, name := range names {
		b, had := before[name]
		a, has := after[name]
		c, changed := change{}, true
		if had && has && !doubtful(name) {
			c, changed = compare(b, a)
		}
		if changed {
			c.segment = segmentOf(name)
			inner = append(inner, c)
		}
	}
	return inner
}

func compareElements(before, after []any) []change {
	var inner []change
	for i := range max(len(before), len(after)) {
		c, changed := change{}, true
		if i < len(before) && i < len(after) {
			c, changed = compare(before[i], after[i])
		}
		if changed {
			c.segment = int64(i)
			inner = append(inner, c)
		}
	}
	if len(before) != len(after) {
		inner = append(inner, change{segment: "length"})
	}
	return inner
}

// paths lists the paths in the change, as long as they may be within the bounds.
func (c *change) paths() Paths {
	tooDeep := sort.Search(c.depth()+1, func(depth int) bool {
		n, size := c.measure(depth, 0)
		return n > diffPaths || size > diffBytes
	})
	var out Paths
	c.list(tooDeep-1, nil, &out)
	return out
}

// depth returns the length of the longest path.
func (c *change) depth() int {
	deepest := 0
	for i := range c.inner {
		deepest = max(deepest, 1+c.inner[i].depth())
	}
	return deepest
}

// measure counts the paths of at most the given length, and their bytes.
func (c *change) measure(depth, above int) (n, size int) {
	if depth == 0 || len(c.inner) == 0 {
		return 1, above
	}
	for i := range c.inner {
		own := segmentBytes
		if name, is := c.inner[i].segment.(string); is {
			own += len(name)
		}
		m, s := c.inner[i].measure(depth-1, above+own)
		n, size = n+m, size+s
	}
	return n, size
}

// list appends the paths of at most the given length; at is where the change is.
func (c *change) list(depth int, at Path, out *Paths) {
	if depth == 0 || len(c.inner) == 0 {
		*out = append(*out, append(Path{}, at...))
		return
	}
	for i := range c.inner {
		c.inner[i].list(depth-1, append(at, c.inner[i].segment), out)
	}
}
