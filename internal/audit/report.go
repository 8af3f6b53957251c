// Package audit verifies the invariants of a namespace from the outside. It
// shares the record formats with the engine, but none of its decisions.
//
// [Check] reads one consistent snapshot and reports whatever no correct history
// could have led to. It is exact: a namespace in use, with deliveries, expiries
// and evictions under way, has no violation either. [Replay] follows every
// revision from the first one and so also sees what a snapshot can't, such as a
// stale write that was accepted and covered up later.
//
// Neither depends on a clock. What they verify, by the numbers of the protocol's
// invariants:
//
//	I1  the tokens of one execution strictly rise
//	I2  live exists if and only if state is claimed, and names its token; nobody
//	    takes over from a process that is there (replay)
//	I3  no step was accepted with a token that was not current; no delivery was
//	    ended by another token than the current one (replay)
//	I5  a step record and an outcome never change, and go with their execution only
//	I6  the due index holds exactly what can be claimed; there is no garbage
//	I7  unacknowledgedDeliveries agrees with the history
//	I8  nothing can be claimed before its not-before
//	I9  an answered wake is not forgotten (replay), nor is a change of a store before
//	    those whom it concerns are woken (replay), nor the end of an execution before
//	    those who wait for it are; an event that is sent has a delivery to come
//	    (replay), and so has a deadline
//	I10 a receipt never changes, goes with its execution only, and is for one
//	    mutation, with which it was written (replay); versions of a store leave no gap
//	    (replay); likewise a start, with the admission of what it names, and the
//	    receipt of an event, which comes in the event's place (replay)
//
// I4 and I11 are about answers and clocks, which no key shows.
package audit

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// An Invariant names what was violated.
type Invariant string

// The invariants that can be seen to be violated. Format stands for a key or a
// record that no release writes.
const (
	I1     Invariant = "I1"
	I2     Invariant = "I2"
	I3     Invariant = "I3"
	I5     Invariant = "I5"
	I6     Invariant = "I6"
	I7     Invariant = "I7"
	I8     Invariant = "I8"
	I9     Invariant = "I9"
	I10    Invariant = "I10"
	Format Invariant = "format"
)

// A Violation is a proof that an invariant did not hold.
type Violation struct {
	Invariant Invariant `json:"invariant"`
	ID        string    `json:"executionId,omitempty"` // empty: it concerns no execution
	Key       string    `json:"key"`                   // where it shows
	Revision  int64     `json:"revision"`              // at which it was seen
	Detail    string    `json:"detail"`
}

// String renders the violation in one line.
func (v Violation) String() string {
	if v.ID == "" {
		return fmt.Sprintf("%s: key %q at revision %d: %s", v.Invariant, v.Key, v.Revision, v.Detail)
	}
	return fmt.Sprintf("%s: execution %q, key %q at revision %d: %s", v.Invariant, v.ID, v.Key, v.Revision, v.Detail)
}

// A Report is what a snapshot holds.
type Report struct {
	Revision int64                 `json:"revision"`
	Keys     map[keyspace.Kind]int `json:"keys"` // number of keys by kind
	// Executions counts them by status; a claimed one whose process is gone has its
	// base status, as a caller would read it.
	Executions map[execution.Status]int `json:"executions"`
	// Unreaped counts expired leases that no reaper has come by yet, and Evictions
	// those whose process is gone: both are work that the next scan does.
	Unreaped   int         `json:"unreaped"`
	Evictions  int         `json:"evictions"`
	Violations []Violation `json:"violations"`
}

// OK says that no invariant is violated.
func (r Report) OK() bool { return len(r.Violations) == 0 }

// Print writes the report for a reader: the numbers, then one line a violation.
func (r Report) Print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "revision %d\n", r.Revision)
	for _, s := range execution.Statuses() {
		fmt.Fprintf(&b, "  %-9s %d\n", s, r.Executions[s])
	}
	for _, k := range slices.Sorted(maps.Keys(r.Keys)) {
		fmt.Fprintf(&b, "  %s keys: %d\n", k, r.Keys[k])
	}
	fmt.Fprintf(&b, "  expired and not seen yet: %d\n  evictions that nobody will act on: %d\n", r.Unreaped, r.Evictions)
	for _, v := range r.Violations {
		fmt.Fprintln(&b, v)
	}
	switch n := len(r.Violations); n {
	case 0:
		b.WriteString("no violation\n")
	default:
		fmt.Fprintf(&b, "%d violations\n", n)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// findings collects violations.
type findings struct {
	revision int64
	list     []Violation
}

func (f *findings) add(i Invariant, id, key, format string, args ...any) {
	f.list = append(f.list, Violation{i, id, key, f.revision, fmt.Sprintf(format, args...)})
}

// sorted returns the violations by invariant, execution and key.
func (f *findings) sorted() []Violation {
	slices.SortStableFunc(f.list, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Invariant, b.Invariant), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Key, b.Key))
	})
	return f.list
}

// count fills in the report's numbers.
func (n *namespace) count(r *Report) {
	r.Executions = map[execution.Status]int{}
	for _, v := range n.views {
		for _, e := range v.evicts {
			if !n.procs[e.proc] {
				r.Evictions++
			}
		}
		if v.state == nil {
			continue
		}
		status := v.state.rec.Base
		if v.claimed() && v.live != nil {
			if n.procs[v.live.rec.Proc] {
				status = execution.StatusRunning
			} else if v.live.rec.Reaped == 0 {
				r.Unreaped++
			}
		}
		r.Executions[status]++
	}
}
