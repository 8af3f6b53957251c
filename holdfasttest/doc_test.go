package holdfasttest_test

import (
	"os"
	"strings"
	"testing"
)

// The code that the package's documentation shows is the code of a test.
func TestDocShowsTheExample(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var code []string
	for line := range strings.Lines(string(doc)) {
		if shown, is := strings.CutPrefix(line, "//\t"); is {
			code = append(code, shown)
		} else if len(code) > 0 && line == "//\n" && code[len(code)-1] != "}\n" {
			code = append(code, "\n") // within the example
		}
	}
	if len(code) < 20 {
		t.Fatalf("doc.go shows %d lines of code", len(code))
	}
	if !strings.Contains(string(examples), strings.Join(code, "")) {
		t.Errorf("not in example_test.go:\n%s", strings.Join(code, ""))
	}
}
