package holdfast_test

import (
	"os"
	"strings"
	"testing"
)

// The code that the README shows is the code of the checked Example.
func TestReadmeShowsTheExample(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, found := strings.Cut(string(readme), "```go\n")
	code, _, closed := strings.Cut(code, "```\n")
	if !found || !closed || strings.Count(code, "\n") < 20 {
		t.Fatal("README.md shows no example")
	}
	code = strings.Replace(code, "func main() {", "func Example() {", 1)
	for part := range strings.SplitSeq(code, "\n\n") {
		if !strings.Contains(string(example), strings.TrimSpace(part)) {
			t.Errorf("not in example_test.go:\n%s", part)
		}
	}
}
