package keyspace

import (
	"fmt"
	"strings"
	"time"
)

// A Kind is the first segment of a key within its namespace, and of the outbox's
// keys the first two.
type Kind string

// The kinds of key. Frozen.
const (
	KindEpoch   Kind = "epoch"
	KindProc    Kind = "proc"
	KindSpec    Kind = "spec"
	KindState   Kind = "state"
	KindLive    Kind = "live"
	KindDue     Kind = "due"
	KindEvict   Kind = "evict"
	KindWake    Kind = "wake"
	KindStep    Kind = "step"
	KindDone    Kind = "done"
	KindPurging Kind = "purging"
	KindParams  Kind = "params"
	KindStart   Kind = "start"
	KindEvent   Kind = "event"
	KindApplied Kind = "applied"
	KindStore   Kind = "store"
	KindReceipt Kind = "receipt"
	KindWaiter  Kind = "waiter"
	KindChange  Kind = "outbox/change"
	KindOwed    Kind = "outbox/wake"
	KindPulled  Kind = "pulled"
)

// A Key is a parsed key. Which fields are set depends on its kind.
type Key struct {
	Kind    Kind
	Proc    string    // KindProc, KindEvict
	ID      string    // the execution's: all but KindEpoch, KindProc and those without Call that have Store
	Due     Due       // KindDue
	Step    Step      // KindStep
	At      time.Time // KindDone
	Store   StoreKey  // KindStore, KindReceipt, KindWaiter, KindChange, KindOwed, KindPulled
	Call    CallKey   // KindReceipt, KindWaiter, KindStart; KindParams, without a step
	Version int64     // KindChange
	Wake    string    // KindOwed, KindPulled
	Event   EventKey  // KindEvent, KindApplied
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

// segments returns how many segments follow the kind; false: there is no such kind.
func (k Kind) segments() (int, bool) {
	switch k {
	case KindEpoch:
		return 0, true
	case KindProc, KindSpec, KindState, KindLive, KindWake, KindPurging:
		return 1, true
	case KindEvict, KindDone, KindStore:
		return 2, true
	case KindParams, KindChange, KindOwed, KindPulled:
		return 3, true
	case KindStart, KindEvent, KindApplied:
		return 4, true
	case KindDue, KindStep:
		return 5, true
	case KindReceipt, KindWaiter:
		return 6, true
	}
	return 0, false
}

// kindOf splits the kind off.
func kindOf(seg []string) (Kind, []string) {
	if seg[0] == "outbox" && len(seg) > 1 {
		return Kind(seg[0] + "/" + seg[1]), seg[2:]
	}
	return Kind(seg[0]), seg[1:]
}

func parse(all []string) (k Key, err error) {
	kind, seg := kindOf(all)
	k.Kind = kind
	switch want, known := kind.segments(); {
	case !known:
		return k, fmt.Errorf("unknown kind %q", kind)
	case len(seg) != want:
		return k, fmt.Errorf("%d segments after the kind where %s keys have %d", len(seg), kind, want)
	}
	switch kind {
	case KindEpoch:
	case KindProc:
		k.Proc, err = unescape(seg[0])
	case KindSpec, KindState, KindLive, KindWake, KindPurging:
		k.ID, err = unescape(seg[0])
	case KindEvict:
		if k.Proc, err = unescape(seg[0]); err == nil {
			k.ID, err = unescape(seg[1])
		}
	case KindDone:
		if k.At, err = parseInstant(seg[0]); err == nil {
			k.ID, err = unescape(seg[1])
		}
	case KindDue:
		k.Due, err = parseDue(seg)
		k.ID = k.Due.ID
	case KindStep:
		k.Step, err = parseStep(seg)
		k.ID = k.Step.ID
	case KindParams:
		k.Call.ID, k.Call.Incarnation, k.Call.Run, err = parseRun(seg)
		k.ID = k.Call.ID
	case KindStart:
		k.Call, err = parseCallKey(seg)
		k.ID = k.Call.ID
	case KindEvent, KindApplied:
		k.Event, err = parseEventKey(seg)
		k.ID = k.Event.ID
	default:
		err = k.parseStores(seg)
		k.ID = k.Call.ID
	}
	return k, err
}

// parseStores reads the kinds that have a store.
func (k *Key) parseStores(seg []string) (err error) {
	switch k.Kind {
	case KindReceipt:
		if k.Call, err = parseCallKey(seg); err == nil {
			k.Store, err = parseStoreKey(seg[4:])
		}
		return err
	case KindWaiter:
		if k.Store, err = parseStoreKey(seg); err == nil {
			k.Call, err = parseCallKey(seg[2:])
		}
		return err
	}
	if k.Store, err = parseStoreKey(seg); err != nil {
		return err
	}
	switch k.Kind {
	case KindChange:
		k.Version, err = parseNumber(seg[2], revisionDigits)
	case KindOwed, KindPulled:
		k.Wake, err = unescape(seg[2])
	}
	return err
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
	if st.ID, st.Incarnation, st.Run, err = parseRun(seg); err != nil {
		return st, err
	}
	if st.Key, err = unescape(seg[3]); err != nil {
		return st, err
	}
	st.Attempt, err = parseNumber(seg[4], counterDigits)
	return st, err
}
