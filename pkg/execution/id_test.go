package execution_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", execution.MaxNameBytes)
	emoji := strings.Repeat("🦀", execution.MaxNameBytes/4)
	for name, c := range map[string]struct {
		id   string
		want string // of the error's text; empty: it is a name
	}{
		"one byte":           {"a", ""},
		"512 bytes":          {long, ""},
		"512 bytes of emoji": {emoji, ""},
		"slashes and spaces": {"../a/b c\t%2F", ""},
		"the last character": {"\U0010FFFF", ""},
		"a real U+FFFD":      {"\uFFFD", ""},
		"empty":              {"", `execution id "" is empty; want 1 to 512 bytes`},
		"513 bytes":          {long + "a", `is too long: 513 bytes, the limit is 512`},
		"513 bytes of emoji": {emoji + "a", `is too long: 513 bytes, the limit is 512`},
		"NUL":                {"a\x00b", `execution id "a\x00b" holds a NUL character`},
		"NUL alone":          {"\x00", `holds a NUL character`},
		"a broken byte":      {"a\xff", `execution id "a\xff" is not valid UTF-8`},
		"half an emoji":      {emoji[:2], `is not valid UTF-8`},
		"a surrogate":        {"\xed\xa0\x80", `is not valid UTF-8`},
		"too long a coding":  {"\xc0\xaf", `is not valid UTF-8`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := execution.ID(c.id).Validate()
			if c.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var invalid *execution.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v, want an *InvalidError", err)
			}
			if invalid.What != "execution id" || invalid.Value != c.id {
				t.Errorf("the error is about %s %q", invalid.What, invalid.Value)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, want it to say %q", err, c.want)
			}
		})
	}
}

func TestValidateNameSaysWhich(t *testing.T) {
	t.Parallel()
	err := execution.ValidateName("step key", "")
	if err == nil || !strings.HasPrefix(err.Error(), `step key "" `) {
		t.Errorf("got %v, want it to begin with the step key", err)
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size, limit int
		ok          bool
	}{
		{0, 0, true},
		{1, 0, false},
		{10, 10, true},
		{11, 10, false},
		{execution.MaxPayloadBytes, execution.MaxPayloadBytes, true},
		{execution.MaxPayloadBytes + 1, execution.MaxPayloadBytes, false},
	} {
		err := execution.ValidateSize("params", make([]byte, c.size), c.limit)
		if (err == nil) != c.ok {
			t.Errorf("%d bytes, limit %d: %v", c.size, c.limit, err)
		}
		var invalid *execution.InvalidError
		if c.ok {
			continue
		}
		if !errors.As(err, &invalid) || invalid.Size != c.size || invalid.Limit != c.limit || invalid.What != "params" {
			t.Errorf("%d bytes, limit %d: %#v", c.size, c.limit, err)
		} else if len(invalid.Value) > 64 {
			t.Errorf("the error holds %d bytes of the payload", len(invalid.Value))
		}
	}
}

func TestNewIDs(t *testing.T) {
	t.Parallel()
	seen := map[execution.ID]bool{}
	for range 1000 {
		id := execution.NewID()
		if err := id.Validate(); err != nil || len(id) != 26 || seen[id] {
			t.Fatalf("id %q: %v, %d bytes, seen before: %v", id, err, len(id), seen[id])
		}
		if strings.Trim(string(id), "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			t.Fatalf("id %q is not made of lower-case letters and digits", id)
		}
		seen[id] = true
	}
}

// FuzzValidateName: a name is accepted exactly if it is 1 to 512 bytes of UTF-8
// without NUL, and what refuses it is short enough to be logged.
func FuzzValidateName(f *testing.F) {
	for _, s := range []string{"", "a", "\x00", "\xff", "../x", strings.Repeat("🦀", 129)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want := s != "" && len(s) <= 512 && utf8.ValidString(s) && strings.IndexByte(s, 0) < 0
		err := execution.ValidateName("queue", s)
		if (err == nil) != want {
			t.Errorf("ValidateName(%q) = %v", s, err)
		}
		if err != nil && len(err.Error()) > 512 {
			t.Errorf("the error has %d bytes: %v", len(err.Error()), err)
		}
	})
}
