package canonical_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/canonical"
)

// The form is frozen: what is recorded in it is compared with what later releases make.
func TestForms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ doc, want string }{
		"null":                        {"null", `null`},
		"true":                        {" true\n", `true`},
		"false":                       {"false", `false`},
		"empty object":                {"{ }", `{}`},
		"empty list":                  {"[\t]", `[]`},
		"members in another order":    {`{"b": 1, "a": {"d": [1, 2], "c": null}}`, `{"a":{"c":null,"d":[1,2]},"b":1}`},
		"names by their bytes":        {`{"é":1,"z":2,"Z":3,"":4,"10":5,"9":6,"\uffff":7,"😀":8}`, "{\"\":4,\"10\":5,\"9\":6,\"Z\":3,\"z\":2,\"é\":1,\"\uffff\":7,\"😀\":8}"},
		"lists keep their order":      {`[3,1,2]`, `[3,1,2]`},
		"nested lists":                {`[[],[[1]],{}]`, `[[],[[1]],{}]`},
		"zero":                        {`0`, `0`},
		"negative zero":               {`-0`, `0`},
		"zeros":                       {`[-0.0, 0e7, -0E-7, 0.000]`, `[0,0,0,0]`},
		"integers":                    {`[1, -42, 1.0, 1e3, 12.30e1, 100]`, `[1,-42,1,1000,123,100]`},
		"an integer beyond a float64": {`12345678901234567890123`, `12345678901234567890123`},
		"the greatest power":          {`1e308`, "1" + strings.Repeat("0", 308)},
		"fractions":                   {`[1.50, -0.25, 1e-6, 0.0000015, 2.5e-3]`, `[1.5,-0.25,0.000001,0.0000015,0.0025]`},
		"small fractions":             {`[1e-7, 0.00000012, -12.5e-30]`, `[1e-7,1.2e-7,-1.25e-29]`},
		"a long fraction":             {`123456789012345678901.5`, `123456789012345678901.5`},
		"a longer fraction":           {`1234567890123456789012.5`, `1.2345678901234567890125e21`},
		"an exact fraction":           {`0.1000000000000000055511151231257827`, `0.1000000000000000055511151231257827`},
		"escapes":                     {`"\u0041\/\b\f\n\r\t\"\\\u001F\u007f"`, `"A/\u0008\u000c\n\r\t\"\\\u001f` + "\x7f" + `"`},
		"what HTML escapes":           {`"<a href='x'>&\u003c\u2028</a>"`, "\"<a href='x'>&<\u2028</a>\""},
		"a pair of surrogates":        {`"\ud83d\uDE00 \uD83D\udE00"`, `"😀 😀"`},
		"an escaped backslash":        {`"\\ud800"`, `"\\ud800"`},
		"a replacement character":     {`"\ufffd"`, "\"\ufffd\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := canonical.JSON([]byte(c.doc))
			if err != nil || string(got) != c.want {
				t.Errorf("got  %s, %v\nwant %s", got, err, c.want)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ doc, says string }{
		"nothing":                   {"", "not JSON"},
		"NaN":                       {"NaN", "not JSON"},
		"undefined":                 {"undefined", "not JSON"},
		"two documents":             {"1 2", "not JSON"},
		"a trailing comma":          {"[1,]", "not JSON"},
		"a number beyond a float64": {"[1e309]", `number "1e309"`},
		"one below them":            {"-2e308", `number "-2e308"`},
		"digits beyond a float64":   {"1" + strings.Repeat("0", 400), "beyond those of a float64"},
		"a tiny exponent":           {"1e-99999999999999999999", "exponent is out of range"},
		"the least exponent":        {"1.5e-9223372036854775808", "exponent is out of range"},
		"a name twice":              {`{"a":1,"b":[{"c":1,"\u0063":2}]}`, `member "c" twice`},
		"bytes that are no UTF-8":   {"\"\xff\"", "not valid Unicode"},
		"a name that is no UTF-8":   {"{\"\xc3\":1}", "not valid Unicode"},
		"a high surrogate":          {`"\ud800"`, "not valid Unicode"},
		"a high one before text":    {`"\ud800abcdef"`, "not valid Unicode"},
		"a high one before another": {`"\ud800\ud800"`, "not valid Unicode"},
		"a low surrogate":           {`"\udc00"`, "not valid Unicode"},
		"one in a name":             {`{"\udfff":1}`, "not valid Unicode"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := canonical.JSON([]byte(c.doc))
			if err == nil || got != nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %s, %v, want an error that says %q", got, err, c.says)
			}
		})
	}
}

// FuzzJSON: the form says the same as the document, has no other form itself, and is
// that of the document written in other ways.
func FuzzJSON(f *testing.F) {
	for _, doc := range []string{
		`{"b":1.50,"a":[true,null,-0,1e3,{"x":"<\u00e9😀\n"}]}`, `"\ud83d\ude00"`, `[1e-9,1e21,123456789012345678901234567890.125]`, `{"":{}}`, "[0.1,00]",
	} {
		f.Add([]byte(doc))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		before := bytes.Clone(doc)
		form, err := canonical.JSON(doc)
		if !bytes.Equal(before, doc) {
			t.Fatalf("%q was changed to %q", before, doc)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(meaning(t, doc), meaning(t, form)) {
			t.Errorf("%q becomes %q", doc, form)
		}
		var indented, sorted bytes.Buffer
		if err := json.Indent(&indented, doc, " ", "\t"); err != nil {
			t.Fatal(err)
		}
		json.HTMLEscape(&sorted, indented.Bytes())
		for _, other := range [][]byte{form, indented.Bytes(), sorted.Bytes()} {
			if again, err := canonical.JSON(other); err != nil || !bytes.Equal(again, form) {
				t.Errorf("%q becomes %q, and as %q it becomes %q, %v", doc, form, other, again, err)
			}
		}
	})
}

// meaning decodes a document, its numbers as what they are exactly.
func meaning(t *testing.T, doc []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q: %v", doc, err)
	}
	return exact(t, v)
}

func exact(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case json.Number:
		r, ok := new(big.Rat).SetString(v.String())
		if !ok {
			return v.String() // an exponent too large for this: written alike
		}
		return r.String()
	case []any:
		for i := range v {
			v[i] = exact(t, v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = exact(t, v[name])
		}
	}
	return v
}
