package stores_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
)

func TestProject(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, doc string
		paths     [][]string
		want      string
		read      string
	}{
		{"a member", `{"a":1,"b":{"c":2}}`, [][]string{{"a"}}, `{"a":1}`, `[["a"]]`},
		{"a member, whole", `{"a":1,"b":{"c":2,"d":3}}`, [][]string{{"b"}}, `{"b":{"c":2,"d":3}}`, `[["b"]]`},
		{"a member inside", `{"a":1,"b":{"c":2,"d":3}}`, [][]string{{"b", "c"}}, `{"b":{"c":2}}`, `[["b","c"]]`},
		{"several", `{"c":{"x":1,"y":2,"z":3},"a":1,"b":2}`, [][]string{{"a"}, {"c", "z"}, {"c", "x"}}, `{"c":{"x":1,"z":3},"a":1}`, `[["a"],["c","x"],["c","z"]]`},
		{"whole and inside", `{"b":{"c":2,"d":3}}`, [][]string{{"b", "c"}, {"b"}}, `{"b":{"c":2,"d":3}}`, `[["b"]]`},
		{"absent", `{"a":1}`, [][]string{{"b"}, {"c", "d"}}, `{}`, `[["b"],["c"]]`},
		{"absent inside", `{"a":{"b":1}}`, [][]string{{"a", "c"}}, `{"a":{}}`, `[["a","c"]]`},
		{"through an array", `{"a":[{"b":1,"c":2}],"d":1}`, [][]string{{"a", "b"}}, `{"a":[{"b":1,"c":2}]}`, `[["a"]]`},
		{"through a scalar", `{"a":17}`, [][]string{{"a", "b"}}, `{"a":17}`, `[["a"]]`},
		{"through null", `{"a":null}`, [][]string{{"a", "b"}}, `{"a":null}`, `[["a"]]`},
		{"everything", `{"a":[1, 2]}`, [][]string{{}}, `{"a":[1, 2]}`, `[[]]`},
		{"nothing", `{"a":1}`, nil, `{}`, `[]`},
		{"a root that is no object", ` [1,2]`, [][]string{{"a"}}, ` [1,2]`, `[[]]`},
		{"digits are numbers", `{"0":{"1":1,"2":2}}`, [][]string{{"0", "1"}}, `{"0":{"1":1}}`, `[[0,1]]`},
		{"numbers keep their text", `{"a":12345678901234567890.10}`, [][]string{{"a"}}, `{"a":12345678901234567890.10}`, `[["a"]]`},
		{"another case", `{"TotAl":1,"totals":2}`, [][]string{{"total"}}, `{"TotAl":1}`, `[["total"]]`},
		{"letters that fold", `{"\u212aey\u017f":1}`, [][]string{{"keys"}}, "{\"\u212aey\u017f\":1}", `[["keys"]]`},
		{"all of a name, in their order", `{"a":1,"A":{"b":2},"b":3,"a":4}`, [][]string{{"a"}}, `{"a":1,"A":{"b":2},"a":4}`, `[["a"]]`},
		{"inside all of a name", `{"a":{"b":1,"c":1},"A":{"B":2,"b":3}}`, [][]string{{"a", "b"}}, `{"a":{"b":1},"A":{"B":2,"b":3}}`, `[["a","b"]]`},
		{"inside some of a name", `{"a":{"b":1,"c":1},"A":7}`, [][]string{{"a", "b"}}, `{"a":{"b":1},"A":7}`, `[["a","b"],["a"]]`},
		{"wanted in two cases", `{"a":{"b":1,"c":2,"d":3}}`, [][]string{{"a", "b"}, {"A", "C"}}, `{"a":{"b":1,"c":2}}`, `[["a","b"],["a","C"]]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, read, err := stores.Project(json.RawMessage(c.doc), c.paths)
			if err != nil || string(got) != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			if r := string(text(t, read)); r != c.read {
				t.Errorf("read %s; want %s", r, c.read)
			}
		})
	}
	for _, doc := range []string{``, `{"a":1`, `{} {}`} {
		if got, _, err := stores.Project(json.RawMessage(doc), [][]string{{"a"}}); err == nil || !strings.Contains(err.Error(), "not JSON") {
			t.Errorf("%q gives %s, %v", doc, got, err)
		}
	}
}

// TestProjectionsChangeWithWhatTheyRead: where the projections of two documents
// differ, what was read of the one meets the diff. So who waits with a projection is
// woken.
func TestProjectionsChangeWithWhatTheyRead(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 2))
		before := randomValue(r, 4)
		b, a := muddled(t, r, before), muddled(t, r, mutated(r, before, 4))
		var wanted [][]string
		for range 1 + r.IntN(3) {
			var p []string
			for range 1 + r.IntN(3) {
				p = append(p, names[r.IntN(len(names))])
			}
			wanted = append(wanted, p)
		}
		checkProjection(t, b, a, wanted)
		checkReader(t, b, a)
		if t.Failed() {
			t.Fatalf("seed %d: %v of %s and of %s", seed, wanted, b, a)
		}
	}
}

// A reader has the names of half the members, in one of their cases.
type reader struct {
	A  json.RawMessage `json:"a"`
	B  *reader
	E  any                `json:"é"`
	In struct{ A, C any } `json:"c"`
}

// checkReader: what encoding/json makes of a projection is what it makes of the whole,
// and where that changes, what was read meets the diff.
func checkReader(t *testing.T, before, after []byte) {
	t.Helper()
	wanted := [][]string{{"a"}, {"B"}, {"é"}, {"c", "A"}, {"c", "C"}}
	view, read, err := stores.Project(before, wanted)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := stores.Diff(before, after)
	if err != nil {
		t.Fatal(err)
	}
	var whole, part, next reader
	failure := func(err error) string { return fmt.Sprint(err != nil) }
	failed, same, later := failure(json.Unmarshal(before, &whole)), failure(json.Unmarshal(view, &part)), failure(json.Unmarshal(after, &next))
	if failed != same || !reflect.DeepEqual(whole, part) {
		t.Errorf("of %s a reader makes %+v, of the projection %s %+v", before, whole, view, part)
	}
	if (failed != later || !reflect.DeepEqual(whole, next)) && !stores.Intersect(read, changed) {
		t.Errorf("a reader made %+v, and makes %+v: read %v, changed %v", whole, next, read, changed)
	}
}

// FuzzProject: as TestProjectionsChangeWithWhatTheyRead, of any documents.
func FuzzProject(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"c":2}}`), []byte(`{"a":{"b":2,"c":2}}`), "a", "b")
	f.Add([]byte(`{"a":[1]}`), []byte(`{"a":{"b":1}}`), "a", "b")
	f.Add([]byte(`null`), []byte(`{"7":""}`), "7", "7")
	f.Add([]byte(`{"Total":1}`), []byte(`{"total":1,"TOTAL":2}`), "total", "a")
	f.Add([]byte(`{"a":1,"A":2}`), []byte(`{"A":2,"a":1}`), "a", "b")
	f.Add([]byte(`{"c":{"a":1},"C":{"c":1}}`), []byte(`{"C":{"c":1},"c":{"a":2}}`), "c", "a")
	f.Add([]byte(`{"\ud800":1}`), []byte(`{"\ud801":1}`), "\ufffd", "")
	f.Fuzz(func(t *testing.T, before, after []byte, one, other string) {
		if json.Valid(before) && json.Valid(after) {
			checkProjection(t, before, after, [][]string{{one}, {other, one}, {other, other}})
			checkReader(t, before, after)
		}
	})
}

func checkProjection(t *testing.T, before, after []byte, wanted [][]string) {
	t.Helper()
	changed, err := stores.Diff(before, after)
	if err != nil {
		t.Fatal(err)
	}
	seen, read, err := stores.Project(before, wanted)
	if err != nil {
		t.Fatal(err)
	}
	would, _, err := stores.Project(after, wanted)
	if err != nil {
		t.Fatal(err)
	}
	same, err := stores.Diff(seen, would)
	if err != nil {
		t.Fatal(err)
	}
	if len(same) > 0 && !stores.Intersect(read, changed) {
		t.Errorf("%s became %s: read %v, changed %v", seen, would, read, changed)
	}
}
