package fencehttp

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The headers of a request that comes from a step. They are frozen.
const (
	// KeyHeader holds the idempotency key as a structured-field string, in quotes, as
	// the IETF's draft of the header has it. Reading, a bare one is as good.
	KeyHeader = "Idempotency-Key"
	// TokenHeader holds the fencing token, in decimal digits.
	TokenHeader = "Holdfast-Token"
	// NamespaceHeader, ExecutionHeader and StepHeader say whose work it is, in UTF-8
	// and percent-encoded as in a path.
	NamespaceHeader = "Holdfast-Namespace"
	ExecutionHeader = "Holdfast-Execution"
	StepHeader      = "Holdfast-Step"
)

// Apply sets the headers of the request to those of the fencing. An Idempotency-Key
// that the request has already is kept: a step that sends several requests gives each
// a key of its own. A method that changes nothing (GET, HEAD, OPTIONS, TRACE) gets no
// key. A fencing that did not come from a step is refused and changes nothing.
func Apply(req *http.Request, f execution.Fencing) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if err := applyKey(req, f.Key); err != nil {
		return err
	}
	h := req.Header
	h.Set(TokenHeader, strconv.FormatInt(f.Token, 10))
	h.Set(NamespaceHeader, url.PathEscape(f.Namespace))
	h.Set(ExecutionHeader, url.PathEscape(f.ExecutionID))
	h.Del(StepHeader)
	if f.Step != "" {
		h.Set(StepHeader, url.PathEscape(f.Step))
	}
	return nil
}

func applyKey(req *http.Request, key string) error {
	if key != "" && !printable(key) {
		return &execution.InvalidError{What: "idempotency key", Value: key, Reason: "is not of printable ASCII without quotes and backslashes"}
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if key != "" && !safe(req.Method) && len(req.Header.Values(KeyHeader)) == 0 {
		req.Header.Set(KeyHeader, `"`+key+`"`)
	}
	return nil
}

// safe says whether the method changes nothing by itself.
func safe(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

// Parse reads the headers of a request. found says whether it has any of those that
// begin with Holdfast-. Then it must have a token, a namespace and an execution, and
// none may be malformed or there twice; nor may the key. The key and the step may be
// missing. An error is an [*execution.InvalidError] that names the header.
func Parse(h http.Header) (f execution.Fencing, found bool, err error) {
	p := parser{header: h}
	digits := p.one(TokenHeader)
	f = execution.Fencing{
		Namespace:   p.name(NamespaceHeader),
		ExecutionID: p.name(ExecutionHeader),
		Step:        p.name(StepHeader),
	}
	if !p.found {
		return execution.Fencing{}, false, nil
	}
	f.Token = p.token(digits)
	f.Key = p.key()
	if p.err == nil {
		p.err = f.Validate()
	}
	if p.err != nil {
		return execution.Fencing{}, true, p.err
	}
	return f, true, nil
}

// A parser reads headers and keeps the first error.
type parser struct {
	header http.Header
	found  bool
	err    error
}

func (p *parser) fail(header, value, reason string) {
	if p.err == nil {
		p.err = &execution.InvalidError{What: "header " + header, Value: value, Reason: reason}
	}
}

// one returns the only value of the header; empty: it is missing.
func (p *parser) one(header string) string {
	values := p.header.Values(header)
	if len(values) == 0 {
		return ""
	}
	p.found = true
	if len(values) > 1 {
		p.fail(header, strings.Join(values, ", "), "is there more than once")
	}
	return values[0]
}

func (p *parser) name(header string) string {
	value := p.one(header)
	if value == "" && len(p.header.Values(header)) == 0 {
		return ""
	}
	name, err := url.PathUnescape(value)
	if err != nil {
		p.fail(header, value, "is not percent-encoded: "+err.Error())
		return ""
	}
	if err := execution.ValidateName("header "+header, name); err != nil && p.err == nil {
		p.err = err
	}
	return name
}

func (p *parser) token(value string) int64 {
	n := token(value)
	if n == 0 {
		p.fail(TokenHeader, value, "is not a token: want decimal digits, greater than 0")
	}
	return int64(n)
}

func (p *parser) key() string {
	values := p.header.Values(KeyHeader)
	if len(values) == 0 {
		return ""
	}
	value := p.one(KeyHeader)
	key := strings.TrimSpace(value)
	if inner, quoted := strings.CutPrefix(key, `"`); quoted {
		key, quoted = strings.CutSuffix(inner, `"`)
		if !quoted {
			p.fail(KeyHeader, value, "has no closing quote, or something after it")
			return ""
		}
	}
	if !printable(key) {
		p.fail(KeyHeader, value, fmt.Sprintf("is not 1 to %d characters of printable ASCII, in quotes", execution.MaxNameBytes))
		return ""
	}
	return key
}

// printable says whether the key may stand in quotes as it is.
func printable(key string) bool {
	for _, b := range []byte(key) {
		if b < ' ' || b > '~' || b == '"' || b == '\\' {
			return false
		}
	}
	return key != "" && len(key) <= execution.MaxNameBytes
}
