package execution

import (
	"crypto/rand"
	"strings"
	"unicode/utf8"
)

// MaxNameBytes bounds ids, workflow names, queue names and step keys.
const MaxNameBytes = 512

// MaxPayloadBytes is the default bound of params, step responses and results.
const MaxPayloadBytes = 1 << 20

// An ID names an execution: 1 to 512 bytes of UTF-8 without NUL. Slashes, spaces
// and emoji are as good as any other character.
type ID string

// NewID returns a random id of 26 lower-case letters and digits.
func NewID() ID { return ID(strings.ToLower(rand.Text())) }

// Validate returns an [*InvalidError] unless the id is well formed.
func (id ID) Validate() error { return ValidateName("execution id", string(id)) }

// ValidateName returns an [*InvalidError] naming what and the value unless s is 1
// to 512 bytes of UTF-8 without NUL.
func ValidateName(what, s string) error {
	switch {
	case s == "":
		return &InvalidError{What: what, Value: s, Reason: "is empty; want 1 to 512 bytes of UTF-8"}
	case len(s) > MaxNameBytes:
		return &InvalidError{What: what, Value: s, Size: len(s), Limit: MaxNameBytes, Reason: "is too long"}
	case !utf8.ValidString(s):
		return &InvalidError{What: what, Value: s, Reason: "is not valid UTF-8"}
	case strings.ContainsRune(s, 0):
		return &InvalidError{What: what, Value: s, Reason: "holds a NUL character"}
	}
	return nil
}

// ValidateSize returns an [*InvalidError] if the payload is over the limit, in
// bytes.
func ValidateSize(what string, payload []byte, limit int) error {
	if len(payload) <= limit {
		return nil
	}
	return &InvalidError{What: what, Value: string(payload[:min(len(payload), 64)]), Size: len(payload), Limit: limit, Reason: "is too large"}
}
