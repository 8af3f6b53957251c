package leasing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The bounds of a scan of the due index. Etcd's default limit is 128 operations in
// a transaction; a range's cost grows with the keys in it, so its end is bounded
// by the look-ahead.
const (
	batchReads  = 96               // ranges or gets in one reading transaction
	scanPages   = 16               // a holder's reads in one scan; the next one goes on from there
	callPages   = 4096             // a direct caller's, which has no next one
	maxScanPage = 128              // entries of one shard in one read
	lookAhead   = 40 * time.Second // how far a scan looks for the next due time
)

// A candidate is a due entry that a claim may take.
type candidate struct {
	id    execution.ID
	key   string
	rev   int64 // the entry's mod-revision
	at    time.Time
	due   *record.Due
	state *record.State // exact if the entry's revisions compare
}

// A dueScan looks for candidates in the due index.
type dueScan struct {
	client    *Client
	queues    []string
	workflows []string // empty: all
	now       time.Time
	want      int
	first     int                     // the shard to begin with: dispatchers begin at different ones
	skip      func(execution.ID) bool // may be nil
	pages     int                     // how many to read past entries that the caller can't take
	// resume says where to go on in the shards in which an earlier scan found nothing
	// for this caller within its pages; run replaces it. Shards begin at their heads
	// otherwise.
	resume map[shard]string
}

// A shard is one part of one queue's due index.
type shard struct {
	queue  string
	number int
}

// A cursor is the rest of a shard.
type cursor struct {
	shard
	get etcd.Get
}

// run returns up to want candidates and the next time at which one of the queues'
// other entries within the look-ahead is due (zero: none). Within a shard the
// candidates are in the order of their due times.
func (d *dueScan) run(ctx context.Context) (found []candidate, next time.Time, err error) {
	cursors := d.cursors()
	seen := map[execution.ID]bool{}
	for page := 0; len(cursors) > 0 && page < d.pages && len(found) < d.want; page++ {
		var rest []cursor
		for part := range slices.Chunk(cursors, batchReads) {
			left, at, err := d.page(ctx, part, seen, &found)
			if err != nil {
				return nil, time.Time{}, err
			}
			next = sooner(next, at)
			rest = append(rest, left...)
		}
		cursors = rest
	}
	d.resume = map[shard]string{}
	if len(cursors) > 0 && len(found) < d.want {
		next = d.now
		for _, cur := range cursors {
			d.resume[cur.shard] = cur.get.Key
		}
	}
	return found, next, nil
}

// page reads the next entries of some shards, and returns the cursors behind which
// there may be more that is due.
func (d *dueScan) page(ctx context.Context, part []cursor, seen map[execution.ID]bool, found *[]candidate) (rest []cursor, next time.Time, err error) {
	ops := make([]etcd.Op, len(part))
	for i, cur := range part {
		ops[i] = cur.get
	}
	res, err := d.client.store.Txn(ctx, &etcd.Txn{Then: ops})
	if err != nil {
		return nil, next, fmt.Errorf("scan the due index: %w", err)
	}
	for i, cur := range part {
		kvs := res.Results[i].KVs
		at, ripe := d.take(kvs, seen, found)
		next = sooner(next, at)
		if res.Results[i].More && ripe {
			cur.get.Key = kvs[len(kvs)-1].Key + "\x00"
			cur.get.Limit = min(2*cur.get.Limit, maxScanPage)
			rest = append(rest, cur)
		}
	}
	return rest, next, nil
}

func (d *dueScan) cursors() []cursor {
	limit := int64(max(2, d.want/4))
	var cursors []cursor
	for i := range keyspace.Shards {
		for _, q := range d.queues {
			sh := shard{q, (d.first + i) % keyspace.Shards}
			span := d.client.space.DueUntil(q, keyspace.DefaultPriority, sh.number, d.now.Add(lookAhead))
			cur := cursor{sh, etcd.Get{Key: span.Start, End: span.End, Limit: limit}}
			if from := d.resume[sh]; from != "" {
				cur.get.Key, cur.get.Limit = from, maxScanPage
			}
			cursors = append(cursors, cur)
		}
	}
	return cursors
}

// take sorts the entries of one read into candidates, until there are enough, and
// the time of the first one that is not due yet; ripe: all of them were due, so
// more may follow.
func (d *dueScan) take(kvs []etcd.KV, seen map[execution.ID]bool, found *[]candidate) (next time.Time, ripe bool) {
	for _, kv := range kvs {
		k, err := d.client.space.Parse(kv.Key)
		if err != nil {
			d.client.bad(kv.Key, err)
			continue
		}
		if k.Due.At.After(d.now) {
			return k.Due.At, false
		}
		if len(*found) >= d.want {
			return time.Time{}, true
		}
		due, state, err := record.DecodeDue(kv.Value, kv.Modified)
		if err != nil {
			d.client.bad(kv.Key, err)
			continue
		}
		if len(d.workflows) > 0 && !slices.Contains(d.workflows, state.Workflow) {
			continue
		}
		id := execution.ID(k.ID)
		if seen[id] || d.skip != nil && d.skip(id) || d.client.outdated.has(kv.Key, kv.Modified) {
			continue
		}
		seen[id] = true
		*found = append(*found, candidate{id: id, key: kv.Key, rev: kv.Modified, at: k.Due.At, due: due, state: state})
	}
	return time.Time{}, true
}

// queues lists the queues of the namespace that have due entries, in order. It
// reads one entry of each; etcd counts every key behind it, so this is for callers
// who name no queues, not for dispatchers.
func (c *Client) queues(ctx context.Context) ([]string, error) {
	all := c.space.AllDues()
	var queues []string
	for start := all.Start; ; {
		res, _, err := c.store.Get(ctx, etcd.Get{Key: start, End: all.End, Limit: 1, KeysOnly: true})
		if err != nil {
			return nil, fmt.Errorf("list the queues: %w", err)
		}
		kv, ok := res.One()
		if !ok {
			return queues, nil
		}
		k, err := c.space.Parse(kv.Key)
		if err != nil {
			c.bad(kv.Key, err)
			start = kv.Key + "\x00"
			continue
		}
		queues = append(queues, k.Due.Queue)
		start = c.space.Dues(k.Due.Queue).End
	}
}

// byDue orders candidates by due time, so that an old one is claimed first.
func byDue(a, b candidate) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) }
