package stores

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Delete deletes a store, whatever its version, with its waiters and the wakes that
// are owed to them, silently. Receipts stay. A store that does not exist is fine. One
// that is created anew meanwhile is left alone.
func (c *Client) Delete(ctx context.Context, key execution.StoreID) error {
	instance := ""
	_, err := c.mutate(ctx, mutation{
		subject: subject{key: key}, op: "deletion", identity: true,
		decide: func(l *look) (*plan, error) {
			if l.rec == nil || instance != "" && l.rec.Instance != instance {
				return nil, nil //nolint:nilnil // nothing is to be done
			}
			instance = l.rec.Instance
			return &plan{}, nil
		},
	})
	return err
}

// The reasons of a [Deletion] that deleted nothing.
const (
	ReasonNotFound = "not-found"
	ReasonConflict = "conflict"
)

// A Deletion is what became of a [Client.DeleteFrom].
type Deletion struct {
	Deleted  bool
	Reason   string // why not
	Expected Version
	Actual   *Version // ReasonConflict: what is there
}

// MarshalJSON renders the deletion as receipts and the HTTP API have it.
func (d Deletion) MarshalJSON() ([]byte, error) {
	if d.Deleted {
		return []byte(`{"deleted":true}`), nil
	}
	out := deletionJSON{Reason: d.Reason, ExpectedInstance: d.Expected.Instance, ExpectedVersion: &d.Expected.Version}
	if d.Actual != nil {
		out.ActualInstance, out.ActualVersion = d.Actual.Instance, &d.Actual.Version
	}
	return json.Marshal(out)
}

type deletionJSON struct {
	Deleted          bool   `json:"deleted"`
	Reason           string `json:"reason,omitempty"`
	ExpectedInstance string `json:"expectedInstanceId,omitempty"`
	ExpectedVersion  *int64 `json:"expectedVersion,omitempty"`
	ActualInstance   string `json:"actualInstanceId,omitempty"`
	ActualVersion    *int64 `json:"actualVersion,omitempty"`
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (d *Deletion) UnmarshalJSON(raw []byte) error {
	var in deletionJSON
	if err := json.Unmarshal(raw, &in); err != nil {
		return fmt.Errorf("deletion: %w", err)
	}
	*d = Deletion{Deleted: in.Deleted, Reason: in.Reason, Expected: Version{Instance: in.ExpectedInstance}}
	if in.ExpectedVersion != nil {
		d.Expected.Version = *in.ExpectedVersion
	}
	if in.ActualVersion != nil {
		d.Actual = &Version{in.ActualInstance, *in.ActualVersion}
	}
	return nil
}

// DeleteFrom deletes the store if it is still at the expected version. (RFC 005,
// deleteFrom.) The receipt is looked for first, then the instance must be named, then
// the store is compared. Only a deletion leaves a receipt.
func (c *Client) DeleteFrom(ctx context.Context, key execution.StoreID, step *execution.StepID, expected Version) (Deletion, error) {
	refused := Deletion{Expected: expected}
	d, err := c.mutate(ctx, mutation{
		subject: subject{key, step}, op: "conditional deletion", kind: kindDeleteFrom,
		decide: func(l *look) (*plan, error) {
			switch {
			case expected.Instance == "":
				return nil, missingInstance()
			case l.rec == nil:
				refused.Reason, refused.Actual = ReasonNotFound, nil
				return nil, nil //nolint:nilnil // nothing is to be done
			}
			if at := snapshot(l.rec).At(); at != expected {
				refused.Reason, refused.Actual = ReasonConflict, &at
				return nil, nil //nolint:nilnil // nothing is to be done
			}
			return &plan{result: []byte(`{"deleted":true}`)}, nil
		},
	})
	switch {
	case err != nil:
		return Deletion{}, err
	case d.plan == nil && !d.repeated:
		return refused, nil
	}
	return Deletion{Deleted: true}, nil
}
