package record

import (
	"encoding/json"
	"strconv"
)

// The end of an execution is told and waited for as the only change of a store without
// a record: the instance is the incarnation, and so is the version, so that the end of
// a later incarnation does not take the place of one that nobody has told of yet.

// everything is the list of the one path that stands for all that a store holds.
const everything = `[[]]`

// Ending returns the change that tells of the end of an incarnation.
func Ending(incarnation int64) *Change {
	return &Change{V: version, Instance: strconv.FormatInt(incarnation, 10), Version: incarnation, Paths: json.RawMessage(everything)}
}

// AwaitEnding returns the registration of a step of the workflow that waits for the end
// of an incarnation, made at a time in Unix milliseconds.
func AwaitEnding(incarnation, at int64, workflow string) *Waiter {
	return &Waiter{
		V: version, Instance: strconv.FormatInt(incarnation, 10), Paths: json.RawMessage(everything), Registered: at, Workflow: workflow,
	}
}
