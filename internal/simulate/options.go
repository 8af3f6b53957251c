package simulate

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
)

// Options describe a run.
type Options struct {
	Seed  uint64
	Trace io.Writer // a line for each event of the schedule; nil: none
	// Mutate changes what the engine sends to etcd, to plant a fault; nil: nothing.
	Mutate func(etcd.Store, keyspace.Space) etcd.Store
}

// A Result is what a run came to.
type Result struct {
	Seed       uint64
	Hash       string        // of the whole history
	Virtual    time.Duration // how long it took in virtual time
	Operations int           // calls to etcd
	Rare       Counts        // how often each rare event happened
	Violations []string
}

// Counts counts events by name.
type Counts map[string]int

// Add adds the other counts.
func (c Counts) Add(other Counts) {
	for name, n := range other {
		c[name] += n
	}
}

// Missing lists the rare events that a long run must have met and has not.
func Missing(c Counts) []string {
	var missing []string
	for _, name := range []string{
		"stale writeStep refused", "stale acknowledge refused", "stale release refused", "stale renew refused",
		"renewal after an expiry", "reap came too late", "claim came too late", "two reapers at once",
		"call arrives after its caller has gone",
		"answer lost: admit", "answer lost: claim", "answer lost: step", "answer lost: suspended", "answer lost: completed",
		"answer lost: released", "answer lost: fenced", "answer lost: cancelled", "answer lost: reap", "answer lost: proc",
		"answer lost: renew onto a new etcd lease", "answer lost: wake", "answer lost: wake of a claimed one",
		"answer lost: keepalive", "answer lost: grant", "answer lost: eviction acted on",
		"takeover", "swept", "evicted", "unconfirmed", "watch-restart", "compaction", "clock stepped",
		"process killed", "process drained", "node frozen", "etcd lease ended early",
	} {
		if c[name] == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// Table renders the counts, a line each.
func (c Counts) Table() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "  %-40s %d\n", name, c[name])
	}
	return b.String()
}

// The durations of a run, short so that much happens in little of it. Etcd in
// memory grants no TTL under a second.
const (
	leaseDuration = 2 * time.Second
	renewEvery    = 600 * time.Millisecond
	delayBase     = 100 * time.Millisecond
	delayCap      = 1600 * time.Millisecond
	scanInterval  = time.Second
	drainTimeout  = time.Second
	chaos         = 20 * time.Second // how long the faults go on
	bound         = 30 * time.Minute // within which everything must have ended after them
	dispatchers   = 3
	callers       = 2 // direct holders
	population    = 6
	stepsEach     = 3
)
