package simulate

import (
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// waker wakes every execution again and again: what suspended itself without a wake
// waits for one.
func (w *world) waker() {
	executions, _, err := w.engine(w.ctx, "waker", time.Now)
	if err != nil {
		return
	}
	for !pause(w.ctx, time.Second) {
		for i := range population {
			id := execution.ID(fmt.Sprint("x", i))
			w.complain("wake", expected(executions.RequestWake(w.ctx, id, w.wall())))
		}
	}
}
