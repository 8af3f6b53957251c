package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
)

// The snapshot is read in pages, so that no response outgrows a message, and from
// the beginning where a compaction overtook it.
const (
	pageKeys = 500
	attempts = 5
)

// Check reads a snapshot of the whole namespace and verifies it.
func Check(ctx context.Context, store etcd.Store, space keyspace.Space) (Report, error) {
	f := &findings{}
	n, err := snapshot(ctx, store, space, f)
	if err != nil {
		return Report{}, fmt.Errorf("check namespace: %w", err)
	}
	r := Report{Revision: f.revision, Keys: n.kinds}
	if n.epoch == "" && n.inUse() {
		f.add(Format, "", space.Epoch(), "the epoch is missing: no fenced write can be accepted")
	}
	for _, v := range n.views {
		n.check(v, f)
	}
	for _, s := range n.stores {
		n.checkStore(s, f)
	}
	n.checkCommits(f)
	n.count(&r)
	r.Violations = f.sorted()
	return r, nil
}

// inUse says whether there are executions, or were: stores alone need no epoch.
func (n *namespace) inUse() bool {
	for _, v := range n.views {
		for _, r := range v.receipts {
			if r.at.Incarnation != 0 {
				return true
			}
		}
		if len(v.receipts) == 0 || v.state != nil {
			return true
		}
	}
	return len(n.procs) > 0
}

// snapshot reads every key at one revision.
func snapshot(ctx context.Context, store etcd.Store, space keyspace.Space, f *findings) (*namespace, error) {
	var err error
	for range attempts {
		n := newNamespace(space)
		*f = findings{}
		var compacted *etcd.CompactedError
		if err = n.read(ctx, store, f); err == nil || !errors.As(err, &compacted) {
			return n, err
		}
	}
	return nil, fmt.Errorf("compacted %d times while it was read: %w", attempts, err)
}

// read takes in the pages of the namespace, all at the revision of the first.
func (n *namespace) read(ctx context.Context, store etcd.Store, f *findings) error {
	span := n.space.All()
	get := etcd.Get{Key: span.Start, End: span.End, Limit: pageKeys}
	for {
		page, revision, err := store.Get(ctx, get)
		if err != nil {
			return err
		}
		if get.Revision == 0 {
			get.Revision, f.revision = revision, revision
		}
		for _, kv := range page.KVs {
			n.put(kv, f)
		}
		if !page.More || len(page.KVs) == 0 {
			return nil
		}
		get.Key = page.KVs[len(page.KVs)-1].Key + "\x00"
	}
}
