package canonical

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// HalfSurrogate returns an escape in the document, which is valid JSON, that stands for
// half of a character, such as \ud83c alone; none: "". A decoder would put U+FFFD in its
// place and not say so, and two different texts would become the same.
func HalfSurrogate(doc []byte) string {
	for i := 0; i < len(doc); i++ {
		if doc[i] != '\\' { // outside of strings there is none
			continue
		}
		unit, escaped := codeUnit(doc[i:])
		switch next, _ := codeUnit(doc[min(i+6, len(doc)):]); {
		case !escaped:
			i++ // over what the backslash escapes
		case !utf16.IsSurrogate(unit):
			i += 5
		case utf16.DecodeRune(unit, next) == utf8.RuneError:
			return string(doc[i : i+6])
		default:
			i += 11
		}
	}
	return ""
}

// codeUnit returns the UTF-16 code unit that the text begins with, as \uXXXX.
func codeUnit(text []byte) (unit rune, escaped bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(n), err == nil
}
