package stores

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// A Waiter waits for a change of a store. It belongs to the step of an execution:
// another registration of the same step at the same store takes its place.
type Waiter struct {
	Store    execution.StoreID
	Step     execution.StepID
	Instance string // what was looked at:
	Since    int64  // the version that did not match,
	Reads    Paths  // and what of it
	Workflow string // for readers

	// Event is handed to who pulls the wake. Without one the wake is delivered to the
	// execution by Config.Wake.
	Event []byte
}

func (w *Waiter) validate() error {
	if err := validate(w.Store, &w.Step); err != nil {
		return err
	}
	switch {
	case w.Instance == "":
		return missingInstance()
	case w.Since < 0:
		return &execution.InvalidError{What: "version", Value: fmt.Sprint(w.Since), Reason: "is negative"}
	case w.Event == nil:
		return nil
	}
	return validateDocument("event", w.Event)
}

func (w *Waiter) record() *record.Waiter {
	return &record.Waiter{
		Instance: w.Instance, Since: w.Since, Paths: encodePaths(w.Reads), Registered: time.Now().UnixMilli(),
		Pulled: w.Event != nil, Workflow: w.Workflow, Event: w.Event,
	}
}

// current says whether the waiter has seen what the store holds now.
func (w *Waiter) current(l *look) bool {
	return l.rec != nil && l.rec.Instance == w.Instance && l.rec.Version == w.Since
}

// Register registers a waiter. If it is late, because the store was changed, deleted
// or created anew since it was looked at, stale is true: the wake is owed at once, by a
// record of the same transaction, and the waiter is not kept.
//
//	compare  the store is as it was seen, epoch, no change is left to tell of
//	then     the waiter; or, stale, the wake that is owed in its place
//
// A change that was not told yet is told first: an earlier registration of the step
// may have to be woken by it.
func (c *Client) Register(ctx context.Context, w Waiter) (stale bool, err error) {
	if err := w.validate(); err != nil {
		return false, err
	}
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("register step %q of %q at %s: %w", w.Step.Step, string(w.Step.Execution), describe(w.Store), err)
	}
	s := subject{key: w.Store, step: &w.Step}
	changes := c.cfg.Space.ChangesOf(storeKey(w.Store))
	untold := etcd.Get{Key: changes.Start, End: changes.End, Limit: 1, KeysOnly: true}
	gets := append(c.gets(s), untold)
	res, err := c.cfg.Store.Txn(ctx, &etcd.Txn{Then: gets})
	for {
		if err != nil {
			return fail(err)
		}
		l, parseErr := c.parse(s, res.Results)
		switch {
		case parseErr != nil:
			return fail(parseErr)
		case l.gone != "":
			return fail(gone("register", w.Step, l.gone))
		}
		if len(res.Results[len(gets)-1].KVs) > 0 {
			if err := c.Drain(ctx, w.Store); err != nil {
				return fail(err)
			}
		}
		stale := !w.current(&l)
		compares := append(c.unchanged(s, &l), etcd.RangeEmpty(changes.Start, changes.End))
		res, _, err = fencing.Send(ctx, c.cfg.Store, &etcd.Txn{If: compares, Then: c.registration(&w, stale), Else: gets})
		if err == nil && res.Succeeded {
			if stale && w.Event == nil {
				c.drainNow(ctx, w.Store)
			}
			return stale, nil
		}
	}
}

// registration returns what registers the waiter, or what a stale one is owed.
func (c *Client) registration(w *Waiter, stale bool) []etcd.Op {
	rec, key := w.record(), c.cfg.Space.Waiter(storeKey(w.Store), callKey(w.Step))
	if !stale {
		return []etcd.Op{etcd.Put{Key: key, Value: rec.Encode()}}
	}
	return []etcd.Op{etcd.Delete{Key: key}, c.owe(storeKey(w.Store), callKey(w.Step), rec)}
}

// owe returns the operation that leaves the wake of a waiter to be delivered, or
// pulled.
func (c *Client) owe(store keyspace.StoreKey, call keyspace.CallKey, rec *record.Waiter) etcd.Put {
	owed := record.Owed{
		Instance: rec.Instance, Execution: call.ID, Incarnation: call.Incarnation, Run: call.Run, Step: call.Step,
		Since: rec.Since, Workflow: rec.Workflow, Event: rec.Event,
	}
	key := c.cfg.Space.Owed(store, newNonce())
	if rec.Pulled {
		key = c.cfg.Space.Pulled(store, newNonce())
	}
	return etcd.Put{Key: key, Value: owed.Encode()}
}

// An Arming is what became of a [Client.Arm]: it is armed, or the step is resolved, or
// neither.
type Arming struct {
	Armed    bool
	Resolved bool     // the step's answer is recorded: go on to record, and get that one
	Current  Snapshot // neither: the store has moved; look at this
}

// Arm registers the waiter of a step of the engine, which is about to wait, unless the
// store has moved or the step's answer, its record of the given attempt, is there.
// Nothing is owed to a caller that is late: it looks again, and if it dies, its lease
// is what brings its execution back. A store that is gone gives a [*NotFoundError].
//
//	compare  the store is as it was seen, epoch; the execution is there, the step's
//	         answer is not
//	then     the waiter
func (c *Client) Arm(ctx context.Context, w Waiter, attempt int64) (Arming, error) {
	if err := w.validate(); err != nil {
		return Arming{}, err
	}
	fail := func(err error) (Arming, error) {
		return Arming{}, fmt.Errorf("wait of step %q of %q for %s: %w", w.Step.Step, string(w.Step.Execution), describe(w.Store), err)
	}
	s := subject{key: w.Store, step: &w.Step}
	answer := c.cfg.Space.Step(keyspace.Step{
		ID: string(w.Step.Execution), Incarnation: w.Step.Incarnation, Run: w.Step.Run, Key: w.Step.Step, Attempt: attempt,
	})
	gets := append(c.gets(s), etcd.Get{Key: answer, KeysOnly: true})
	res, err := c.cfg.Store.Txn(ctx, &etcd.Txn{Then: gets})
	for {
		if err != nil {
			return fail(err)
		}
		l, parseErr := c.parse(s, res.Results)
		if parseErr != nil {
			return fail(parseErr)
		}
		_, resolved := res.Results[len(gets)-1].One()
		switch {
		case l.gone != "":
			return fail(gone("wait", w.Step, l.gone))
		case resolved:
			return Arming{Resolved: true}, nil
		case l.rec == nil:
			return Arming{}, &NotFoundError{w.Store}
		case !w.current(&l):
			return Arming{Current: snapshot(l.rec)}, nil
		}
		compares := append(c.unchanged(s, &l), etcd.Absent(answer))
		res, _, err = fencing.Send(ctx, c.cfg.Store, &etcd.Txn{If: compares, Then: c.registration(&w, false), Else: gets})
		if err == nil && res.Succeeded {
			return Arming{Armed: true}, nil
		}
	}
}

// Unregister removes a step's waiter from a store, if there is one. One that is
// registered meanwhile stays.
func (c *Client) Unregister(ctx context.Context, key execution.StoreID, step execution.StepID) error {
	if err := validate(key, &step); err != nil {
		return err
	}
	if err := c.remove(ctx, key, step, func(etcd.KV) (bool, error) { return true, nil }); err != nil {
		return fmt.Errorf("unregister step %q of %q at %s: %w", step.Step, string(step.Execution), describe(key), err)
	}
	return nil
}

// remove removes a step's registration as it was read, if there is one and over says so.
func (c *Client) remove(ctx context.Context, key execution.StoreID, step execution.StepID, over func(etcd.KV) (bool, error)) error {
	waiter := c.cfg.Space.Waiter(storeKey(key), callKey(step))
	res, _, err := c.cfg.Store.Get(ctx, etcd.Get{Key: waiter})
	kv, there := res.One()
	if err != nil || !there {
		return err
	}
	if is, err := over(kv); err != nil || !is {
		return err
	}
	_, _, err = fencing.Send(ctx, c.cfg.Store, &etcd.Txn{If: []etcd.Compare{etcd.ModIs(waiter, kv.Modified)}, Then: []etcd.Op{etcd.Delete{Key: waiter}}})
	return err
}
