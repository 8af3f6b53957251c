package stores

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// Found is [Client.Create] on behalf of a step: nothing is made for an execution that
// was deleted, or a run that has ended, which gives an [execution.ErrLost]. It leaves
// no receipt: what identifies the call is the store. founder says that it was this
// call, and none before it, that has made the store.
//
//	compare  the store is absent, epoch; the execution is there, in its run
//	then     the store
func (c *Client) Found(ctx context.Context, key execution.StoreID, step execution.StepID, state []byte) (now Snapshot, founder bool, err error) {
	if err := validate(key, &step); err != nil {
		return Snapshot{}, false, err
	}
	if err := validateDocument("state", state); err != nil {
		return Snapshot{}, false, err
	}
	fail := func(err error) (Snapshot, bool, error) {
		return Snapshot{}, false, fmt.Errorf("creation of %s for step %q of %q: %w", describe(key), step.Step, string(step.Execution), err)
	}
	s := subject{key, &step}
	var tried []string // instances
	l, err := c.look(ctx, s)
	for {
		switch {
		case err != nil:
			return fail(err)
		case l.gone != "":
			return fail(gone("create", step, l.gone))
		case l.rec != nil:
			return snapshot(l.rec), slices.Contains(tried, l.rec.Instance), nil
		}
		at := time.Now().UnixMilli()
		rec := record.Store{Created: at, Updated: at, State: state}
		store := &creating{Store: c.cfg.Store, try: func() *etcd.Txn {
			rec.Instance = newInstance()
			tried = append(tried, rec.Instance)
			return &etcd.Txn{
				If: c.unchanged(s, &l), Then: []etcd.Op{etcd.Put{Key: c.cfg.Space.Store(storeKey(key)), Value: rec.Encode()}}, Else: c.gets(s),
			}
		}}
		// Of the transaction that is passed on only the keys count, for the pauses.
		res, _, sendErr := fencing.Send(ctx, store, &etcd.Txn{If: c.unchanged(s, &l)})
		switch {
		case sendErr != nil:
			return fail(sendErr)
		case res.Succeeded:
			return snapshot(&rec), true, nil
		}
		l, err = c.parse(s, res.Results)
	}
}
