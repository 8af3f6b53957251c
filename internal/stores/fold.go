package stores

import (
	"unicode"
	"unicode/utf8"
)

// fold returns what the names of members have in common that encoding/json takes for
// the same where it looks for a field: those that [strings.EqualFold] says are equal.
func fold(name string) string {
	folded := make([]byte, 0, len(name))
	for _, r := range name {
		folded = utf8.AppendRune(folded, foldRune(r))
	}
	return string(folded)
}

// foldRune returns the smallest of the runes that differ in case alone.
func foldRune(r rune) rune {
	for {
		next := unicode.SimpleFold(r)
		if next <= r {
			return next
		}
		r = next
	}
}
