package store_test

import (
	"os"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
)

// The code that docs/stores.md shows is that of the checked examples, and its limit is
// the one that counts.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/stores.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(text), "```go\n// Approve")
	code, _, closed := strings.Cut(code, "```\n")
	if !found || !closed || !strings.Contains(string(example), "// Approve"+code) {
		t.Errorf("example_test.go does not have\n%s", code)
	}
	if stores.MaxDepth != maxDepth || !strings.Contains(string(text), "at most 9,000 lists and objects") {
		t.Errorf("the limit is %d levels", stores.MaxDepth)
	}
}
