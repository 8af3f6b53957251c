package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A history watches every revision of the run's namespace. What the demo says
// about stale writes and takeovers comes from here, not from the engine.
type history struct {
	store  etcd.Store
	space  keyspace.Space
	replay *audit.Replay
	claims map[string]int64 // of each execution, so far
}

// A sighting is what one revision, or a part of it, shows. The fields beside the
// revision are set as they apply.
type sighting struct {
	revision int64
	id       string
	token    execution.Token  // with which a step was written
	takeover bool             // claimed after the delivery before had expired
	status   execution.Status // a terminal one
}

func newHistory(store etcd.Store, space keyspace.Space) *history {
	return &history{store: store, space: space, replay: audit.NewReplay(space), claims: map[string]int64{}}
}

// begin returns the revision from which on to follow a namespace that is still empty.
func (h *history) begin(ctx context.Context) (int64, error) {
	all := h.space.All()
	res, revision, err := h.store.Get(ctx, etcd.Get{Key: all.Start, End: all.End, Limit: 1, KeysOnly: true})
	if err != nil {
		return 0, fmt.Errorf("watch the namespace: %w", err)
	}
	if len(res.KVs) > 0 {
		return 0, fmt.Errorf("watch the namespace: it holds %q already", res.KVs[0].Key)
	}
	return revision + 1, nil
}

// follow watches from the revision until ctx ends, and tells what it sees.
func (h *history) follow(ctx context.Context, revision int64, tell func(sighting)) error {
	all := h.space.All()
	for batch := range h.store.Watch(ctx, all.Start, all.End, revision) {
		if batch.Err != nil && ctx.Err() == nil {
			return fmt.Errorf("watch the namespace: %w", batch.Err)
		}
		h.replay.Apply(batch)
		for _, e := range batch.Events {
			if s, ok := h.see(e); ok {
				tell(s)
			}
		}
		tell(sighting{revision: batch.Revision})
	}
	if ctx.Err() == nil {
		return errors.New("watch the namespace: the watch has ended")
	}
	return nil
}

// see reads one event.
func (h *history) see(e etcd.Event) (sighting, bool) {
	k, err := h.space.Parse(e.KV.Key)
	if err != nil || e.Deleted {
		return sighting{}, false // the replay reports what is wrong with it
	}
	switch k.Kind {
	case keyspace.KindStep:
		step, err := record.DecodeStep(e.KV.Value)
		return sighting{revision: e.KV.Modified, id: k.ID, token: step.Token}, err == nil
	case keyspace.KindState:
		state, err := record.DecodeState(e.KV.Value)
		if err != nil {
			return sighting{}, false
		}
		return h.seeState(k.ID, e.KV.Modified, state)
	}
	return sighting{}, false
}

func (h *history) seeState(id string, revision int64, state *record.State) (sighting, bool) {
	s := sighting{revision: revision, id: id}
	if state.Terminal() {
		s.status = state.Base
	}
	claimed := state.Claims > h.claims[id]
	h.claims[id] = state.Claims
	if n := len(state.Deliveries); claimed && n > 1 {
		s.takeover = state.Deliveries[n-2].How == execution.HowExpired
	}
	return s, s.takeover || s.status != ""
}

// newest returns the last revision at which a key that is there was written.
func (h *history) newest(ctx context.Context) (int64, error) {
	var newest int64
	for key, end := h.space.All().Start, h.space.All().End; ; {
		res, _, err := h.store.Get(ctx, etcd.Get{Key: key, End: end, Limit: 1000, KeysOnly: true})
		if err != nil {
			return 0, fmt.Errorf("read the namespace: %w", err)
		}
		for _, kv := range res.KVs {
			newest = max(newest, kv.Modified)
			key = kv.Key + "\x00"
		}
		if !res.More {
			return newest, nil
		}
	}
}
