package keyspace

import (
	"fmt"
	"strings"
	"time"
)

// A Kind is the first segment of a key within its namespace.
type Kind string

// The kinds of key. Frozen.
const (
	KindEpoch Kind = "epoch"
	KindProc  Kind = "proc"
	KindSpec  Kind = "spec"
	KindState Kind = "state"
	KindLive  Kind = "live"
	KindDue   Kind = "due"
	KindEvict Kind = "evict"
	KindWake  Kind = "wake"
	KindStep  Kind = "step"
	KindDone  Kind = "done"
)

// A Key is a parsed key. Which fields are set depends on its kind.
type Key struct {
	Kind Kind
	Proc string    // KindProc, KindEvict
	ID   string    // all but KindEpoch and KindProc
	Due  Due       // KindDue
	Step Step      // KindStep
	At   time.Time // KindDone
}

// Parse takes a key of this namespace apart. It refuses every key that the
// builders do not make of valid names: 1 or more bytes of UTF-8 without NUL.
func (s Space) Parse(key string) (Key, error) {
	rest, ok := strings.CutPrefix(key, s.root)
	if !ok {
		return Key{}, fmt.Errorf("key %q is not under %q", key, s.root)
	}
	k, err := parse(strings.Split(rest, "/"))
	if err != nil {
		return Key{}, fmt.Errorf("key %q: %w", key, err)
	}
	return k, nil
}

// segments returns how many segments the kind's keys have; 0: there is no such kind.
func (k Kind) segments() int {
	switch k {
	case KindEpoch:
		return 1
	case KindProc, KindSpec, KindState, KindLive, KindWake:
		return 2
	case KindEvict, KindDone:
		return 3
	case KindDue, KindStep:
		return 6
	}
	return 0
}

func parse(seg []string) (k Key, err error) {
	k.Kind = Kind(seg[0])
	want := k.Kind.segments()
	if want == 0 {
		return k, fmt.Errorf("unknown kind %q", seg[0])
	}
	if len(seg) != want {
		return k, fmt.Errorf("%d segments where %s keys have %d", len(seg), k.Kind, want)
	}
	switch k.Kind {
	case KindEpoch:
	case KindProc:
		k.Proc, err = unescape(seg[1])
	case KindSpec, KindState, KindLive, KindWake:
		k.ID, err = unescape(seg[1])
	case KindEvict:
		if k.Proc, err = unescape(seg[1]); err == nil {
			k.ID, err = unescape(seg[2])
		}
	case KindDone:
		if k.At, err = parseInstant(seg[1]); err == nil {
			k.ID, err = unescape(seg[2])
		}
	case KindDue:
		k.Due, err = parseDue(seg[1:])
		k.ID = k.Due.ID
	case KindStep:
		k.Step, err = parseStep(seg[1:])
		k.ID = k.Step.ID
	}
	return k, err
}

func parseDue(seg []string) (d Due, err error) {
	if d.Queue, err = unescape(seg[0]); err != nil {
		return d, err
	}
	if len(seg[1]) != 1 || seg[1] < "0" || seg[1] > "9" {
		return d, fmt.Errorf("%q is not a priority", seg[1])
	}
	d.Priority = int(seg[1][0] - '0')
	if d.At, err = parseInstant(seg[3]); err != nil {
		return d, err
	}
	if d.ID, err = unescape(seg[4]); err != nil {
		return d, err
	}
	if want := ShardOf(d.ID); seg[2] != hexDigits[want:want+1] {
		return d, fmt.Errorf("shard %q is not the id's", seg[2])
	}
	return d, nil
}

func parseStep(seg []string) (st Step, err error) {
	if st.ID, err = unescape(seg[0]); err != nil {
		return st, err
	}
	if st.Incarnation, err = parseNumber(seg[1], revisionDigits); err != nil {
		return st, err
	}
	if st.Run, err = parseNumber(seg[2], counterDigits); err != nil {
		return st, err
	}
	if st.Key, err = unescape(seg[3]); err != nil {
		return st, err
	}
	st.Attempt, err = parseNumber(seg[4], counterDigits)
	return st, err
}
