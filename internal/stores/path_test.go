package stores_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestParsePaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, raw string
		want      stores.Paths
		fault     string // part of the error
	}{
		{"no paths", `[]`, stores.Paths{}, ""},
		{"the root", ` [ [] ] `, stores.Paths{{}}, ""},
		{"names and indices", `[["messages",0,"text"],["status"]]`, stores.Paths{{"messages", int64(0), "text"}, {"status"}}, ""},
		{"digits in quotes stay a string", `[["0"]]`, stores.Paths{{"0"}}, ""},
		{"the empty name", `[[""]]`, stores.Paths{{""}}, ""},
		{"escapes", `[["a\u00e9\"\\\n"]]`, stores.Paths{{"aé\"\\\n"}}, ""},
		{"whole numbers in other words", `[[1.0,2e1,-3]]`, stores.Paths{{int64(1), int64(20), int64(-3)}}, ""},
		{"beyond what floats tell apart", `[[9007199254740993,1e+21,1e999,-1e999]]`, stores.Paths{{int64(1 << 53), int64(1 << 53), int64(1 << 53), int64(-1 << 53)}}, ""},
		{"nothing", ``, nil, "are not a JSON list of paths"},
		{"no JSON", `[[`, nil, "are not a JSON list of paths"},
		{"two values", `[][]`, nil, "are not a JSON list of paths"},
		{"null", `null`, nil, "are not a JSON list of paths"},
		{"an object", `{"a":[]}`, nil, "are not a JSON list of paths"},
		{"a path that is a string", `[["a"],"b"]`, nil, `paths[1] "\"b\"" is not a list of strings and whole numbers`},
		{"a path that is null", `[null]`, nil, `paths[0] "null" is not a list`},
		{"a fraction", `[["a"],["b",1.5]]`, nil, `paths[1][1] "1.5" is neither a string nor a whole number`},
		{"null in a path", `[[null]]`, nil, `paths[0][0] "null" is neither a string nor a whole number`},
		{"a truth value in a path", `[[true]]`, nil, `paths[0][0] "true" is`},
		{"a list in a path", `[[["a"]]]`, nil, `paths[0][0] "[\"a\"]" is`},
		{"an object in a path", `[[{"a":1}]]`, nil, `paths[0][0] "{\"a\":1}" is`},
		{"something long", `[[["` + strings.Repeat("x", 1000) + `"]]]`, nil, "x…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := stores.ParsePaths([]byte(c.raw))
			if c.fault == "" {
				if err != nil || !reflect.DeepEqual(got, c.want) {
					t.Errorf("got %#v, %v\nwant %#v", got, err, c.want)
				}
				return
			}
			if _, is := errors.AsType[*execution.InvalidError](err); !is || !strings.Contains(err.Error(), c.fault) || got != nil {
				t.Errorf("got %#v, %v\nwant an invalid error with %q", got, err, c.fault)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func TestMarshalPaths(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		paths stores.Paths
		want  string
	}{
		{"none", nil, `[]`},
		{"the root", stores.Paths{nil}, `[[]]`},
		{"names and indices", stores.Paths{{"messages", int64(0)}, {"status"}, {"0", 7}}, `[["messages",0],["status"],["0",7]]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := json.Marshal(c.paths)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
	if got, err := json.Marshal(stores.Paths{{"a", 1.5}}); err == nil || !strings.Contains(err.Error(), "segment 1 of path 0 is a float64") {
		t.Errorf("a float gives %s, %v", got, err)
	}
}

func TestIntersect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		read, changed string
		want          bool
	}{
		{"the same", `[["a",0]]`, `[["a",0]]`, true},
		{"read above the change", `[["a"]]`, `[["a",0,"b"]]`, true},
		{"read below the change", `[["a",0,"b"]]`, `[["a"]]`, true},
		{"beside", `[["a",0]]`, `[["a",1]]`, false},
		{"beside, further down", `[["a",0,"b"]]`, `[["a",0,"c","d"]]`, false},
		{"another case", `[["Total","É"]]`, `[["tOTAL","é"]]`, true},
		{"a name that begins with the other", `[["ab"]]`, `[["a"]]`, false},
		{"the number is not the string", `[["a",0]]`, `[["a","0"]]`, false},
		{"one of several", `[["x"],["y",1]]`, `[["z"],["y",1,"w"]]`, true},
		{"the root has changed", `[["a"]]`, `[[]]`, true},
		{"the root was read", `[[]]`, `[["a"]]`, true},
		{"nothing was read", `[]`, `[[]]`, false},
		{"nothing has changed", `[[]]`, `[]`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			read, changed := paths(t, c.read), paths(t, c.changed)
			if got := stores.Intersect(read, changed); got != c.want {
				t.Errorf("read %s, changed %s: got %t", c.read, c.changed, got)
			}
			if got := stores.Intersect(changed, read); got != c.want {
				t.Errorf("the other way round: got %t", got)
			}
		})
	}
	if !stores.Intersect(stores.Paths{{"a", 0}}, stores.Paths{{"a", int64(0)}}) {
		t.Error("an int is not the int64 of the same value")
	}
}

func paths(t *testing.T, raw string) stores.Paths {
	t.Helper()
	p, err := stores.ParsePaths([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// FuzzParsePaths: what is read is rendered as what reads the same, and anything else
// is refused by an error.
func FuzzParsePaths(f *testing.F) {
	for _, s := range []string{`[]`, `[[]]`, `[["a",0],["0"]]`, `[[1e2,-0,1.5]]`, `[["\ud800"]]`, `[[9007199254740993]]`, `[null]`, `{`, `[["` + "\xff" + `"]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		first, err := stores.ParsePaths(raw)
		if err != nil {
			if _, is := errors.AsType[*execution.InvalidError](err); !is {
				t.Errorf("%q: %v", raw, err)
			}
			return
		}
		again, err := json.Marshal(first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := stores.ParsePaths(again)
		if err != nil || !reflect.DeepEqual(first, second) {
			t.Errorf("%q is %#v, rendered %s, which is %#v, %v", raw, first, again, second, err)
		}
	})
}
