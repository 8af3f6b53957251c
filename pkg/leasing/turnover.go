package leasing

import (
	"context"
	"encoding/json"
	"errors"

	"go.uber.org/zap"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// turnover returns what the acknowledgement that ends a run writes beside the next
// run's state: that run's params, in the place of the ended one's.
//
//	then   the params put; those of the run before deleted, unless that was the
//	       first one, whose params stay in the spec
//	keeps  I10: a write with a receipt compares that its run's params are there or,
//	       in the first run, that there are none, so that none of an ended run is
//	       applied any more
func (c *Client) turnover(id execution.ID, next *record.State, params json.RawMessage) []etcd.Op {
	rec := record.Params{Written: millis(c.now()), Params: params}
	ops := []etcd.Op{etcd.Put{Key: c.paramsKey(id, next), Value: rec.Encode()}}
	if next.Run > 1 {
		ops = append(ops, etcd.Delete{Key: c.space.Params(string(id), next.Incarnation, next.Run-1)})
	}
	return ops
}

// paramsKey is the key that holds the params of the state's run.
func (c *Client) paramsKey(id execution.ID, s *record.State) string {
	if s.Run == 0 {
		return c.space.Spec(string(id))
	}
	return c.space.Params(string(id), s.Incarnation, s.Run)
}

// paramsOf reads what was found at the state's paramsKey.
func paramsOf(s *record.State, r etcd.Result) (json.RawMessage, error) {
	kv, there := r.One()
	switch {
	case !there && s.Run == 0:
		return nil, errors.New("there is no spec")
	case !there:
		return nil, errors.New("there are no params")
	case s.Run == 0:
		spec, err := record.DecodeSpec(kv.Value)
		if err != nil {
			return nil, err
		}
		return spec.Params, nil
	}
	rec, err := record.DecodeParams(kv.Value)
	if err != nil {
		return nil, err
	}
	return rec.Params, nil
}

// clearEarlierRuns deletes, after a turnover, what the runs before the state's have
// left: their steps, with their registrations at stores, their receipts and their starts.
//
//	compare  epoch                          (for each piece)
//	then     some steps, with their registrations, or some of the others deleted
//
// Nobody writes such keys any more, so no piece needs to compare more, and each may be
// done twice. What an error or a crash leaves, the next turnover deletes, or the
// deletion of the execution; until then nobody reads it.
func (c *Client) clearEarlierRuns(ctx context.Context, lease execution.Lease, next *record.State) {
	if last := next.Last(); last == nil || last.How != execution.HowContinued || next.Incarnation == 0 {
		return
	}
	err := c.clearRuns(ctx, lease, next)
	if err != nil && ctx.Err() == nil {
		c.log.Warn("the steps of an earlier run could not be deleted; the next turnover or the deletion of the execution does it",
			zap.String("execution", string(lease.ID)), zap.Int64("run", next.Run), zap.Error(err))
	}
}

func (c *Client) clearRuns(ctx context.Context, lease execution.Lease, next *record.State) error {
	inEpoch := etcd.ValueIs(c.space.Epoch(), lease.Epoch)
	same, err := c.erase(ctx, c.runPages(string(lease.ID), next.Incarnation, next.Run-1), inEpoch)
	if err == nil && !same {
		err = errors.New("the namespace was restored from a backup")
	}
	return err
}
