package leasing

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Get reads an execution. Its status is running exactly while its holder's etcd
// lease lives: a delivery whose lease has expired is shown with its base status
// and counted, though nobody has claimed since. An unknown id gives an
// [execution.ErrNotFound].
func (c *Client) Get(ctx context.Context, id execution.ID) (execution.Record, error) {
	if err := id.Validate(); err != nil {
		return execution.Record{}, err
	}
	rec, err := c.get(ctx, id)
	if err != nil {
		return rec, fmt.Errorf("get %q: %w", string(id), err)
	}
	return rec, nil
}

func (c *Client) get(ctx context.Context, id execution.ID) (execution.Record, error) {
	runs, events := c.space.AnyParams(string(id)), c.space.AnyEvents(string(id))
	gets := append(c.viewGets(id),
		etcd.Get{Key: c.space.Spec(string(id))}, etcd.Get{Key: runs.Start, End: runs.End},
		etcd.Get{Key: events.Start, End: events.End, Limit: 1, KeysOnly: true})
	proc := ""
	for {
		ops := gets
		if proc != "" {
			ops = append(ops[:len(gets):len(gets)], etcd.Get{Key: c.space.Proc(proc), KeysOnly: true})
		}
		res, err := c.store.Txn(ctx, &etcd.Txn{Then: ops})
		if err != nil {
			return execution.Record{}, err
		}
		v, err := parseView(id, res.Results)
		switch {
		case err != nil:
			return execution.Record{}, err
		case v.state == nil:
			return execution.Record{}, execution.ErrNotFound
		}
		alive := false
		if v.live != nil {
			// Alive or not must be seen at one revision with the rest.
			if proc != v.live.Proc {
				proc = v.live.Proc
				continue
			}
			_, alive = res.Results[len(gets)].One()
		}
		rec := c.record(&v, alive)
		rec.PendingEvents = res.Results[viewOps+2].Count
		if err := addSpec(&rec, res.Results[viewOps]); err != nil || rec.Run == 0 {
			return rec, err
		}
		return rec, c.addParams(&rec, res.Results[viewOps+1])
	}
}

// addParams puts the params of the current run in the place of the first one's.
func (c *Client) addParams(rec *execution.Record, r etcd.Result) error {
	rec.FirstParams, rec.Params = rec.Params, nil
	key := c.space.Params(string(rec.ID), rec.Incarnation, rec.Run)
	for _, kv := range r.KVs {
		if kv.Key != key {
			continue
		}
		params, err := record.DecodeParams(kv.Value)
		if err != nil {
			return fmt.Errorf("key %q: %w", kv.Key, err)
		}
		rec.Params = params.Params
	}
	return nil
}

func addSpec(rec *execution.Record, r etcd.Result) error {
	kv, ok := r.One()
	if !ok {
		return nil
	}
	spec, err := record.DecodeSpec(kv.Value)
	if err != nil {
		return fmt.Errorf("key %q: %w", kv.Key, err)
	}
	rec.Params, rec.AdmittedAt = spec.Params, instant(spec.Admitted)
	return nil
}

// record shows a view to a caller; alive says whether the holder's etcd lease lives.
func (c *Client) record(v *view, alive bool) execution.Record {
	s := v.state
	rec := execution.Record{
		ID: v.id, Workflow: s.Workflow, Queue: s.Queue, Status: s.Base,
		UnacknowledgedDeliveries: s.Unacked, Incarnation: v.created, Run: s.Run, Claims: s.Claims,
		Outcome: outcomeOf(s), Deliveries: history(s, execution.Token(v.rev)), Deadline: instant(s.Deadline),
	}
	switch {
	case s.Terminal():
	case !s.Claimed:
		rec.NotBefore, rec.Due = instant(s.NotBefore), instant(s.Due)
		if !rec.Due.IsZero() && rec.Due.Before(rec.NotBefore) {
			rec.Due = rec.NotBefore
		}
	case alive:
		rec.Status, rec.Token = execution.StatusRunning, execution.Token(v.rev)
		if v.wake != nil {
			rec.Due = instant(v.wake.At)
		}
	default: // expired, not claimed since
		rec.UnacknowledgedDeliveries = counted(s.Unacked)
		rec.Due = instant(s.Due)
		if v.live != nil && v.live.Reaped != 0 {
			rec.Due, rec.NotBefore = instant(v.live.Reaped), instant(v.live.Reaped)
		}
		if n := len(rec.Deliveries); n > 0 {
			rec.Deliveries[n-1].How = execution.HowExpired
			if v.live != nil {
				rec.Deliveries[n-1].Ended = instant(v.live.Expired)
			}
		}
	}
	return rec
}

func outcomeOf(s *record.State) *execution.Outcome {
	if !s.Terminal() {
		return nil
	}
	return &execution.Outcome{Kind: s.Outcome, Result: s.Result, Error: s.Error}
}

func history(s *record.State, rev execution.Token) []execution.PastDelivery {
	past := make([]execution.PastDelivery, 0, len(s.Deliveries))
	for _, d := range s.Deliveries {
		token := d.Token
		if token == 0 {
			token = rev
		}
		past = append(past, execution.PastDelivery{
			Token: token, Holder: d.Holder, Claimed: instant(d.Claimed), Ended: instant(d.Ended), How: d.How, Why: d.Why,
		})
	}
	return past
}

// sooner returns the earlier of two times, where zero means none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
