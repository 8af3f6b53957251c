package store_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/pkg/store"
)

type base struct {
	ID   string `json:"id"`
	Tags []note
}

type shelf struct {
	base
	*owner
	Named  base `json:"named"`
	Plain  string
	Empty  string `json:",omitempty"` //nolint:tagliatelle // the name is the field's
	Secret string `json:"-"`
	When   time.Time
	Raw    json.RawMessage
	Deep   **base
	Any    any
	hidden string
}

// fault returns why a wait for a store of T's is refused.
func fault[T any](s *scene, opts ...store.WaitOption) string {
	_, err := store.When(s, "s", store.Define[T]("kind").At("x"), func(T) (int, bool) { return 0, false }, opts...)
	if s.call.Misuse == nil {
		return ""
	}
	return err.Error()
}

// TestReadsKnowsTheMembers: a wait for a member that the state can't have would never
// be woken, and is refused.
func TestReadsKnowsTheMembers(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	_ = shelf{hidden: ""}.hidden
	for _, c := range []struct {
		name, path string
		want       string // of the error; empty: it is fine
	}{
		{"a field's name", "Plain", ""},
		{"a field with options only", "Empty", ""},
		{"an embedded struct's", "id", ""},
		{"an embedded struct's, without a tag", "Tags", ""},
		{"an embedded pointer's", "age", ""},
		{"a member inside", "named.id", ""},
		{"inside a list", "named.Tags.text", ""},
		{"inside pointers", "Deep.id", ""},
		{"inside anything", "Any.thing", ""},
		{"inside raw JSON", "Raw.thing", ""},
		{"of a type with JSON of its own", "When.second", ""},
		{"called like what is left out", "-", `"-"`},
		{"another case", "plain", `"plain"`},
		{"the field of a tag", "Named", `"Named"`},
		{"a secret", "Secret", `"Secret"`},
		{"a hidden one", "hidden", `"hidden"`},
		{"an embedded struct's own name", "base", `"base"`},
		{"missing inside", "named.none", `"named.none", which the JSON of a store_test.base doesn't have`},
		{"missing inside pointers", "Deep.none", `"Deep.none"`},
		{"inside a string", "Plain.length", `"Plain.length" of a string, which has none`},
		{"empty", "", `""`},
	} {
		got := fault[shelf](s, store.ReadsPath(strings.Split(c.path, ".")...))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q; want %q", c.name, got, c.want)
		}
	}
	for name, got := range map[string]string{
		"of a map":    fault[map[string]int](s, store.Reads("anything")),
		"of anything": fault[any](s, store.Reads("anything")),
		"of a list":   fault[[]int](s, store.Reads("length")),
	} {
		if got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, got := range map[string]string{
		"no members": fault[shelf](s, store.Reads()),
		"no path":    fault[shelf](s, store.ReadsPath()),
	} {
		if !strings.Contains(got, "names no member: such a wait would never be woken") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := fault[int](s, store.Reads("a")); !strings.Contains(got, `"a" of a int, which has none`) {
		t.Errorf("of a number: %q", got)
	}
}
