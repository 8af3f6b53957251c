package integration_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/integration/conformance"
)

// TestConformance is the suite on an embedded etcd of one member.
func TestConformance(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness { return newHarness(t) })
}
