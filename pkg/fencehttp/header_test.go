package fencehttp_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencehttp"
)

// fencing is that of the delivery with the token.
func fencing(token int64) execution.Fencing {
	return execution.Fencing{
		Key: "hf-3d40458d03d99c12a53416ff45c7344e", Token: token,
		Namespace: "default", ExecutionID: "order-42", Step: "charge",
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The headers are frozen: services read those of any release.
func TestHeadersAreFrozen(t *testing.T) {
	t.Parallel()
	f := fencing(105)
	f.Namespace, f.ExecutionID, f.Step = "shop/eu", "Bestellung 42 ☕", "pay, 100%"
	req := httptest.NewRequest(http.MethodPost, "/charge", nil)
	must(t, fencehttp.Apply(req, f))
	for header, want := range map[string]string{
		"Idempotency-Key":    `"hf-3d40458d03d99c12a53416ff45c7344e"`,
		"Holdfast-Token":     "105",
		"Holdfast-Namespace": "shop%2Feu",
		"Holdfast-Execution": "Bestellung%2042%20%E2%98%95",
		"Holdfast-Step":      "pay%2C%20100%25",
	} {
		if got := req.Header.Values(header); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", header, got, want)
		}
	}
	if got, found, err := fencehttp.Parse(req.Header); got != f || !found || err != nil {
		t.Errorf("read back %+v, %v, %v", got, found, err)
	}
}

func TestApplyChoosesAKey(t *testing.T) {
	t.Parallel()
	own := `"` + fencing(1).Key + `"`
	for name, c := range map[string]struct {
		method, has, want string
	}{
		"POST":             {http.MethodPost, "", own},
		"PUT":              {http.MethodPut, "", own},
		"DELETE":           {http.MethodDelete, "", own},
		"GET":              {http.MethodGet, "", ""},
		"HEAD":             {http.MethodHead, "", ""},
		"a key of its own": {http.MethodPost, "refund", "refund"},
		"one on a GET":     {http.MethodGet, "refund", "refund"},
	} {
		req := httptest.NewRequest(c.method, "/charge", nil)
		if c.has != "" {
			req.Header.Set("Idempotency-Key", c.has)
		}
		must(t, fencehttp.Apply(req, fencing(105)))
		if got := req.Header.Get("Idempotency-Key"); got != c.want {
			t.Errorf("%s: the key is %q, want %q", name, got, c.want)
		}
		if got := req.Header.Get("Holdfast-Token"); got != "105" {
			t.Errorf("%s: the token is %q", name, got)
		}
	}
	req := &http.Request{Method: http.MethodPost} // whoever makes one by hand
	must(t, fencehttp.Apply(req, fencing(105)))
	if len(req.Header) != 5 {
		t.Errorf("the headers are %v", req.Header)
	}
}

// A request that is sent again, under another token, has one of each header.
func TestApplyTwice(t *testing.T) {
	t.Parallel()
	req := httptest.NewRequest(http.MethodPost, "/charge", nil)
	must(t, fencehttp.Apply(req, fencing(101)))
	f := fencing(105)
	f.Step = ""
	must(t, fencehttp.Apply(req, f))
	if got, _, err := fencehttp.Parse(req.Header); got != f || err != nil {
		t.Errorf("read back %+v, %v", got, err)
	}
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	bad := func(change func(*execution.Fencing)) execution.Fencing {
		f := fencing(105)
		change(&f)
		return f
	}
	for name, f := range map[string]execution.Fencing{
		"nothing":              {},
		"token 0":              bad(func(f *execution.Fencing) { f.Token = 0 }),
		"a key with a quote":   bad(func(f *execution.Fencing) { f.Key = `a"b` }),
		"a key with a newline": bad(func(f *execution.Fencing) { f.Key = "a\r\nHoldfast-Token: 900" }),
		"a step with a NUL":    bad(func(f *execution.Fencing) { f.Step = "a\x00" }),
		"a key not in ASCII":   bad(func(f *execution.Fencing) { f.Key = "clé" }),
	} {
		req := httptest.NewRequest(http.MethodPost, "/charge", nil)
		req.Header.Set("Accept", "*/*")
		before := maps.Clone(req.Header)
		var invalid *execution.InvalidError
		if err := fencehttp.Apply(req, f); !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want an *InvalidError", name, err)
		}
		if len(req.Header) != len(before) {
			t.Errorf("%s: it was refused and changed the headers to %v", name, req.Header)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	whole := func(change func(http.Header)) http.Header {
		h := http.Header{}
		h.Set("Holdfast-Token", "105")
		h.Set("Holdfast-Namespace", "default")
		h.Set("Holdfast-Execution", "order-42")
		change(h)
		return h
	}
	set := func(header, value string) http.Header { return whole(func(h http.Header) { h.Set(header, value) }) }
	without := func(header string) http.Header { return whole(func(h http.Header) { h.Del(header) }) }
	twice := func(header string) http.Header {
		return whole(func(h http.Header) { h.Add(header, "1"); h.Add(header, "2") })
	}
	for name, c := range map[string]struct {
		header http.Header
		key    string // what is read
		want   string // of the error; empty: it is good
	}{
		"no key, no step":         {header: whole(func(http.Header) {})},
		"a quoted key":            {header: set("Idempotency-Key", ` "hf-1" `), key: "hf-1"},
		"a bare key":              {header: set("Idempotency-Key", "hf-1"), key: "hf-1"},
		"no token":                {header: without("Holdfast-Token"), want: `header Holdfast-Token "" is not a token`},
		"no namespace":            {header: without("Holdfast-Namespace"), want: "fencing namespace"},
		"no execution":            {header: without("Holdfast-Execution"), want: "execution id"},
		"an empty namespace":      {header: set("Holdfast-Namespace", ""), want: `header Holdfast-Namespace "" is empty`},
		"an empty step":           {header: set("Holdfast-Step", ""), want: `header Holdfast-Step "" is empty`},
		"a word for a token":      {header: set("Holdfast-Token", "many"), want: "Holdfast-Token \"many\" is not a token"},
		"token 0":                 {header: set("Holdfast-Token", "0"), want: "is not a token"},
		"a negative token":        {header: set("Holdfast-Token", "-1"), want: "is not a token"},
		"a signed token":          {header: set("Holdfast-Token", "+1"), want: "is not a token"},
		"a padded token":          {header: set("Holdfast-Token", "0105"), want: "is not a token"},
		"a fraction":              {header: set("Holdfast-Token", "1.5"), want: "is not a token"},
		"a token of 65 bits":      {header: set("Holdfast-Token", "9223372036854775808"), want: "is not a token"},
		"two tokens":              {header: twice("Holdfast-Token"), want: "Holdfast-Token"},
		"two executions":          {header: twice("Holdfast-Execution"), want: "is there more than once"},
		"two keys":                {header: twice("Idempotency-Key"), want: "is there more than once"},
		"half an escape":          {header: set("Holdfast-Execution", "a%2"), want: "is not percent-encoded"},
		"an escaped NUL":          {header: set("Holdfast-Execution", "a%00"), want: "holds a NUL character"},
		"an escaped broken byte":  {header: set("Holdfast-Step", "%FF"), want: "is not valid UTF-8"},
		"a long execution":        {header: set("Holdfast-Execution", strings.Repeat("a", 513)), want: "is too long"},
		"an empty key":            {header: set("Idempotency-Key", ""), want: "header Idempotency-Key"},
		"empty quotes":            {header: set("Idempotency-Key", `""`), want: "header Idempotency-Key"},
		"one quote":               {header: set("Idempotency-Key", `"`), want: "has no closing quote"},
		"a parameter":             {header: set("Idempotency-Key", `"a";b=1`), want: "has no closing quote, or something after it"},
		"an escape in the key":    {header: set("Idempotency-Key", `"a\"b"`), want: "printable ASCII"},
		"a key not in ASCII":      {header: set("Idempotency-Key", "clé"), want: "printable ASCII"},
		"a long key":              {header: set("Idempotency-Key", strings.Repeat("a", 513)), want: "1 to 512 characters"},
		"a step alone":            {header: http.Header{"Holdfast-Step": {"charge"}}, want: "header Holdfast-Token"},
		"an unknown header of us": {header: set("Holdfast-Colour", "blue")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, found, err := fencehttp.Parse(c.header)
			if !found {
				t.Error("the headers were not found")
			}
			if c.want == "" {
				if want := (execution.Fencing{Key: c.key, Token: 105, Namespace: "default", ExecutionID: "order-42"}); f != want || err != nil {
					t.Errorf("got %+v, %v; want %+v", f, err, want)
				}
				return
			}
			var invalid *execution.InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) || f != (execution.Fencing{}) {
				t.Errorf("got %+v, %v; want an *InvalidError that says %q", f, err, c.want)
			}
		})
	}
}

// A request that has nothing of a step's is no malformed one, be its key as it may.
func TestParseFindsNothing(t *testing.T) {
	t.Parallel()
	for _, h := range []http.Header{nil, {}, {"Accept": {"*/*"}}, {"Idempotency-Key": {"\xff", "two"}}} {
		if f, found, err := fencehttp.Parse(h); found || err != nil || f != (execution.Fencing{}) {
			t.Errorf("of %v: %+v, %v, %v", h, f, found, err)
		}
	}
}

// FuzzHeaders: whatever Apply accepts, Parse reads back, and every value is fit for a
// header.
func FuzzHeaders(f *testing.F) {
	f.Add("hf-1", int64(105), "default", "order-42", "charge")
	f.Add("", int64(1), "a/b", "☕ +%", "")
	f.Add("a b", int64(1<<62), "\t", "\u2028", "\r\n")
	f.Fuzz(func(t *testing.T, key string, token int64, namespace, id, step string) {
		want := execution.Fencing{Key: key, Token: token, Namespace: namespace, ExecutionID: id, Step: step}
		req := httptest.NewRequest(http.MethodPost, "/", nil)
		if fencehttp.Apply(req, want) != nil {
			return
		}
		for header, values := range req.Header {
			for _, b := range []byte(values[0]) {
				if b < ' ' || b > '~' {
					t.Fatalf("%s is %q", header, values[0])
				}
			}
		}
		if got, found, err := fencehttp.Parse(req.Header); got != want || !found || err != nil {
			t.Errorf("%+v came back as %+v, %v, %v", want, got, found, err)
		}
	})
}

// FuzzParse: no header makes a fencing that is not valid.
func FuzzParse(f *testing.F) {
	f.Add("105", "default", "order-42", "charge", `"hf-1"`)
	f.Add("+1", "%", "%00", "%zz", `"`)
	f.Fuzz(func(t *testing.T, token, namespace, id, step, key string) {
		h := http.Header{
			"Holdfast-Token": {token}, "Holdfast-Namespace": {namespace}, "Holdfast-Execution": {id},
			"Holdfast-Step": {step}, "Idempotency-Key": {key},
		}
		got, found, err := fencehttp.Parse(h)
		if !found || (err == nil) != (got.Validate() == nil) {
			t.Errorf("%v gives %+v, %v, %v", h, got, found, err)
		}
		if err == nil && fencehttp.Apply(httptest.NewRequest(http.MethodPost, "/", nil), got) != nil {
			t.Errorf("%+v was read and can't be written", got)
		}
	})
}
