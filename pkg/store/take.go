package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/internal/stores"
)

// A Taken is what became of a [TakeNow].
type Taken[S any] struct {
	Matched  bool `json:"matched"`
	Selected S    `json:"selected,omitzero"` // where it matched

	// Instance and Version are those of the store: after the claim or, where nothing
	// matched, as it was looked at.
	Instance string `json:"instanceId"`
	Version  int64  `json:"version"`
}

// A taking selects something and claims it, in one commit.
type taking[T, S any] struct {
	query[T, S]
	claim func(*T, S) error
	kind  string // of its receipt
}

var (
	errNoClaim    = errors.New("the claim is nil")
	errUndeclared = errors.New("the selector matches on the members that Reads names, but not on the whole state: let Reads name all that it looks at")
)

func newTaking[T, S any](kind string, pick func(T) (S, bool), claim func(*T, S) error, opts []WaitOption) (*taking[T, S], error) {
	q, err := newQuery(pick, opts)
	if err == nil && claim == nil {
		err = errNoClaim
	}
	return &taking[T, S]{q, claim, kind}, err
}

// run takes, unless nothing matches. Its result is a Taken. Where the time is over it is
// one in any case: a miss is a commit as well, of the state as it is, so that it has a
// receipt, and no other holder of the step takes afterwards what nobody would be given.
func (t *taking[T, S]) run(ctx context.Context, a *act[T], over bool) (look, error) {
	out := a.outcome()
	var reads stores.Paths
	res, err := a.client.Update(ctx, a.key, a.step, t.kind, func(now stores.Snapshot) (*stores.Mutation, error) {
		var m *stores.Mutation
		var selected json.RawMessage
		var err error
		m, selected, reads, err = t.commit(a, now)
		switch {
		case err != nil:
			return nil, err
		case m == nil && over:
			return &stores.Mutation{State: now.State, Result: []byte(timeout)}, nil
		case m == nil:
			return nil, nil //nolint:nilnil // a miss
		}
		return m, out.put(m, Taken[json.RawMessage]{Matched: true, Selected: selected, Instance: now.Instance, Version: now.Version + 1})
	})
	switch {
	case err != nil:
		return look{}, err
	case res.Missed:
		return look{seen: res.Snapshot, reads: reads}, nil
	}
	return look{result: out.result(res.Raw)}, nil
}

// commit claims what matches in the state. What is selected is encoded after the
// claim: it may be a pointer into the state.
func (t *taking[T, S]) commit(a *act[T], now stores.Snapshot) (*stores.Mutation, json.RawMessage, stores.Paths, error) {
	fail := func(err error) (*stores.Mutation, json.RawMessage, stores.Paths, error) { return nil, nil, nil, err }
	if len(t.reads) > 0 {
		_, matched, reads, err := t.evaluate(a.key, now.State)
		if !matched || err != nil {
			return nil, nil, reads, err
		}
	}
	state, err := decode[T](a.key, now.State)
	if err != nil {
		return fail(err)
	}
	selected, matched := t.pick(state)
	switch {
	case !matched && len(t.reads) > 0:
		return fail(&callerError{errUndeclared})
	case !matched:
		return nil, nil, stores.Paths{stores.Path{}}, nil
	}
	if err := t.claim(&state, selected); err != nil {
		return fail(&callerError{err})
	}
	m, err := a.store.mutation(a.key, now, state)
	if err != nil {
		return fail(err)
	}
	raw, err := encodeSelected(selected)
	if err != nil {
		return fail(err)
	}
	return m, raw, nil, nil
}

// TakeNow selects something in the store and claims it, in one commit: of several
// callers only one gets it. It is [Take] for code outside of workflows, and does not
// wait: where pick does not match, Matched is false and nothing has changed. What holds
// of the functions of Take and of [Handle.Update] holds here.
func TakeNow[T, S any](ctx context.Context, h Handle[T], pick func(T) (S, bool), claim func(*T, S) error) (Taken[S], error) {
	a, err := h.act("take")
	if err != nil {
		return Taken[S]{}, err
	}
	t, err := newTaking(stores.KindTake, pick, claim, nil)
	if err != nil {
		return Taken[S]{}, fmt.Errorf("take of %s: %w", describe(a.key), err)
	}
	res, err := t.run(ctx, a, false)
	if err == nil && res.result == nil {
		return Taken[S]{Instance: res.seen.Instance, Version: res.seen.Version}, nil
	}
	return answer[Taken[S]](a, res.result, err)
}

// Take waits until pick matches, and claims what it selected in the same commit: of
// several executions that take the same thing only one gets it. While nothing matches
// the execution is suspended, as by [When]. The taking is recorded under the name of
// the step, and made once whatever happens to the worker.
//
// pick is given the state and says what it selects, or false. claim changes the state
// so that nobody selects the same again: it marks it, or removes it. Both may run
// several times, on newer states; they do nothing else, and in particular call no
// store.
//
// pick's state is a shallow copy of the one that claim is given and that is stored
// then: they share what is behind pointers, slices and maps. So a selected pointer into
// a list, say, may be used by claim to change the state, and is recorded as claim leaves
// it; and what pick itself changed there would be stored: it only looks. The address of a
// field of T is no such pointer, for pick has a copy of those. With [Reads] pick runs
// once more before, on a copy of its own that holds just these members.
//
// Errors are those of [Update].
func Take[T, S any](ctx replay.Context, step string, ref Ref[T], pick func(T) (S, bool), claim func(*T, S) error, opts ...WaitOption) (S, error) {
	t, misuse := newTaking(stores.KindTake, pick, claim, opts)
	c := call[T]{site: replay.Site(), kind: "store take", step: step, ref: ref, misuse: misuse}
	taken, err := await[Taken[S]](ctx, c, wait{}, t.look)
	return taken.Selected, err
}

// TakeUntil is [Take] with a deadline. It returns false once the deadline has passed and
// nothing matches: then nothing is claimed, now or later, whoever replays the step. That
// is a commit of its own, which leaves the state as it is, gives it the next version, and
// wakes nobody. What holds of the deadline of [WhenUntil] holds here.
func TakeUntil[T, S any](ctx replay.Context, step string, ref Ref[T], deadline time.Time, pick func(T) (S, bool), claim func(*T, S) error, opts ...WaitOption) (S, bool, error) {
	t, misuse := newTaking(stores.KindTakeUntil, pick, claim, opts)
	c := call[T]{site: replay.Site(), kind: "store take", step: step, ref: ref, misuse: misuse}
	taken, err := await[Taken[S]](ctx, c, wait{timed: true, deadline: deadline}, t.look)
	return taken.Selected, taken.Matched, err
}

// look is a lookFunc. What is known of the store does not help: it is read with the
// receipt.
func (t *taking[T, S]) look(ctx context.Context, a *act[T], _ *stores.Snapshot, over bool) (look, error) {
	return t.run(ctx, a, over)
}
