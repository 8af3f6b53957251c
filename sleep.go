package holdfast

import (
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/internal/replay"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Sleep suspends the execution for d, which may be days: it holds no goroutine
// and no lease meanwhile. The time at which it ends is recorded on the first
// call; a wake that comes earlier does not change it. The name shares the names
// of [Step] and must be unique in the run. A d of 0 or less does not suspend.
//
// Sleep returns [ErrSuspended] until the time has come: return it.
func Sleep(ctx Context, name string, d time.Duration) error {
	r := runOf(ctx)
	return r.unit(replay.Site(), name, nil, func() error { return r.sleep(name, d) })
}

func (r *run) sleep(name string, d time.Duration) error {
	rec, found := r.recorded[name]
	if found {
		r.tell(name, outcomeReplayed)
	} else {
		if err := r.caughtUp(fmt.Sprintf("sleep %q", name)); err != nil {
			return err
		}
		// No drain: a sleep that is recorded hands over as well.
		if r.interrupted() {
			return ErrSuspended
		}
		var err error
		w := execution.StepWrite{Key: name, Done: true, Response: sleepResponse(due(time.Now(), d)).encode()}
		if rec, err = r.record(w, outcomeRan); err != nil {
			return err
		}
	}
	resp, err := decodeResponse(rec)
	switch {
	case err != nil:
		return r.breakOff(err)
	case resp.Kind != kindSleep:
		return r.mistaken(fmt.Sprintf("sleep %q", name), resp)
	case time.Now().Before(resp.Until):
		return r.suspend(resp.Until)
	}
	return nil
}
