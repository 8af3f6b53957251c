package integration_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-io/holdfast/internal/testetcd"
)

// TestMain runs the tests, or a runtime process for which a test has started this
// binary again.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == runtimeCommand {
		if err := runRuntime(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(testetcd.Main(m))
}
