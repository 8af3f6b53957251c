package audit

import (
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
)

// A kept record is one that was decoded, with where and when it was found.
type kept[T any] struct {
	rec               *T
	key               string
	created, modified int64
}

// A view is what a namespace holds of one execution.
type view struct {
	id    string
	spec  *kept[record.Spec]
	state *kept[record.State]
	live  *kept[record.Live]
	wake  *kept[record.Wake]
	purge *kept[record.Purging]

	dues     map[string]entry
	steps    map[string]step
	dones    map[string]keyspace.Key
	evicts   map[string]evict
	receipts map[string]receipt
	starts   map[string]started
	events   map[string]sent
	applied  map[string]applied
	params   map[string]keyspace.CallKey // of runs after the first

	// unreadable: a record of it could not be decoded, so that nothing can be said
	// about the others.
	unreadable map[string]bool
}

// An entry is one of the due index, with the copy of the state in it.
type entry struct {
	kept[record.Due]
	at    keyspace.Due
	state *record.State
}

type step struct {
	kept[record.Step]
	at keyspace.Step
}

type evict struct {
	kept[record.Evict]
	proc string
}

type receipt struct {
	kept[record.Receipt]
	at    keyspace.CallKey
	store keyspace.StoreKey
}

// claimed says whether the execution's state says claimed.
func (v *view) claimed() bool { return v.state != nil && v.state.rec.Claimed }

// empty says whether nothing is left of the execution.
func (v *view) empty() bool {
	return v.spec == nil && v.state == nil && v.live == nil && v.wake == nil && v.purge == nil &&
		len(v.dues)+len(v.steps)+len(v.dones)+len(v.evicts)+len(v.receipts)+len(v.starts)+len(v.events)+len(v.applied)+len(v.params)+len(v.unreadable) == 0
}

// A namespace is the decoded content of a namespace.
type namespace struct {
	space  keyspace.Space
	epoch  string
	procs  map[string]bool
	views  map[string]*view
	stores map[keyspace.StoreKey]*storeView
	kinds  map[keyspace.Kind]int
}

func newNamespace(space keyspace.Space) *namespace {
	return &namespace{
		space:  space,
		procs:  map[string]bool{},
		views:  map[string]*view{},
		stores: map[keyspace.StoreKey]*storeView{},
		kinds:  map[keyspace.Kind]int{},
	}
}

// view returns what is known of the id, at first nothing.
func (n *namespace) view(id string) *view {
	v := n.views[id]
	if v == nil {
		v = &view{
			id: id, dues: map[string]entry{}, steps: map[string]step{}, dones: map[string]keyspace.Key{},
			evicts: map[string]evict{}, receipts: map[string]receipt{}, starts: map[string]started{}, events: map[string]sent{}, applied: map[string]applied{}, params: map[string]keyspace.CallKey{}, unreadable: map[string]bool{},
		}
		n.views[id] = v
	}
	return v
}

// put takes a key in. It reports keys and records that can't be read.
func (n *namespace) put(kv etcd.KV, f *findings) {
	k, err := n.space.Parse(kv.Key)
	if err != nil {
		f.add(Format, "", kv.Key, "%v", err)
		return
	}
	n.kinds[k.Kind]++
	if leased := kv.Lease != 0; leased != (k.Kind == keyspace.KindProc) {
		f.add(Format, k.ID, kv.Key, "bound to an etcd lease: %t; only proc keys are, and each of them is", leased)
	}
	if err := n.decode(k, kv); err != nil {
		f.add(Format, k.ID, kv.Key, "%v", err)
		switch {
		case ofStore(k.Kind):
			n.store(k.Store).unreadable[kv.Key] = true
		case k.ID != "":
			n.view(k.ID).unreadable[kv.Key] = true
		}
	}
}

// decode stores the record of a parsed key.
func (n *namespace) decode(k keyspace.Key, kv etcd.KV) error {
	switch k.Kind {
	case keyspace.KindEpoch:
		if n.epoch = string(kv.Value); n.epoch == "" {
			return fmt.Errorf("the epoch is empty")
		}
		return nil
	case keyspace.KindProc:
		n.procs[k.Proc] = true
		_, err := record.DecodeProc(kv.Value)
		return err
	}
	if ofStore(k.Kind) {
		return n.store(k.Store).decode(k, kv)
	}
	v := n.view(k.ID)
	delete(v.unreadable, kv.Key)
	switch k.Kind {
	case keyspace.KindSpec:
		return keep(&v.spec, kv, record.DecodeSpec)
	case keyspace.KindState:
		return keep(&v.state, kv, decodeState(kv))
	case keyspace.KindLive:
		return keep(&v.live, kv, func(b []byte) (*record.Live, error) { return record.DecodeLive(b, kv.Modified) })
	case keyspace.KindWake:
		return keep(&v.wake, kv, record.DecodeWake)
	case keyspace.KindPurging:
		return keep(&v.purge, kv, record.DecodePurging)
	case keyspace.KindDone:
		v.dones[kv.Key] = k
		return nil
	}
	return v.member(k, kv)
}

// member stores a record of which an execution can have several.
func (v *view) member(k keyspace.Key, kv etcd.KV) error {
	switch k.Kind {
	case keyspace.KindDue:
		d, s, err := record.DecodeDue(kv.Value, kv.Modified)
		if err == nil {
			v.dues[kv.Key] = entry{kept[record.Due]{d, kv.Key, kv.Created, kv.Modified}, k.Due, s}
		}
		return err
	case keyspace.KindStep:
		s, err := record.DecodeStep(kv.Value)
		if err == nil {
			s.Response = nil // may be large, and says nothing here
			v.steps[kv.Key] = step{kept[record.Step]{s, kv.Key, kv.Created, kv.Modified}, k.Step}
		}
		return err
	case keyspace.KindEvict:
		e, err := record.DecodeEvict(kv.Value)
		if err == nil {
			v.evicts[kv.Key] = evict{kept[record.Evict]{e, kv.Key, kv.Created, kv.Modified}, k.Proc}
		}
		return err
	case keyspace.KindParams:
		_, err := record.DecodeParams(kv.Value)
		if err == nil {
			v.params[kv.Key] = k.Call
		}
		return err
	case keyspace.KindStart:
		s, err := record.DecodeStart(kv.Value)
		if err == nil {
			s.Params = nil // as the response of a step
			v.starts[kv.Key] = started{kept[record.Start]{s, kv.Key, kv.Created, kv.Modified}, k.Call}
		}
		return err
	case keyspace.KindEvent:
		e, err := record.DecodeEvent(kv.Value)
		if err == nil {
			e.Payload = nil // as the response of a step
			v.events[kv.Key] = sent{kept[record.Event]{e, kv.Key, kv.Created, kv.Modified}, k.Event}
		}
		return err
	case keyspace.KindApplied:
		a, err := record.DecodeApplied(kv.Value)
		if err == nil {
			v.applied[kv.Key] = applied{kept[record.Applied]{a, kv.Key, kv.Created, kv.Modified}, k.Event}
		}
		return err
	case keyspace.KindReceipt:
		r, err := record.DecodeReceipt(kv.Value)
		if err == nil {
			r.Result = nil // as that of a step
			v.receipts[kv.Key] = receipt{kept[record.Receipt]{r, kv.Key, kv.Created, kv.Modified}, k.Call, k.Store}
		}
		return err
	}
	return fmt.Errorf("a key of kind %q, which this release does not know", k.Kind)
}

// keep decodes a value into the place for it, which is left as it is if that fails.
func keep[T any](place **kept[T], kv etcd.KV, decode func([]byte) (*T, error)) error {
	rec, err := decode(kv.Value)
	if err == nil {
		*place = &kept[T]{rec, kv.Key, kv.Created, kv.Modified}
	}
	return err
}

// decodeState reads a state, whose incarnation is then a number.
func decodeState(kv etcd.KV) func([]byte) (*record.State, error) {
	return func(b []byte) (*record.State, error) {
		s, err := record.DecodeState(b)
		if err == nil && s.Incarnation == 0 {
			s.Incarnation = kv.Created
		}
		return s, err
	}
}

// remove forgets a key.
func (n *namespace) remove(key string) {
	k, err := n.space.Parse(key)
	if err != nil {
		return // reported when it was put
	}
	n.kinds[k.Kind]--
	switch k.Kind {
	case keyspace.KindEpoch:
		n.epoch = ""
		return
	case keyspace.KindProc:
		delete(n.procs, k.Proc)
		return
	}
	if ofStore(k.Kind) {
		n.store(k.Store).remove(k, key)
		return
	}
	v := n.view(k.ID)
	delete(v.unreadable, key)
	switch k.Kind {
	case keyspace.KindSpec:
		v.spec = nil
	case keyspace.KindState:
		v.state = nil
	case keyspace.KindLive:
		v.live = nil
	case keyspace.KindWake:
		v.wake = nil
	case keyspace.KindPurging:
		v.purge = nil
	}
	delete(v.dues, key)
	delete(v.steps, key)
	delete(v.dones, key)
	delete(v.evicts, key)
	delete(v.receipts, key)
	delete(v.starts, key)
	delete(v.events, key)
	delete(v.applied, key)
	delete(v.params, key)
	if v.empty() {
		delete(n.views, k.ID)
	}
}
