package store

import (
	"encoding/json"

	"github.com/holdfast-io/holdfast/internal/stores"
)

// A Snapshot is a store at one version. It shares nothing with the store: what is done
// to its State stays with the caller.
type Snapshot[T any] struct {
	State T `json:"state"`
	// Instance is new each time that the store is created; a random id of lower-case
	// hexadecimal digits and hyphens.
	Instance string `json:"instanceId"`
	// Version is 0 at the creation, and one greater after each change.
	Version int64 `json:"version"`
}

// at returns the snapshot's version.
func (s Snapshot[T]) at() stores.Version {
	return stores.Version{Instance: s.Instance, Version: s.Version}
}

// A Version names one version of one instance of a store.
type Version struct {
	Instance string
	Version  int64
}

// A Result is what an update has made of the store.
type Result[T any] struct {
	State    T     `json:"state"`
	Previous int64 `json:"previousVersion"`
	Version  int64 `json:"version"`
}

// ReasonNotFound and ReasonConflict say why a conditional change was not made: there is
// no such store, or it is at another version or is another instance.
const (
	ReasonNotFound = stores.ReasonNotFound
	ReasonConflict = stores.ReasonConflict
)

// A Conditional is what became of an update from a snapshot.
type Conditional[T any] struct {
	Updated bool
	Result  Result[T] // where it was updated

	// Where it was not: [ReasonConflict], what the snapshot said, and what is there.
	Reason           string
	Expected, Actual Version
}

// conditionalJSON is how a Conditional is recorded, as other runtimes record theirs.
type conditionalJSON[T any] struct {
	Updated          bool   `json:"updated"`
	State            *T     `json:"state,omitempty"`
	Previous         *int64 `json:"previousVersion,omitempty"`
	Version          *int64 `json:"version,omitempty"`
	ExpectedInstance string `json:"expectedInstanceId,omitempty"`
	ExpectedVersion  *int64 `json:"expectedVersion,omitempty"`
	ActualInstance   string `json:"actualInstanceId,omitempty"`
	ActualVersion    *int64 `json:"actualVersion,omitempty"`
}

// MarshalJSON renders {"updated":true,"state":…,"previousVersion":…,"version":…} or
// {"updated":false,"expectedInstanceId":…,"expectedVersion":…,"actualInstanceId":…,
// "actualVersion":…}.
func (c Conditional[T]) MarshalJSON() ([]byte, error) {
	if c.Updated {
		r := c.Result
		return json.Marshal(conditionalJSON[T]{Updated: true, State: &r.State, Previous: &r.Previous, Version: &r.Version})
	}
	return json.Marshal(conditionalJSON[T]{
		ExpectedInstance: c.Expected.Instance, ExpectedVersion: &c.Expected.Version,
		ActualInstance: c.Actual.Instance, ActualVersion: &c.Actual.Version,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Conditional[T]) UnmarshalJSON(raw []byte) error {
	var in conditionalJSON[T]
	if err := json.Unmarshal(raw, &in); err != nil {
		return err
	}
	*c = Conditional[T]{Updated: in.Updated}
	if in.Updated {
		c.Result = Result[T]{State: deref(in.State), Previous: deref(in.Previous), Version: deref(in.Version)}
		return nil
	}
	c.Reason = ReasonConflict
	c.Expected = Version{in.ExpectedInstance, deref(in.ExpectedVersion)}
	c.Actual = Version{in.ActualInstance, deref(in.ActualVersion)}
	return nil
}

func deref[V any](p *V) (v V) {
	if p != nil {
		v = *p
	}
	return v
}

// A Deletion is what became of a deletion from a snapshot.
type Deletion struct {
	Deleted bool

	// Where it was not: [ReasonNotFound] or [ReasonConflict], what the snapshot said
	// and, of a conflict, what is there.
	Reason           string
	Expected, Actual Version
}

func deletion(d stores.Deletion) Deletion {
	return Deletion{Deleted: d.Deleted, Reason: d.Reason, Expected: Version(d.Expected), Actual: Version(deref(d.Actual))}
}
