package event

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// pageEvents is how many keys one read asks for.
const pageEvents = 2000

// A Pending is an event that no step has applied.
type Pending struct {
	Event   execution.AppliedEvent // what a step is recorded with that applies it
	Payload json.RawMessage
}

// List returns the ids of the events in the inbox, in the order of their arrival. It
// reads keys only, in pages at one revision.
func (c *Client) List(ctx context.Context, box Inbox) ([]string, error) {
	type arrival struct {
		id      string
		created int64
	}
	var all []arrival
	span := c.cfg.Space.EventsNamed(string(box.Execution), box.Incarnation, box.Name)
	get := etcd.Get{Key: span.Start, End: span.End, Limit: pageEvents, KeysOnly: true}
	for {
		res, revision, err := c.cfg.Store.Get(ctx, get)
		if err != nil {
			return nil, fmt.Errorf("list the events %q of %q: %w", box.Name, string(box.Execution), err)
		}
		for _, kv := range res.KVs {
			k, err := c.cfg.Space.Parse(kv.Key)
			if err != nil {
				return nil, fmt.Errorf("list the events %q of %q: %w", box.Name, string(box.Execution), err)
			}
			all = append(all, arrival{k.Event.Event, kv.Created})
		}
		if !res.More {
			break
		}
		get.Key = res.KVs[len(res.KVs)-1].Key + "\x00"
		if get.Revision == 0 {
			get.Revision = revision
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return cmp.Or(cmp.Compare(a.created, b.created), cmp.Compare(a.id, b.id)) })
	ids := make([]string, len(all))
	for i, a := range all {
		ids[i] = a.id
	}
	return ids, nil
}

// Read returns one event of the inbox; false: a step has applied it, or it was never
// there.
func (c *Client) Read(ctx context.Context, box Inbox, id string) (Pending, bool, error) {
	res, _, err := c.cfg.Store.Get(ctx, etcd.Get{Key: c.cfg.Space.Event(box.key(id))})
	if err != nil {
		return Pending{}, false, fmt.Errorf("read event %q, %q, of %q: %w", box.Name, id, string(box.Execution), err)
	}
	kv, there := res.One()
	if !there {
		return Pending{}, false, nil
	}
	rec, err := record.DecodeEvent(kv.Value)
	if err != nil {
		return Pending{}, false, fmt.Errorf("key %q: %w", kv.Key, err)
	}
	return Pending{Event: execution.AppliedEvent{Name: box.Name, ID: id, Digest: rec.Digest}, Payload: rec.Payload}, true, nil
}
