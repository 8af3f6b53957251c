package storeapi

import (
	"encoding/hex"
	"encoding/json"
	"unicode/utf16"
	"unicode/utf8"
)

// The kinds of JSON values, as messages call them.
const (
	kindObject = "an object"
	kindList   = "a list"
	kindString = "a string"
	kindNumber = "a number"
	kindBool   = "a boolean"
	kindNull   = "null"
)

// kind returns the kind of a value that is valid JSON.
func kind(value json.RawMessage) string {
	switch value[0] {
	case '{':
		return kindObject
	case '[':
		return kindList
	case '"':
		return kindString
	case 't', 'f':
		return kindBool
	case 'n':
		return kindNull
	}
	return kindNumber
}

// halved says whether a JSON string holds one half of a surrogate pair, as \ud83c
// alone is. It stands for no character: decoded, two such names would become the same.
func halved(str json.RawMessage) bool {
	for i := 0; i < len(str); i++ {
		if str[i] != '\\' {
			continue
		}
		unit, is := codeUnit(str[i:])
		switch {
		case !is:
			i++ // over what is escaped, which may be a backslash
		case !utf16.IsSurrogate(unit):
			i += len(`\uXXXX`) - 1
		default:
			next, _ := codeUnit(str[i+len(`\uXXXX`):])
			if utf16.DecodeRune(unit, next) == utf8.RuneError {
				return true
			}
			i += len(`\uXXXX\uXXXX`) - 1
		}
	}
	return false
}

// codeUnit reads the escape of a UTF-16 code unit at the beginning of s.
func codeUnit(s []byte) (rune, bool) {
	if len(s) < len(`\uXXXX`) || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	b, err := hex.DecodeString(string(s[2:6]))
	if err != nil {
		return 0, false
	}
	return rune(b[0])<<8 | rune(b[1]), true
}
