package conformance

import (
	"slices"
	"testing"
)

// A clause is one case: its slug and what it asserts. needs names what the
// harness must support; the case is skipped by a backend that can't.
type clause struct {
	slug   string
	needs  Feature
	assert func(*scene)
}

// Run runs every case, in parallel, as subtests <group>/<slug>.
func Run(t *testing.T, factory Factory) {
	RunAround(t, factory, func(t *testing.T, leaf func(*testing.T)) {
		t.Parallel()
		leaf(t)
	})
}

// RunAround is like [Run], for a backend that has something to do around each
// case: around is called in the case's own subtest, and calls the leaf.
func RunAround(t *testing.T, factory Factory, around func(t *testing.T, leaf func(*testing.T))) {
	for _, group := range []struct {
		name  string
		cases []clause
	}{
		{"leases", slices.Concat(claimCases(), expiryCases(), endingCases())},
		{"fencing", fencingCases()},
		{"dispatcher", slices.Concat(concurrencyCases(), retryCases(), operatorCases())},
	} {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.slug, func(t *testing.T) {
					around(t, func(t *testing.T) { c.run(t, factory(t)) })
				})
			}
		})
	}
}

func (c clause) run(t *testing.T, h Harness) {
	if c.needs != "" && !h.Supports(c.needs) {
		t.Skipf("this backend does not support %s", c.needs)
	}
	c.assert(newScene(t, h))
}
