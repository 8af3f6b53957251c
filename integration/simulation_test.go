package integration_test

import (
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/integration/mutant"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/simulate"
)

// The simulation finds planted faults by itself, each as a violation of the
// invariant that it is against, within a few dozen seeds.
func TestSimulationFindsFaults(t *testing.T) {
	for name, invariant := range map[string]string{
		"fence-left-out":              "I3",
		"step-overwritten":            "I5",
		"reap-without-live-compare":   "I2",
		"wake-by-process":             "I2",
		"ack-without-wake-compare":    "I9",
		"fence-drops-due":             "I9",
		"ack-blind-to-reaped-entry":   "I6",
		"claim-without-state-compare": "I6",
		"cancel-leaves-wake":          "I6",
		"renew-leaves-entry":          "I6",
		"counter-not-reset":           "I7",
		"expiry-not-counted":          "I7",
		"expiry-is-not-delayed":       "I8",
	} {
		t.Run(name, func(t *testing.T) {
			mutate := func(s etcd.Store, space keyspace.Space) etcd.Store { return mutant.Wrap(name, s, space) }
			others := ""
			for seed := range uint64(100) {
				r := simulate.Run(t, simulate.Options{Seed: seed, Mutate: mutate})
				all := strings.Join(r.Violations, "\n")
				if strings.Contains(all, invariant+": ") {
					return
				}
				others += all // a run ends with its first symptom, which may be another
			}
			t.Errorf("no seed found a violation of %s, but:\n%s", invariant, others)
		})
	}
}
