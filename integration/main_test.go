package integration_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/holdfast-io/holdfast/internal/testetcd"
)

// TestMain runs the tests, or a process for which a test has started this binary
// again.
func TestMain(m *testing.M) {
	for command, run := range map[string]func([]string) error{runtimeCommand: runRuntime, fencesqlCommand: runFencesql, workerCommand: runWorker, openerCommand: runOpener, parentCommand: runParent} {
		if len(os.Args) > 1 && os.Args[1] == command {
			if err := run(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(testetcd.Main(m))
}
