package storeapi

import "encoding/json"

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
