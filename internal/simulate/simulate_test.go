package simulate_test

import (
	"bytes"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-io/holdfast/internal/simulate"
)

// TestMain runs goroutines one at a time: of two that run at the same virtual
// instant, which gets a lock first is not the schedule's choice.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	goleak.VerifyTestMain(m)
}

// A seed replays exactly, and violates nothing.
func TestSeedsReplay(t *testing.T) {
	rare := simulate.Counts{}
	for seed := range uint64(100) {
		first := simulate.Run(t, simulate.Options{Seed: seed})
		again := simulate.Run(t, simulate.Options{Seed: seed})
		if first.Hash != again.Hash {
			t.Errorf("seed %d: history %s, then %s", seed, first.Hash, again.Hash)
		}
		for _, v := range first.Violations {
			t.Errorf("seed %d: %s", seed, v)
		}
		rare.Add(first.Rare)
	}
	for _, name := range []string{"stale writeStep refused", "takeover", "reap came too late", "answer lost: claim", "renewal after an expiry"} {
		if rare[name] == 0 {
			t.Errorf("%q never happened: the schedule is too tame", name)
		}
	}
}

func TestTraceIsTheSameEachTime(t *testing.T) {
	traces := make([]bytes.Buffer, 2)
	for i := range traces {
		simulate.Run(t, simulate.Options{Seed: 7, Trace: &traces[i]})
	}
	if !bytes.Equal(traces[0].Bytes(), traces[1].Bytes()) || bytes.Count(traces[0].Bytes(), []byte("\n")) < 100 {
		t.Errorf("traces of %d and %d bytes", traces[0].Len(), traces[1].Len())
	}
}

func TestMissingNamesWhatNeverHappened(t *testing.T) {
	if missing := simulate.Missing(simulate.Counts{"swept": 1}); len(missing) < 20 {
		t.Errorf("missing: %q", missing)
	}
}
