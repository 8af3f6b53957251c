package integration_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/integration/mutant"
)

// A mutation is a fault that integration/mutant can plant, what is wrong then, and
// the test that must fail of it, saying so with these words: those of the test
// itself, or an invariant by the audit of its namespace.
type mutation struct{ name, fault, test, says string }

// mutations has a row for each fault. A fault that no test fails of is a hole in
// the tests.
//
// There is no claim-without-entry-compare: a claim does not compare its due entry.
// The entry names the one revision of state and the one of live that it is for, and
// the claim compares those. Whoever deletes or replaces an entry writes state or
// live in the same transaction, and revisions never come back: a claim of an entry
// that is gone is refused already.
var mutations = []mutation{
	{
		"fence-left-out", "no fenced write compares the state with its token",
		"TestConformance/fencing/stale-step-write", "replay: I3",
	},
	{
		"fence-left-out-of-acknowledgements", "an acknowledgement does not compare the state with its token",
		"TestConformance/fencing/stale-acknowledge", "acknowledge with stale token",
	},
	{
		"fence-left-out-of-releases", "a release does not compare the state with its token",
		"TestConformance/fencing/pause-and-resume", "release with stale token",
	},
	{
		"fence-left-out-of-renewals", "a renewal does not compare the state with its token",
		"TestConformance/leases/renew-stale", "renew with stale token",
	},
	{
		"epoch-left-out", "no fenced write compares the epoch",
		"TestRaces/restore-beside-a-delivery", "<nil>, want lost",
	},
	{
		"step-overwritten", "a step is written whether or not it is recorded already",
		"TestConformance/fencing/step-rewrite", "want what was recorded",
	},
	{
		"token-repeats", "a takeover hands out the token of the delivery before it",
		"TestConformance/leases/expiry-reclaim-higher-token", "claimed with token",
	},
	{
		"steps-survive-readmission", "the keys of steps lack the incarnation",
		"TestTraces/6-id-admitted-again", "want no step of the first life",
	},
	{
		"admit-over-an-execution", "admit does not demand that the id is free",
		"TestConformance/leases/admit-again", "want the existing execution",
	},
	{
		"start-without-start-compare", "a start does not demand that its step has started nothing",
		"TestConformance/fencing/stale-start", "the current holder was given",
	},
	{
		"claim-without-epoch-compare", "a claim does not compare the epoch of its process",
		"TestRaces/restore-beside-a-claim", "of before the restore",
	},
	{
		"claim-without-live-compare", "a claim does not compare live with the revision that its entry is for",
		"TestRaces/claim-beside-a-renewal", "while the lease of token",
	},
	{
		"claim-without-process-compare", "a claim does not demand that its own process is there",
		"TestTraces/3-claim-that-arrives-late/caller_with_a_lease_for_each_claim", "although its caller had gone",
	},
	{
		"claim-without-state-compare", "a claim does not compare the state with the revision that its entry is for",
		"TestTraces/2-garbage-that-becomes-due", "by an entry that was for an earlier state",
	},
	{
		"reap-without-live-compare", "a reaper does not compare live as it has read it",
		"TestTraces/4-reap-of-an-earlier-expiry/reaper_that_is_late", "without a delay",
	},
	{
		"renew-without-live-compare", "a renewal onto another process does not compare live as it has read it",
		"TestRaces/reap-beside-a-renewal", "want 0 entries",
	},
	{
		"renew-all-without-live-compare", "the renewal of all leases of a process does not compare live as it has read it",
		"TestRaces/reap-beside-a-renewal-of-all", "want 0 entries",
	},
	{
		"release-without-live-compare", "a release does not compare live as its holder knows it",
		"TestRaces/reap-beside-an-ending/release", "want 1 entries",
	},
	{
		"fence-without-live-compare", "an operator's fence does not compare live as it has read it",
		"TestRaces/reap-beside-an-ending/fence", "want 1 entries",
	},
	{
		"cancel-without-live-compare", "cancel does not compare live as it has read it",
		"TestRaces/reap-beside-an-ending/cancel", "want 0 entries",
	},
	{
		"cancel-without-state-compare", "cancel does not compare the state as it has read it",
		"TestRaces/completion-beside-a-cancel", "want terminal",
	},
	{
		"ack-without-wake-compare", "an acknowledgement does not compare the wake as its holder knows it",
		"TestConformance/leases/suspend-with-future-wake", "replay: I9",
	},
	{
		"wake-without-state-compare", "a wake of a claimed execution does not compare the state as it has read it",
		"TestTraces/5-fence-and-cancel-that-forget/wake_that_arrives_after_a_cancel", "a wake: true",
	},
	{
		"wake-without-wake-compare", "a wake of a claimed execution does not compare the wake as it has read it",
		"TestRaces/wake-beside-an-earlier-one", "want the earlier wake",
	},
	{
		"wake-of-unclaimed-without-state-compare", "a wake of an unclaimed execution does not compare the state as it has read it",
		"TestUnknownOutcomes/wake-applied-then-claimed", "want running with",
	},
	{
		"ack-blind-to-reaped-entry", "an acknowledgement does not look whether a reaper came by, and leaves its entry",
		"TestConformance/fencing/expired-holder-goes-on", "audit: I6",
	},
	{
		"claim-leaves-entry", "a claim leaves the entry that it was for",
		"TestConformance/leases/claim-sets-running", "audit: I6",
	},
	{
		"claim-leaves-wake", "a claim leaves the wakes that it covers",
		"TestRaces/wake-beside-a-takeover", "began after the wake",
	},
	{
		"renew-leaves-entry", "a renewal leaves the entry of the reaper that came before it",
		"TestTraces/4-reap-of-an-earlier-expiry/entry_of_the_first_reap", "after the renewal, want it empty",
	},
	{
		"cancel-leaves-wake", "cancel leaves the wake of the delivery that it ends",
		"TestTraces/5-fence-and-cancel-that-forget/cancel/woken", "a wake: true",
	},
	{
		"cancel-writes-no-done", "cancel does not enter the execution into the index of the terminal ones",
		"TestTraces/5-fence-and-cancel-that-forget/cancel/running", "0 terminal executions",
	},
	{
		"fence-drops-due", "an operator's fence leaves the execution without a due time",
		"TestTraces/5-fence-and-cancel-that-forget/fence/woken", "want one entry after a delay",
	},
	{
		"wake-by-process", "a wake is written into the state where the process is gone, which fences a holder that is merely slow",
		"TestTraces/1-wake-beside-a-renewal", "lease lost",
	},
	{
		"lost-answer-as-lost", "what a second try is refused for is taken for what became of the first",
		"TestTraces/7-acknowledge-tried-twice/completed", "want success: the first try was applied",
	},
	{
		"no-ghost-sweep", "a process does not find the claims of its own that nobody runs",
		"TestRaces/scan-beside-a-late-claim", "want the claim that nobody runs released",
	},
	{
		"expiry-is-not-delayed", "a reaper makes an expired delivery due at once",
		"TestConformance/leases/expiry-delays", "replay: I8",
	},
	{
		"expiry-not-counted", "a takeover does not count the delivery that expired",
		"TestConformance/leases/expiry-reclaim-higher-token", "is running with 0 unacknowledged deliveries",
	},
	{
		"counter-not-reset", "an acknowledgement leaves unacknowledgedDeliveries as it is",
		"TestConformanceInMemory/dispatcher/ack-resets", "is suspended with 3 unacknowledged deliveries",
	},
	{
		"delay-shrinks", "each redelivery delay is half as long as the one before",
		"TestConformance/dispatcher/retry-delays-grow", "want it non-zero and not shorter",
	},
	{
		"drain-counts", "a shutdown releases its deliveries, which counts, and delays them",
		"TestConformance/dispatcher/drain-hands-over", "with 1 unacknowledged deliveries",
	},
}

// Bounds for a run of one case, which takes about a second. Whoever needs them has
// not been caught.
const (
	mutantTestTimeout = "90s" // of the test binary
	mutantTimeout     = 2 * time.Minute
)

// TestMutants plants each fault in a run of the case that must fail of it, in a
// process of its own, and demands just that failure. Without a fault the same cases
// pass.
func TestMutants(t *testing.T) {
	var names, tests []string
	for _, m := range mutations {
		names, tests = append(names, m.name), append(tests, m.test)
	}
	slices.Sort(names)
	if !slices.Equal(names, mutant.Names()) {
		t.Fatalf("rows for %q, where the faults are %q", names, mutant.Names())
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		out, err := runMutated(t, "", tests)
		if err != nil {
			t.Errorf("without a fault: %v\n%s", err, out)
		}
		for _, test := range tests {
			if !reports(out, "PASS", test) {
				t.Errorf("without a fault %s does not pass", test)
			}
		}
	})
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			m.caught(t)
		})
	}
}

func (m mutation) caught(t *testing.T) {
	t.Helper()
	out, err := runMutated(t, m.name, []string{m.test})
	var failed *exec.ExitError
	switch {
	case err == nil:
		t.Errorf("not caught: %s passes although %s", m.test, m.fault)
	case !errors.As(err, &failed) || failed.ExitCode() != 1 || strings.Contains(out, "panic: "):
		t.Errorf("%s did not come to its end: %v\n%s", m.test, err, out)
	case !reports(out, "FAIL", m.test) || !strings.Contains(out, m.says):
		t.Errorf("%s, and %s does not say %q:\n%s", m.fault, m.test, m.says, out)
	}
}

// reports says whether the output of a run has a line for the test with the verdict.
func reports(out, verdict, test string) bool {
	return regexp.MustCompile(`(?m)^ *--- ` + verdict + `: ` + regexp.QuoteMeta(test) + ` \(`).MatchString(out)
}

// runMutated runs tests of this binary in a process of its own, with the fault
// planted, if any, and returns what they say.
func runMutated(t *testing.T, fault string, tests []string) (string, error) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), mutantTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "-test.run="+pattern(tests), "-test.v", "-test.count=1", "-test.timeout="+mutantTestTimeout)
	cmd.Env = append(os.Environ(), mutantVariable+"="+fault, "TMPDIR="+t.TempDir())
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), errors.Join(err, ctx.Err())
}

// pattern selects exactly these tests.
func pattern(tests []string) string {
	var all []string
	for _, test := range tests {
		var levels []string
		for level := range strings.SplitSeq(test, "/") {
			levels = append(levels, "^"+regexp.QuoteMeta(level)+"$")
		}
		all = append(all, strings.Join(levels, "/"))
	}
	return strings.Join(all, "|")
}
