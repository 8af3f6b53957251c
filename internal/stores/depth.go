package stores

import (
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// MaxDepth bounds how many lists and objects may be inside each other in a state or an
// event. Go's JSON refuses more than 10,000, and what is kept of a document, or answered
// with it, is around it.
const MaxDepth = 9000

// MaxResultDepth is the same of a result, which may have a state of MaxDepth in it.
const MaxResultDepth = MaxDepth + 10

// Depth returns how many lists and objects are inside each other in a JSON document. It
// needs no memory, however many there are.
func Depth(doc []byte) int {
	deepest, depth := 0, 0
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		case '"':
			for i++; i < len(doc) && doc[i] != '"'; i++ {
				if doc[i] == '\\' {
					i++
				}
			}
		}
	}
	return deepest
}

// validateDepth refuses a document that is too deep.
func validateDepth(what string, doc []byte) error {
	limit := MaxDepth
	if what == "result" {
		limit = MaxResultDepth
	}
	if Depth(doc) <= limit {
		return nil
	}
	return &execution.InvalidError{What: what, Value: string(doc[:min(len(doc), 64)]), Reason: fmt.Sprintf("is nested deeper than %d levels", limit)}
}
