package memetcd

import (
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// A draft is the next revision while it is being written. Its versions are in the
// history already; nobody else reads them before the commit, and nothing fails
// between the first write and the commit.
type draft struct {
	history *history
	lessor  *lessor
	events  []etcd.Event
}

// revision is what a read inside the transaction sees: its own writes, once there
// are any.
func (d *draft) revision() int64 {
	if len(d.events) == 0 {
		return d.history.revision
	}
	return d.history.revision + 1
}

// put writes a key. A put without an etcd lease takes the key off the one it had.
func (d *draft) put(p etcd.Put) {
	next := d.history.revision + 1
	kv := etcd.KV{Key: p.Key, Value: slices.Clone(p.Value), Created: next, Modified: next, Lease: p.Lease}
	if old, ok := d.history.at(p.Key, next); ok {
		kv.Created = old.Created
		d.lessor.detach(old.Lease, p.Key)
	}
	d.lessor.attach(p.Lease, p.Key)
	d.add(etcd.Event{KV: kv})
}

// delete removes the keys of the span. Their events name them and the revision
// only.
func (d *draft) delete(s span) {
	next := d.history.revision + 1
	for _, name := range d.history.names(s) {
		old, ok := d.history.at(name, next)
		if !ok {
			continue
		}
		d.lessor.detach(old.Lease, name)
		d.add(etcd.Event{KV: etcd.KV{Key: name, Modified: next}, Deleted: true})
	}
}

func (d *draft) add(e etcd.Event) {
	d.history.add(e)
	d.events = append(d.events, e)
}
