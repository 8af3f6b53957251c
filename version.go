package holdfast

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/internal/replay"
)

// kindVersion is what a call of Version is, in messages.
const kindVersion = "version"

// Version lets new code of a workflow live beside executions that began with old code.
// It returns newest, and records that, where the execution has not come by the change
// before; where it has, by code that did not call Version yet, the version is 0. All
// later deliveries of the run are given the same. Versions of code count from 1 on, and
// oldest is 0 for as long as the code from before the change is kept.
//
//	v, err := holdfast.Version(ctx, "reserve before charge", 0, 1)
//	if err != nil {
//		return err
//	}
//	if v >= 1 {
//		… // the new code
//	}
//
// The change is the name of a step, of its own in the run; in a loop a change may be
// asked for again. When no execution has the oldest version any more, raise oldest and
// remove its code; an execution that has it after all is not run, and says why.
//
// Call Version where nothing runs in parallel to it: anything that is recorded and that
// the function has not come to yet, in another goroutine too, is taken to lie behind
// the change.
func Version(ctx Context, change string, oldest, newest int) (int, error) {
	r := runOf(ctx)
	r.mu.Lock()
	v, known := r.versions[change]
	r.mu.Unlock()
	if !known {
		var misuse error
		if oldest < 0 || oldest > newest {
			misuse = fmt.Errorf("the versions %d to %d are none: the oldest is not less than 0, and not greater than the newest", oldest, newest)
		}
		_, err := r.Do(replay.Site(), replay.Call{
			Name: change, Kind: kindVersion, Misuse: misuse,
			Run: func(context.Context, replay.Earlier) (replay.Answer, error) {
				raw, err := json.Marshal(r.versionNow(newest))
				return replay.Answer{Result: raw}, err
			},
			Accept: func(result json.RawMessage) error { return json.Unmarshal(result, &v) },
		})
		if err != nil {
			return 0, err
		}
	}
	if v < oldest || v > newest {
		return 0, r.breakOff(fmt.Errorf("version %q of workflow %q was recorded as %d, and this code knows %d to %d: run code that knows it", change, r.workflow, v, oldest, newest))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.versions[change] = v
	return v, nil
}

// versionNow returns the version of a change that is not recorded: 0 where the run has
// recorded anything that the function has not come to yet.
func (r *run) versionNow(newest int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replayed < len(r.recorded) {
		return 0
	}
	return newest
}
