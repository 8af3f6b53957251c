package stores

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

// A Registration is a step that waits at a store.
type Registration struct {
	Step     execution.StepID
	Workflow string
	Note     []byte // JSON that is kept with it; nil: none
}

// Enroll registers a step of the engine with a note, or leaves the registration that
// is there: decide says which, by what the store holds and how the step is registered
// there now (nil: not at all). It returns the note, or nil to change nothing; it is
// called again when somebody came in between. The waiter's Instance and Since are those
// of what decide was given, and it has no Event.
//
// Where the step's answer, its record of the attempt, is there, decide is not called,
// and resolved is true. A store that is gone gives a [*NotFoundError].
//
//	compare  the store and the registration are as they were seen, epoch; the execution
//	         is there, in its run; the step's answer is not
//	then     the waiter
func (c *Client) Enroll(ctx context.Context, w Waiter, attempt int64, decide func(Snapshot, *Registration) (note []byte, err error)) (resolved bool, err error) {
	if err := validate(w.Store, &w.Step); err != nil {
		return false, err
	}
	fail := func(err error) (bool, error) {
		return false, fmt.Errorf("wait of step %q of %q for %s: %w", w.Step.Step, string(w.Step.Execution), describe(w.Store), err)
	}
	s, key := subject{key: w.Store, step: &w.Step}, c.cfg.Space.Waiter(storeKey(w.Store), callKey(w.Step))
	answer := c.cfg.Space.Step(keyspace.Step{
		ID: string(w.Step.Execution), Incarnation: w.Step.Incarnation, Run: w.Step.Run, Key: w.Step.Step, Attempt: attempt,
	})
	gets := append(c.gets(s), etcd.Get{Key: answer, KeysOnly: true}, etcd.Get{Key: key})
	res, err := c.cfg.Store.Txn(ctx, &etcd.Txn{Then: gets})
	for {
		if err != nil {
			return fail(err)
		}
		l, earlier, rev, parseErr := c.enrolled(s, res.Results)
		_, answered := res.Results[len(gets)-2].One()
		switch {
		case parseErr != nil:
			return fail(parseErr)
		case l.gone != "":
			return fail(gone("wait", w.Step, l.gone))
		case answered:
			return true, nil
		case l.rec == nil:
			return false, &NotFoundError{w.Store}
		}
		note, decideErr := decide(snapshot(l.rec), earlier)
		if decideErr != nil || note == nil {
			return false, decideErr
		}
		w.Instance, w.Since = l.rec.Instance, l.rec.Version
		rec := w.record()
		rec.Event, rec.Pulled = note, false
		compares := append(c.unchanged(s, &l), etcd.Absent(answer), etcd.ModIs(key, rev))
		res, _, err = fencing.Send(ctx, c.cfg.Store, &etcd.Txn{If: compares, Then: []etcd.Op{etcd.Put{Key: key, Value: rec.Encode()}}, Else: gets})
		if err == nil && res.Succeeded {
			return false, nil
		}
	}
}

// enrolled reads what Enroll has got: the registration is the last.
func (c *Client) enrolled(s subject, results []etcd.Result) (l look, earlier *Registration, rev int64, err error) {
	if l, err = c.parse(s, results); err != nil {
		return l, nil, 0, err
	}
	kv, there := results[len(results)-1].One()
	if !there {
		return l, nil, 0, nil
	}
	earlier, err = c.registered(kv)
	return l, earlier, kv.Modified, err
}

func (c *Client) registered(kv etcd.KV) (*Registration, error) {
	k, err := c.cfg.Space.Parse(kv.Key)
	if err != nil {
		return nil, err
	}
	rec, err := record.DecodeWaiter(kv.Value)
	if err != nil {
		return nil, fmt.Errorf("key %q: %w", kv.Key, err)
	}
	return &Registration{Step: stepOf(k.Call), Workflow: rec.Workflow, Note: rec.Event}, nil
}

// Withdraw removes a step's registration at a store, if there is one and over says so.
// One that is made meanwhile stays.
func (c *Client) Withdraw(ctx context.Context, key execution.StoreID, step execution.StepID, over func(Registration) bool) error {
	if err := validate(key, &step); err != nil {
		return err
	}
	err := c.remove(ctx, key, step, func(kv etcd.KV) (bool, error) {
		r, err := c.registered(kv)
		return err == nil && over(*r), err
	})
	if err != nil {
		return fmt.Errorf("withdraw step %q of %q from %s: %w", step.Step, string(step.Execution), describe(key), err)
	}
	return nil
}

// Registrations returns those who wait at a store. One that can't be read is left out.
func (c *Client) Registrations(ctx context.Context, key execution.StoreID) ([]Registration, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	span := c.cfg.Space.WaitersOf(storeKey(key))
	var all []Registration
	err := c.pages(ctx, etcd.Get{Key: span.Start, End: span.End, Limit: pageRecords}, func(kvs []etcd.KV) error {
		for _, kv := range kvs {
			r, err := c.registered(kv)
			if err != nil {
				c.bad(kv.Key, err)
				continue
			}
			all = append(all, *r)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("who waits at %s: %w", describe(key), err)
	}
	return all, nil
}
