package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A call is a durable call of a workflow.
type call[T any] struct {
	site       uintptr
	kind, step string
	ref        Ref[T]
	misuse     error // known before the call
	waits      bool  // an earlier delivery may have recorded a wait
}

// record makes the call and decodes what is recorded of it as an R.
func record[R, T any](ctx replay.Context, c call[T], run func(context.Context, *act[T], replay.Earlier) (replay.Answer, error)) (R, error) {
	var out, zero R
	d := ctx.Delivery()
	lease := d.Lease()
	key, err := c.ref.key(lease.ID)
	if err == nil {
		err = c.misuse
	}
	_, err = d.Do(c.site, replay.Call{
		Name: c.step, Kind: c.kind, Misuse: err,
		Run: func(work context.Context, earlier replay.Earlier) (replay.Answer, error) {
			client, err := stores.FromContext(ctx)
			if err != nil {
				return replay.Answer{}, err
			}
			if earlier.Wait != nil && !c.waits {
				return replay.Answer{}, mistaken("a wait")
			}
			id := execution.StepID{Execution: lease.ID, Incarnation: lease.Incarnation, Run: lease.Run, Step: c.step}
			answer, err := run(work, &act[T]{store: c.ref.store, client: client, key: key, step: &id}, earlier)
			return answer, durable(key, err)
		},
		Accept: func(result json.RawMessage) error {
			out = zero
			return json.Unmarshal(result, &out)
		},
	})
	if err != nil {
		return zero, err
	}
	return out, nil
}

// mistaken says that the step's name was another call's. Another release may have the
// call that fits, so the delivery is tried again.
func mistaken(as string) error {
	return fmt.Errorf("recorded as %s: a name must keep its meaning while executions that recorded it are alive", as)
}

// result makes an answer of a value.
func (a *act[T]) result(value any, err error) (replay.Answer, error) {
	if err != nil {
		return replay.Answer{}, err
	}
	raw, err := frame(a.key, value)
	return replay.Answer{Result: raw}, err
}

// Get reads the store and records what it saw under the name of the step, which shares
// the names of holdfast.Step: a replay sees the same, whatever the store holds by
// then. A store that does not exist is the step's recorded failure, with the code
// [CodeNotFound].
func Get[T any](ctx replay.Context, step string, ref Ref[T]) (Snapshot[T], error) {
	c := call[T]{site: replay.Site(), kind: "store get", step: step, ref: ref}
	return record[Snapshot[T]](ctx, c, func(ctx context.Context, a *act[T], _ replay.Earlier) (replay.Answer, error) {
		return a.result(a.get(ctx))
	})
}

// GetOrCreate is [Get] of a store that is created with the initial state if it does not
// exist, as by [Handle.GetOrCreate]. A state that may not be stored is a recorded
// failure with the code [CodeInvalidState].
func GetOrCreate[T any](ctx replay.Context, step string, ref Ref[T], initial T) (Snapshot[T], error) {
	c := call[T]{site: replay.Site(), kind: "store creation", step: step, ref: ref}
	return record[Snapshot[T]](ctx, c, func(ctx context.Context, a *act[T], _ replay.Earlier) (replay.Answer, error) {
		return a.result(a.create(ctx, initial))
	})
}

// Update changes the store by fn, once for the step (I10): the store keeps a receipt,
// written with the change, and whoever replays the step is given its result. So the
// change is made once even if the worker dies before it has recorded the step, and
// also if the store is deleted and created again meanwhile.
//
// fn is given a copy of the state to change. If somebody else commits in between, it
// runs again, on what is there then; so it does nothing but change the copy, and in
// particular calls no store and no Step. Its error changes nothing and is the step's
// recorded failure, as is a store that does not exist ([CodeNotFound]) and a state that
// may not be stored ([CodeInvalidState]). A stored state that does not fit T, and a panic
// of fn, are not recorded: the execution is delivered again until a release comes that
// can read it. A state that is updated by workflows may have
// about 600 KiB: the receipt holds it once more.
//
// Like holdfast.Step it returns ErrSuspended where the delivery ends: return it.
func Update[T any](ctx replay.Context, step string, ref Ref[T], fn func(*T) error) (Result[T], error) {
	c := call[T]{site: replay.Site(), kind: "store update", step: step, ref: ref, misuse: needs(fn)}
	return record[Result[T]](ctx, c, func(ctx context.Context, a *act[T], _ replay.Earlier) (replay.Answer, error) {
		raw, err := a.update(ctx, fn)
		return replay.Answer{Result: raw}, err
	})
}

func needs[T any](fn func(*T) error) error {
	if fn == nil {
		return errNoUpdater
	}
	return nil
}

// UpdateFrom is [Handle.UpdateFrom] as a step: the change is made once, and what became
// of it is recorded, whether the store was updated or not. To try again read the store
// anew, under another name.
func UpdateFrom[T any](ctx replay.Context, step string, ref Ref[T], from Snapshot[T], fn func(*T) error) (Conditional[T], error) {
	c := call[T]{site: replay.Site(), kind: "store conditional update", step: step, ref: ref, misuse: needs(fn)}
	return record[Conditional[T]](ctx, c, func(ctx context.Context, a *act[T], _ replay.Earlier) (replay.Answer, error) {
		raw, err := a.updateFrom(ctx, from, fn)
		return replay.Answer{Result: raw}, err
	})
}

// Delete deletes the store, whatever is in it; one that does not exist is fine. If the
// worker dies before it has recorded the step, the next one deletes what is there
// then: use [DeleteFrom] where somebody may create the store again.
func Delete[T any](ctx replay.Context, step string, ref Ref[T]) error {
	c := call[T]{site: replay.Site(), kind: "store deletion", step: step, ref: ref}
	_, err := record[struct{}](ctx, c, func(ctx context.Context, a *act[T], _ replay.Earlier) (replay.Answer, error) {
		return replay.Answer{}, a.client.Delete(ctx, a.key)
	})
	return err
}

// DeleteFrom is [Handle.DeleteFrom] as a step: of all that replay it, at most one
// deletes, and a store that was created since is left alone.
func DeleteFrom[T any](ctx replay.Context, step string, ref Ref[T], from Snapshot[T]) (Deletion, error) {
	c := call[T]{site: replay.Site(), kind: "store conditional deletion", step: step, ref: ref}
	d, err := record[stores.Deletion](ctx, c, func(ctx context.Context, a *act[T], _ replay.Earlier) (replay.Answer, error) {
		return a.result(a.deleteFrom(ctx, from))
	})
	return deletion(d), err
}
