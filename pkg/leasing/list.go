package leasing

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The bounds of a listing's pages, and of the keys that one of them looks at.
const (
	defaultPage = 100
	maxPage     = 1000
	maxLooked   = 4000
)

// List returns the executions that match every given filter, in the order of their
// keys. Records lack their params; a bad filter is an [*execution.InvalidError]. A
// record that can't be read is reported to the log and the observer, and left out.
func (c *Client) List(ctx context.Context, req execution.ListRequest) (execution.Page, error) {
	if err := completeList(&req); err != nil {
		return execution.Page{}, err
	}
	span := c.space.States(req.IDPrefix)
	get := etcd.Get{Key: span.Start, End: span.End, Limit: int64(min(req.Limit, 250))}
	if req.After != "" {
		if get.Key = c.space.State(req.After) + "\x00"; get.Key <= span.Start || get.Key >= span.End {
			return execution.Page{}, &execution.InvalidError{What: "list: After", Value: req.After, Reason: "is not the Next of a page of this listing"}
		}
	}
	var page execution.Page
	for looked := 0; looked < maxLooked; looked += int(get.Limit) {
		res, _, err := c.store.Get(ctx, get)
		if err != nil {
			return execution.Page{}, fmt.Errorf("list: %w", err)
		}
		recs, err := c.records(ctx, res.KVs)
		if err != nil {
			return execution.Page{}, fmt.Errorf("list: %w", err)
		}
		for i, rec := range recs {
			if !matches(req, rec) {
				continue
			}
			page.Records = append(page.Records, rec)
			if len(page.Records) == req.Limit && (i < len(recs)-1 || res.More) {
				page.Next = string(rec.ID)
				return page, nil
			}
		}
		if !res.More {
			return page, nil
		}
		last := res.KVs[len(res.KVs)-1].Key
		get.Key = last + "\x00"
		if k, err := c.space.Parse(last); err == nil {
			page.Next = k.ID
		}
	}
	return page, nil
}

func completeList(req *execution.ListRequest) error {
	if req.Status != "" && !slices.Contains(execution.Statuses(), req.Status) {
		return &execution.InvalidError{What: "list: status", Value: string(req.Status), Reason: fmt.Sprintf("is none of %v", execution.Statuses())}
	}
	if req.MinUnacknowledged < 0 {
		return &execution.InvalidError{What: "list: unacknowledgedDeliveries", Value: strconv.FormatInt(req.MinUnacknowledged, 10), Reason: "is negative"}
	}
	if req.Limit < 0 || req.Limit > maxPage {
		return &execution.InvalidError{What: "list: limit", Value: strconv.Itoa(req.Limit), Reason: fmt.Sprintf("is not between 1 and %d", maxPage)}
	}
	if req.Limit == 0 {
		req.Limit = defaultPage
	}
	return nil
}

func matches(req execution.ListRequest, rec execution.Record) bool {
	return (req.Status == "" || rec.Status == req.Status) &&
		(req.Workflow == "" || rec.Workflow == req.Workflow) &&
		(req.Queue == "" || rec.Queue == req.Queue) &&
		strings.HasPrefix(string(rec.ID), req.IDPrefix) &&
		rec.UnacknowledgedDeliveries >= req.MinUnacknowledged
}

// records shows the executions of a page of state records. Those that are claimed
// need their live records and their holders' processes too.
func (c *Client) records(ctx context.Context, states []etcd.KV) ([]execution.Record, error) {
	views := make([]view, 0, len(states))
	var claimed []*view
	for _, kv := range states {
		k, err := c.space.Parse(kv.Key)
		if err != nil {
			c.bad(kv.Key, err)
			continue
		}
		s, err := record.DecodeState(kv.Value)
		if err != nil {
			c.bad(kv.Key, err)
			continue
		}
		views = append(views, view{id: execution.ID(k.ID), state: s, rev: kv.Modified, created: kv.Created})
		if s.Claimed {
			claimed = append(claimed, &views[len(views)-1])
		}
	}
	alive, err := c.holding(ctx, claimed)
	if err != nil {
		return nil, err
	}
	recs := make([]execution.Record, 0, len(views))
	for i := range views {
		v := &views[i]
		recs = append(recs, c.record(v, v.live != nil && alive[v.live.Proc]))
	}
	return recs, nil
}

// holding reads the live records of claimed executions, and which holders' etcd
// leases live.
func (c *Client) holding(ctx context.Context, claimed []*view) (map[string]bool, error) {
	alive := map[string]bool{}
	for part := range slices.Chunk(claimed, batchReads/2) {
		var ops []etcd.Op
		for _, v := range part {
			ops = append(ops, etcd.Get{Key: c.space.Live(string(v.id))}, etcd.Get{Key: c.space.Wake(string(v.id))})
		}
		res, err := c.store.Txn(ctx, &etcd.Txn{Then: ops})
		if err != nil {
			return nil, err
		}
		for i, v := range part {
			if err := v.parseHolding(res.Results[2*i], res.Results[2*i+1]); err != nil {
				c.bad(c.space.Live(string(v.id)), err)
			}
		}
	}
	if len(claimed) == 0 {
		return alive, nil
	}
	procs, err := c.procs(ctx)
	for _, p := range procs {
		alive[p] = true
	}
	return alive, err
}

// procs lists the holder processes whose etcd leases live.
func (c *Client) procs(ctx context.Context) ([]string, error) {
	span := c.space.Procs()
	res, _, err := c.store.Get(ctx, etcd.Get{Key: span.Start, End: span.End, KeysOnly: true})
	if err != nil {
		return nil, err
	}
	var procs []string
	for _, kv := range res.KVs {
		if k, err := c.space.Parse(kv.Key); err == nil {
			procs = append(procs, k.Proc)
		}
	}
	return procs, nil
}
