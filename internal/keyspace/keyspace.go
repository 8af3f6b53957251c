package keyspace

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
)

// Shards is the number of parts of a queue's due index. Frozen: an id's shard is
// part of its key.
const Shards = 16

// DefaultPriority is the only priority that is written so far; the segment keeps
// room for others.
const DefaultPriority = 5

// MaxNamespaceBytes bounds a namespace and a prefix.
const MaxNamespaceBytes = 128

// MinPriority and MaxPriority bound a due entry's priority: it is one digit.
const (
	MinPriority = 0
	MaxPriority = 9
)

// A Span is the half-open range of keys [Start, End).
type Span struct{ Start, End string }

// prefixSpan returns the span of every key that begins with p. A p without a byte
// below 0xff, which no space makes, has an empty one.
func prefixSpan(p string) Span {
	b := []byte(p)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return Span{p, string(b[:i+1])}
		}
	}
	return Span{}
}

// A Space builds and parses the keys of one namespace. Its builders take the
// names that [Space.Parse] accepts and check nothing: whoever takes a name from a user
// validates it first.
type Space struct{ root string }

// New returns the space of the namespace under the prefix. A prefix is one or
// more plain segments ("/holdfast", "/team/holdfast"), none of which looks like a
// version ("v1"): it could lie inside another prefix's namespace. A namespace is
// one segment of any UTF-8 without NUL.
func New(prefix, namespace string) (Space, error) {
	if !plain(prefix) {
		return Space{}, fmt.Errorf("prefix %q: want 1 to %d bytes of UTF-8 without NUL", prefix, MaxNamespaceBytes)
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(prefix, "/"), "/") {
		if segment == "" || versionLike(segment) {
			return Space{}, fmt.Errorf("prefix %q holds the segment %q: want segments like \"/team/holdfast\", none empty and none a version", prefix, segment)
		}
	}
	if !plain(namespace) {
		return Space{}, fmt.Errorf("namespace %q: want 1 to %d bytes of UTF-8 without NUL", namespace, MaxNamespaceBytes)
	}
	return Space{root: prefix + "/v1/" + escape(namespace) + "/"}, nil
}

func plain(s string) bool {
	return len(s) <= MaxNamespaceBytes && wellFormed(s)
}

// versionLike says whether the segment is "v" and digits.
func versionLike(segment string) bool {
	digits, ok := strings.CutPrefix(segment, "v")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// All returns the span of the whole namespace.
func (s Space) All() Span { return prefixSpan(s.root) }

// Epoch returns the key of the namespace's epoch.
func (s Space) Epoch() string { return s.root + "epoch" }

// Proc returns the key of the holder process p.
func (s Space) Proc(p string) string { return s.root + "proc/" + escape(p) }

// Procs returns the span of all holder processes.
func (s Space) Procs() Span { return prefixSpan(s.root + "proc/") }

// Spec returns the key of the execution's spec.
func (s Space) Spec(id string) string { return s.root + "spec/" + escape(id) }

// Specs returns the span of all specs.
func (s Space) Specs() Span { return prefixSpan(s.root + "spec/") }

// State returns the key of the execution's state record.
func (s Space) State(id string) string { return s.root + "state/" + escape(id) }

// States returns the span of the state records of all ids that begin with
// idPrefix, which may be empty.
func (s Space) States(idPrefix string) Span { return prefixSpan(s.root + "state/" + escape(idPrefix)) }

// Live returns the key of the execution's live record.
func (s Space) Live(id string) string { return s.root + "live/" + escape(id) }

// Lives returns the span of all live records.
func (s Space) Lives() Span { return prefixSpan(s.root + "live/") }

// Wake returns the key of the execution's pending wake.
func (s Space) Wake(id string) string { return s.root + "wake/" + escape(id) }

// Wakes returns the span of all pending wakes.
func (s Space) Wakes() Span { return prefixSpan(s.root + "wake/") }

// Evict returns the key that tells process p to stop its delivery of the execution.
func (s Space) Evict(p, id string) string { return s.root + "evict/" + escape(p) + "/" + escape(id) }

// Evicts returns the span of the evictions of process p.
func (s Space) Evicts(p string) Span { return prefixSpan(s.root + "evict/" + escape(p) + "/") }

// AllEvicts returns the span of the evictions of all processes.
func (s Space) AllEvicts() Span { return prefixSpan(s.root + "evict/") }

// Done returns the key that says that the execution became terminal at t.
func (s Space) Done(t time.Time, id string) string {
	return s.root + "done/" + instant(t) + "/" + escape(id)
}

// Dones returns the span of all terminal executions, by time.
func (s Space) Dones() Span { return prefixSpan(s.root + "done/") }

// Purging returns the key that says that the execution is being deleted.
func (s Space) Purging(id string) string { return s.root + "purging/" + escape(id) }

// Purgings returns the span of all executions that are being deleted.
func (s Space) Purgings() Span { return prefixSpan(s.root + "purging/") }

// A Due names an entry of the due index.
type Due struct {
	Queue    string
	Priority int       // MinPriority to MaxPriority; one outside is written as the nearest
	At       time.Time // in whole milliseconds of 1970 to MaxTime; one outside is written as the nearest
	ID       string
}

// Due returns the key of the entry. Its shard follows from the id.
func (s Space) Due(d Due) string {
	return s.shard(d.Queue, d.Priority, ShardOf(d.ID)) + instant(d.At) + "/" + escape(d.ID)
}

func (s Space) queue(queue string) string { return s.root + "due/" + escape(queue) + "/" }

func (s Space) shard(queue string, priority, shard int) string {
	digit := '0' + rune(min(max(priority, MinPriority), MaxPriority))
	return s.queue(queue) + string(digit) + "/" + hexDigits[shard:shard+1] + "/"
}

// DueUntil returns the span of the entries of one shard (0 to Shards-1) of a
// queue that are due at or before t, in the order of their times.
func (s Space) DueUntil(queue string, priority, shard int, t time.Time) Span {
	p := s.shard(queue, priority, shard)
	return Span{p, p + instant(t) + "0"} // '0' follows the '/' of that instant's entries
}

// Dues returns the span of a queue's due index.
func (s Space) Dues(queue string) Span { return prefixSpan(s.queue(queue)) }

// AllDues returns the span of the due index of all queues.
func (s Space) AllDues() Span { return prefixSpan(s.root + "due/") }

// ShardOf returns the shard of the due index that holds the id's entries. Frozen.
// The hash is folded, since its low bits depend on the low bits of each byte only.
func ShardOf(id string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id)) // never fails
	sum := h.Sum32()
	return int((sum>>16 ^ sum) % Shards)
}

// A Step names one attempt's record of a step.
type Step struct {
	ID          string
	Incarnation int64 // not negative
	Run         int64 // 0 to MaxCounter; one outside is written as the nearest
	Key         string
	Attempt     int64 // 0 to MaxCounter; one outside is written as the nearest
}

// Step returns the key of the attempt's record.
func (s Space) Step(st Step) string {
	return s.run(st.ID, st.Incarnation, st.Run) + escape(st.Key) + "/" + counter(st.Attempt)
}

func (s Space) run(id string, inc, run int64) string {
	return s.root + "step/" + runSegments(id, inc, run)
}

// Run returns the span of the step records of one run.
func (s Space) Run(id string, inc, run int64) Span { return prefixSpan(s.run(id, inc, run)) }

// StepsOf returns the span of every step record of the id, whatever its
// incarnation and run.
func (s Space) StepsOf(id string) Span { return prefixSpan(s.root + "step/" + escape(id) + "/") }

// Steps returns the span of the step records of all executions.
func (s Space) Steps() Span { return prefixSpan(s.root + "step/") }
