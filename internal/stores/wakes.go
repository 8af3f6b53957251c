package stores

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// A PendingWake waits to be pulled. Its id is its own: two wakes of one waiter have two.
type PendingWake struct {
	ID    string
	Event []byte // as it was registered, byte for byte
}

// Pending returns every wake that waits to be pulled, after it has told the changes that
// nobody has told yet. Wakes of a store whose changes can't be told just now come later.
func (c *Client) Pending(ctx context.Context) ([]PendingWake, error) {
	if err := c.drainAll(ctx, c.cfg.Space.AllChanges()); err != nil {
		return nil, err
	}
	span := c.cfg.Space.AllPulled()
	wakes := []PendingWake{}
	err := c.pages(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: pageRecords}, func(kvs []etcd.KV) error {
		for _, kv := range kvs {
			k, err := c.cfg.Space.Parse(kv.Key)
			if err != nil {
				return err
			}
			rec, err := record.DecodeOwed(kv.Value)
			if err != nil {
				c.bad(kv.Key, err)
				continue
			}
			wakes = append(wakes, PendingWake{ID: wakeID(k.Store, k.Wake), Event: rec.Event})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pending wakes: %w", err)
	}
	return wakes, nil
}

// drainAll drains every store of which there is a key in the span. One that can't be
// drained now keeps its wakes, and hinders no other.
func (c *Client) drainAll(ctx context.Context, span keyspace.Span) error {
	var keys []execution.StoreID
	err := c.pages(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: pageKeys, KeysOnly: true}, func(kvs []etcd.KV) error {
		for _, kv := range kvs {
			k, err := c.cfg.Space.Parse(kv.Key)
			if err != nil {
				return err
			}
			key := execution.StoreID{Name: k.Store.Name, ID: k.Store.ID}
			if len(keys) == 0 || keys[len(keys)-1] != key {
				keys = append(keys, key)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look for changes to tell: %w", err)
	}
	for _, key := range keys {
		c.drainNow(ctx, key)
	}
	return nil
}

// AckWake removes a wake that was pulled. One that is not there, any more or at all, is
// fine.
func (c *Client) AckWake(ctx context.Context, id string) error {
	key, wake, ok := parseWakeID(id)
	if !ok {
		return nil
	}
	if _, _, err := fencing.Send(ctx, c.cfg.Store, &etcd.Txn{Then: []etcd.Op{etcd.Delete{Key: c.cfg.Space.Pulled(key, wake)}}}); err != nil {
		return fmt.Errorf("acknowledge wake %q: %w", id, err)
	}
	return nil
}

// wakeID names a wake in a way that means nothing to others.
func wakeID(key keyspace.StoreKey, wake string) string {
	parts, err := json.Marshal([]string{key.Name, key.ID, wake})
	if err != nil {
		panic(fmt.Sprintf("stores: wake id: %v", err)) // they are strings
	}
	return base64.RawURLEncoding.EncodeToString(parts)
}

func parseWakeID(id string) (key keyspace.StoreKey, wake string, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		return key, "", false
	}
	var parts []string
	if json.Unmarshal(raw, &parts) != nil || len(parts) != 3 {
		return key, "", false
	}
	for _, p := range parts {
		if execution.ValidateName("wake id", p) != nil {
			return key, "", false
		}
	}
	return keyspace.StoreKey{Name: parts[0], ID: parts[1]}, parts[2], true
}
