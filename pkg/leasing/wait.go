package leasing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Wait blocks until the execution is terminal and returns its outcome, or until
// ctx ends. An unknown id gives an [execution.ErrNotFound], also when the
// execution is deleted while it waits. A trouble of etcd that passes is waited out.
func (c *Client) Wait(ctx context.Context, id execution.ID) (execution.Outcome, error) {
	if err := id.Validate(); err != nil {
		return execution.Outcome{}, err
	}
	for pause := minRestart; ; pause = min(2*pause, maxRestart) {
		outcome, err := c.waitOnce(ctx, id)
		switch {
		case err == nil:
			return outcome, nil
		case ctx.Err() != nil:
			return outcome, fmt.Errorf("wait for %q: %w", string(id), context.Cause(ctx))
		case errors.Is(err, execution.ErrNotFound), errors.Is(err, etcd.ErrPermission), errors.Is(err, etcd.ErrClosed), errors.Is(err, errUnreadable):
			return outcome, fmt.Errorf("wait for %q: %w", string(id), err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

var errUnreadable = errors.New("its state record can't be read")

// waitOnce reads the state and watches it until it is terminal or the watch breaks.
func (c *Client) waitOnce(ctx context.Context, id execution.ID) (execution.Outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key := c.space.State(string(id))
	res, rev, err := c.store.Get(ctx, etcd.Get{Key: key})
	if err != nil {
		return execution.Outcome{}, err
	}
	kv, ok := res.One()
	if !ok {
		return execution.Outcome{}, execution.ErrNotFound
	}
	if o, err := terminalOutcome(kv); o != nil || err != nil {
		return deref(o), err
	}
	for batch := range c.store.Watch(ctx, key, key+"\x00", rev+1) {
		if batch.Err != nil {
			return execution.Outcome{}, batch.Err
		}
		for _, e := range batch.Events {
			if e.Deleted {
				return execution.Outcome{}, execution.ErrNotFound
			}
			if o, err := terminalOutcome(e.KV); o != nil || err != nil {
				return deref(o), err
			}
		}
	}
	return execution.Outcome{}, errors.New("the watch ended")
}

func terminalOutcome(kv etcd.KV) (*execution.Outcome, error) {
	s, err := record.DecodeState(kv.Value)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return outcomeOf(s), nil
}

func deref(o *execution.Outcome) execution.Outcome {
	if o == nil {
		return execution.Outcome{}
	}
	return *o
}
