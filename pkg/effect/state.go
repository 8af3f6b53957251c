package effect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The names of the stores that effects are kept in. Frozen.
const (
	effects   = "holdfast:effect"
	conflicts = "holdfast:effect-conflict"
)

// The words of a state. Frozen.
const (
	pending = "pending"
	settled = "settled"
)

// version is the newest version of what this package keeps that it can read. Frozen at 1
// until a change makes older readers wrong.
const version = 1

// storeOf returns the store that the effect is kept in.
func storeOf(id string) execution.StoreID { return execution.StoreID{Name: effects, ID: id} }

// A state is what the store of an effect holds. Frozen.
type state struct {
	V         int             `json:"v"`
	Operation string          `json:"operation"`
	Input     json.RawMessage `json:"input"`  // canonical
	Status    string          `json:"status"` // pending or settled
	Begun     mark            `json:"begun"`
	Result    *Result         `json:"result,omitempty"`
	Settled   *mark           `json:"settled,omitempty"`
}

// changes are the paths that a settlement changes; a wait has read the status.
func changes() stores.Paths { return stores.Paths{{"result"}, {"settled"}, {"status"}} }

func awaited() stores.Paths { return stores.Paths{{"status"}} }

// A mark says who has done something to an effect, and when. Frozen.
type mark struct {
	Execution execution.ID `json:"executionId,omitempty"` // empty: code outside of workflows
	Run       int64        `json:"run,omitempty"`
	Step      string       `json:"stepKey,omitempty"`
	At        int64        `json:"at"` // Unix milliseconds
}

func markOf(step execution.StepID) mark {
	return mark{Execution: step.Execution, Run: step.Run, Step: step.Step, At: time.Now().UnixMilli()}
}

// by returns the mark as callers are given it.
func (m *mark) by() By {
	if m == nil {
		return By{}
	}
	return By{Execution: string(m.Execution), Run: m.Run, Step: m.Step, At: time.UnixMilli(m.At)}
}

// encode renders what a store holds, and leaves canonical parts as they are.
func encode(doc any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// checkVersion refuses what this release can't read.
func checkVersion(v int) error {
	switch {
	case v > version:
		return fmt.Errorf("version %d was written by a newer release; upgrade this one", v)
	case v < 1:
		return fmt.Errorf("version %d is none", v)
	}
	return nil
}

// decodeState reads the state of an effect.
func decodeState(id string, raw []byte) (state, error) {
	var s state
	err := json.Unmarshal(raw, &s)
	if err == nil {
		err = checkVersion(s.V)
	}
	if err == nil && (s.Status != pending && s.Status != settled || (s.Status == settled) != (s.Result != nil) || s.Result != nil && !s.Result.valid()) {
		err = errors.New("it is neither pending nor settled")
	}
	if err != nil {
		return s, &Error{Effect: id, Why: CodeInvariant, Reason: "its state is not readable", Err: err}
	}
	return s, nil
}

// A note is what the registration of a wait holds. Frozen.
type note struct {
	WakeAt int64  `json:"wakeAt"`           // Unix milliseconds
	Params string `json:"params,omitempty"` // a digest
	Reason string `json:"reason,omitempty"`
}
