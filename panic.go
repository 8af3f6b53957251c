package holdfast

import (
	"fmt"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"go.uber.org/zap"
)

// A PanicError says that the workflow's function, or a step's, panicked or left
// its goroutine by runtime.Goexit. The delivery has failed and another one follows
// after the redelivery delay; nothing was recorded for the step.
type PanicError struct {
	Where string // which function: that of a workflow or of a step
	At    string // file:line of the panic
	Value any    // what was passed to panic
	Stack string
}

func (e *PanicError) Error() string {
	if e.At == "" {
		return fmt.Sprintf("panic in %s: %v", e.Where, e.Value)
	}
	return fmt.Sprintf("panic in %s at %s: %v", e.Where, e.At, e.Value)
}

// guard runs fn, which calls user code, and says whether it returned. If it
// panicked or called runtime.Goexit the delivery has failed.
func (r *run) guard(where string, fn func()) (returned bool) {
	defer func() {
		if returned {
			return
		}
		p := &PanicError{Where: where, Value: recover(), Stack: string(debug.Stack()), At: panicSite()}
		if p.Value == nil {
			p.Value = "the goroutine was left by runtime.Goexit"
		}
		_ = r.breakOff(p)
		r.log().Error("user code panicked; the delivery has failed", zap.String("where", where),
			zap.String("at", p.At), zap.String("panic", fmt.Sprint(p.Value)), zap.String("stack", p.Stack))
	}()
	fn()
	return true
}

// panicSite returns the place of the panic that the calling deferred function has
// recovered: the first frame below the runtime's own; "" if there is none.
func panicSite() string {
	pcs := make([]uintptr, 32)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	panicking := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			panicking = true
		case panicking && !strings.HasPrefix(f.Function, "runtime."):
			return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}
