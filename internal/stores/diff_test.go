package stores_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, before, after, want string }{
		{"nothing", `{"a":[1,{"b":null}]}`, `{"a":[1,{"b":null}]}`, `[]`},
		{"nothing but layout", `{"a":1,"b":"\u00e9"}`, "{ \"b\" : \"é\" ,\n\"a\":1 }", `[]`},
		{"a member", `{"a":1,"b":2}`, `{"a":1,"b":3}`, `[["b"]]`},
		{"a member deep inside", `{"a":{"b":{"c":1,"d":2}}}`, `{"a":{"b":{"c":2,"d":2}}}`, `[["a","b","c"]]`},
		{"a member comes", `{}`, `{"a":{"b":1}}`, `[["a"]]`},
		{"a member goes", `{"a":{"b":1},"c":1}`, `{"c":1}`, `[["a"]]`},
		{"null is not absent", `{"a":null}`, `{}`, `[["a"]]`},
		{"several, in order", `{"b":1,"a":1,"c":1}`, `{"c":2,"a":2,"b":2}`, `[["a"],["b"],["c"]]`},
		{"another type", `{"a":{"b":1}}`, `{"a":["b"]}`, `[["a"]]`},
		{"an array for an object", `{"a":["b"]}`, `{"a":{"b":1}}`, `[["a"]]`},
		{"a string for a number", `{"a":1}`, `{"a":"1"}`, `[["a"]]`},
		{"null for a value", `{"a":false}`, `{"a":null}`, `[["a"]]`},
		{"the root is of another type", `{"a":1}`, `[1]`, `[[]]`},
		{"the root is a scalar", `1`, `2`, `[[]]`},
		{"the root is an array", `[1,2]`, `[1,3]`, `[[1]]`},
		{"an element", `{"a":[1,2,3]}`, `{"a":[1,5,3]}`, `[["a",1]]`},
		{"an element comes last", `{"a":[1]}`, `{"a":[1,2]}`, `[["a",1],["a","length"]]`},
		{"an element goes first", `{"a":[1,2,2]}`, `{"a":[2,2]}`, `[["a",0],["a",2],["a","length"]]`},
		{"an array becomes empty", `[1,2]`, `[]`, `[[0],[1],["length"]]`},
		{"digits are numbers", `{"0":1,"17":1,"007":1,"-1":1,"1.0":1}`, `{"0":2,"17":2,"007":2,"-1":2,"1.0":2}`, `[["-1"],[0],["007"],["1.0"],[17]]`},
		{"a member called length", `{"length":1}`, `{"length":2}`, `[["length"]]`},
		{"the empty name", `{"":1}`, `{"":2}`, `[[""]]`},
		{"great numbers", `[9007199254740992]`, `[9007199254740993]`, `[[0]]`},
		{"a long fraction", `[0.1000000000000000055511151231257827]`, `[0.1]`, `[[0]]`},
		{"one name twice", `{"x":{"a":1,"a":2},"y":1}`, `{"x":{"a":2},"y":1}`, `[["x"]]`},
		{"one name twice, in another order", `{"x":{"a":1,"a":2}}`, `{"x":{"a":2,"a":1}}`, `[["x"]]`},
		{"one name in two cases", `{"x":{"a":1,"A":2,"b":1}}`, `{"x":{"A":2,"a":1,"b":1}}`, `[["x"]]`},
		{"one name in two cases since", `{"x":{"a":1}}`, `{"x":{"a":1,"A":1}}`, `[["x"]]`},
		{"one name in two cases, and nothing else", `{"x":{"a":1,"A":[{"b":2}]},"y":1}`, `{"y":2, "x":{"a":1,"A":[{"b":2}]}}`, `[["y"]]`},
		{"another case", `{"a":1}`, `{"A":1}`, `[["A"],["a"]]`},
		{"halves of surrogate pairs", `["\ud800"]`, `["\ud801"]`, `[[0]]`},
		{"names with halves of surrogate pairs", `{"a\ud800":1,"a\ud801":1}`, `{"a\ud800":2,"a\ud801":1}`, `[[]]`},
		{"a name with half of a surrogate pair", `{"a\ud800":1}`, `{"a\ud801":1}`, "[[\"a\ufffd\"]]"},
		{"names beyond what floats tell apart", `{"9007199254740993":1}`, `{"9007199254740993":2}`, `[[9007199254740992]]`},
		{"names beyond 64 bits", `{"99999999999999999999":1}`, `{"99999999999999999999":2}`, `[[9007199254740992]]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := stores.Diff(json.RawMessage(c.before), json.RawMessage(c.after))
			if err != nil || !reflect.DeepEqual(append(stores.Paths{}, got...), paths(t, c.want)) {
				t.Errorf("got %v, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestDiffRefusesWhatIsNotJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, before, after, want string }{
		{"before", `{`, `{}`, "before the change"},
		{"after", `{}`, ``, "after the change"},
		{"two values", `1 2`, `1`, "more than one value"},
		{"the same on both sides", `nul`, `nul`, "before the change"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got, err := stores.Diff(json.RawMessage(c.before), json.RawMessage(c.after)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestDiffIsBounded(t *testing.T) {
	t.Parallel()
	list := func(value string, n int) string {
		return "[" + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + "]"
	}
	for _, c := range []struct{ name, before, after, want string }{
		{"at the bound", list("1", 256), list("2", 256), ""},
		{"an array over it", `{"a":` + list("1", 257) + `,"b":{"c":1}}`, `{"a":` + list("2", 257) + `,"b":{"c":2}}`, `[["a"],["b"]]`},
		{"deeper than its neighbour", `{"a":{"x":` + list("1", 300) + `},"b":{"c":1}}`, `{"a":{"x":` + list("2", 300) + `},"b":{"c":2}}`, `[["a","x"],["b","c"]]`},
		{"the root", list("1", 300), list("2", 300), `[[]]`},
		{"long names", `{"` + strings.Repeat("x", 20<<10) + `":{"a":1,"b":1}}`, `{"` + strings.Repeat("x", 20<<10) + `":{"a":2,"b":2}}`, `[["` + strings.Repeat("x", 20<<10) + `"]]`},
		{"a name too long", `{"` + strings.Repeat("x", 40<<10) + `":1}`, `{"` + strings.Repeat("x", 40<<10) + `":2}`, `[[]]`},
		{"too deep", strings.Repeat("[", 9000) + "1" + strings.Repeat("]", 9000), strings.Repeat("[", 9000) + "2" + strings.Repeat("]", 9000), "deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := stores.Diff(json.RawMessage(c.before), json.RawMessage(c.after))
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(got)
			if err != nil || len(text) > 64<<10 || len(got) > 256 {
				t.Fatalf("%d paths of %d bytes, %v", len(got), len(text), err)
			}
			switch {
			case c.want == "" && len(got) != 256:
				t.Errorf("got %d paths, want all 256", len(got))
			case c.want == "deep" && (len(got) != 1 || len(got[0]) < 1000):
				t.Errorf("got %d paths; want one that goes deep", len(got))
			case c.want != "" && c.want != "deep" && string(text) != c.want:
				t.Errorf("got %.200s; want %.200s", text, c.want)
			}
		})
	}
}

// TestDiffUnderReportsNothing: of random documents, whatever differs at a path is met
// by the diff.
func TestDiffUnderReportsNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		before := randomValue(r, 4)
		b, a := muddled(t, r, before), muddled(t, r, mutated(r, before, 4))
		checkDiff(t, b, a)
		if t.Failed() {
			t.Fatalf("seed %d: before %s, after %s", seed, b, a)
		}
	}
}

// FuzzDiff: as TestDiffUnderReportsNothing, of any documents.
func FuzzDiff(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":2}]}`), []byte(`{"a":[1,{"b":3}],"c":null}`))
	f.Add([]byte(`{"a":1,"a":2}`), []byte(`{"a":2.0}`))
	f.Add([]byte(`{"007":[],"7":""}`), []byte(`{"7":"x","007":[0]}`))
	f.Add([]byte(`["\ud800"]`), []byte(`["\ud801"]`))
	f.Add([]byte(`{"length":[[[]]]}`), []byte(`[[{}]]`))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		if !json.Valid(before) || !json.Valid(after) {
			if got, err := stores.Diff(before, after); err == nil {
				t.Errorf("%q and %q give %v, want an error", before, after, got)
			}
			return
		}
		checkDiff(t, before, after)
	})
}

// checkDiff compares the documents at every path that one of them has, and a little
// beyond.
func checkDiff(t *testing.T, before, after []byte) {
	t.Helper()
	changed, err := stores.Diff(before, after)
	if err != nil {
		t.Fatal(err)
	}
	b, a := flatten(t, before), flatten(t, after)
	for key, path := range merge(b, a) {
		if b[key].value == a[key].value && b[key].found == a[key].found {
			continue
		}
		if !stores.Intersect(stores.Paths{path}, changed) {
			t.Errorf("%v differs, %q and %q, but the diff is %v", path, b[key].value, a[key].value, changed)
		}
	}
	if len(changed) > 256 {
		t.Errorf("%d paths", len(changed))
	}
}

// A place is what a document has at a path.
type place struct {
	path  stores.Path
	value string // as canonical JSON
	found bool
}

func flatten(t *testing.T, doc []byte) map[string]place {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(doc)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	places := map[string]place{}
	walk(v, nil, places)
	return places
}

func walk(v any, at stores.Path, places map[string]place) {
	if len(places) > 2000 {
		return
	}
	canonical, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	p := append(stores.Path{}, at...)
	places[fmt.Sprintf("%#v", p)] = place{p, string(canonical), true}
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			walk(inner, append(p, segment(name)), places)
		}
	case []any:
		for i, inner := range v {
			walk(inner, append(p, int64(i)), places)
		}
		walk(json.Number(strconv.Itoa(len(v))), append(p, "length"), places)
	}
}

// segment is told apart from the code under test: digits make a number.
func segment(name string) any {
	if n, err := strconv.ParseInt(name, 10, 64); err == nil && n >= 0 && n < 1<<53 && strconv.FormatInt(n, 10) == name {
		return n
	}
	return name
}

func merge(a, b map[string]place) map[string]stores.Path {
	all := map[string]stores.Path{}
	for _, m := range []map[string]place{a, b} {
		for key, p := range m {
			all[key] = p.path
		}
	}
	return all
}

var names = []string{"a", "b", "c", "A", "C", "0", "1", "12", "007", "length", "", "é", "É", "a/b"}

// muddled renders the value as JSON, in some documents with members in any order, some
// of them twice.
func muddled(t *testing.T, r *rand.Rand, v any) []byte {
	t.Helper()
	if r.IntN(2) == 0 {
		return text(t, v)
	}
	switch v := v.(type) {
	case map[string]any:
		var members []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			for range 1 + r.IntN(8)/7 {
				members = append(members, string(text(t, name))+":"+string(muddled(t, r, v[name])))
			}
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return []byte("{" + strings.Join(members, ",") + "}")
	case []any:
		elements := make([]string, len(v))
		for i := range v {
			elements[i] = string(muddled(t, r, v[i]))
		}
		return []byte("[" + strings.Join(elements, ",") + "]")
	}
	return text(t, v)
}

func randomValue(r *rand.Rand, depth int) any {
	if depth == 0 {
		return scalar(r)
	}
	switch r.IntN(5) {
	case 0, 1:
		m := map[string]any{}
		for range r.IntN(5) {
			m[names[r.IntN(len(names))]] = randomValue(r, depth-1)
		}
		return m
	case 2:
		return list(r, r.IntN(5), depth-1)
	case 3:
		if r.IntN(20) == 0 {
			return list(r, 300+r.IntN(100), 0)
		}
	}
	return scalar(r)
}

func list(r *rand.Rand, n, depth int) any {
	l := make([]any, n)
	for i := range l {
		l[i] = randomValue(r, depth)
	}
	return l
}

func scalar(r *rand.Rand) any {
	return []any{nil, true, false, "", "x", "1", json.Number("1"), json.Number("1.0"), json.Number("12345678901234567890")}[r.IntN(9)]
}

// mutated returns a value that has something in common with the given one.
func mutated(r *rand.Rand, v any, depth int) any {
	if r.IntN(6) == 0 {
		return randomValue(r, depth)
	}
	switch v := v.(type) {
	case map[string]any:
		m := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if r.IntN(6) > 0 {
				m[name] = mutated(r, v[name], max(depth-1, 0))
			}
		}
		if r.IntN(3) == 0 {
			m[names[r.IntN(len(names))]] = randomValue(r, max(depth-1, 0))
		}
		return m
	case []any:
		l := []any{}
		for _, inner := range v {
			if r.IntN(8) > 0 {
				l = append(l, mutated(r, inner, max(depth-1, 0)))
			}
		}
		return l
	}
	return v
}

func text(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
