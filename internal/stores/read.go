package stores

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// pageKeys and pageRecords are how many keys, or whole records, one read asks for.
const (
	pageKeys    = 500
	pageRecords = 32
)

// Get reads a store. One that does not exist gives a [*NotFoundError].
func (c *Client) Get(ctx context.Context, key execution.StoreID) (Snapshot, error) {
	if err := key.Validate(); err != nil {
		return Snapshot{}, err
	}
	l, err := c.look(ctx, subject{key: key})
	switch {
	case err != nil:
		return Snapshot{}, fmt.Errorf("get of %s: %w", describe(key), err)
	case l.rec == nil:
		return Snapshot{}, &NotFoundError{key}
	}
	return snapshot(l.rec), nil
}

// List returns the ids of the stores of one name, in ascending order of their bytes.
func (c *Client) List(ctx context.Context, name string) ([]string, error) {
	if err := execution.ValidateName("store name", name); err != nil {
		return nil, err
	}
	span := c.cfg.Space.Stores(name)
	ids := []string{}
	err := c.pages(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: pageKeys, KeysOnly: true}, func(kvs []etcd.KV) error {
		for _, kv := range kvs {
			k, err := c.cfg.Space.Parse(kv.Key)
			if err != nil {
				return err
			}
			ids = append(ids, k.Store.ID)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list of stores %q: %w", name, err)
	}
	slices.Sort(ids) // the keys sort by their encoding
	return ids, nil
}

// Receipt returns what was recorded of a step's mutation of the store, if anything was.
func (c *Client) Receipt(ctx context.Context, key execution.StoreID, step execution.StepID) (result []byte, found bool, err error) {
	if err := validate(key, &step); err != nil {
		return nil, false, err
	}
	res, _, err := c.cfg.Store.Get(ctx, etcd.Get{Key: c.cfg.Space.Receipt(callKey(step), storeKey(key))})
	if err != nil {
		return nil, false, fmt.Errorf("receipt of step %q of %q at %s: %w", step.Step, string(step.Execution), describe(key), err)
	}
	kv, found := res.One()
	if !found {
		return nil, false, nil
	}
	rec, err := record.DecodeReceipt(kv.Value)
	if err != nil {
		return nil, false, fmt.Errorf("key %q: %w", kv.Key, err)
	}
	return rec.Result, true, nil
}

// pages reads what the request selects, in pages of its limit at one revision.
func (c *Client) pages(ctx context.Context, get etcd.Get, each func([]etcd.KV) error) error {
	for {
		res, rev, err := c.cfg.Store.Get(ctx, get)
		if err != nil {
			return err
		}
		if err := each(res.KVs); err != nil || !res.More {
			return err
		}
		get.Key = res.KVs[len(res.KVs)-1].Key + "\x00"
		if get.Revision == 0 {
			get.Revision = rev
		}
	}
}
