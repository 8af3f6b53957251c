package replay_test

import (
	"runtime"
	"testing"

	"github.com/holdfast-io/holdfast/internal/replay"
)

// exported stands for a function that users call; a generic one is one as well.
func exported[T any](T) uintptr { return replay.Site() }

func TestSiteIsTheUsers(t *testing.T) {
	t.Parallel()
	_, file, line, _ := runtime.Caller(0)
	site := exported(1)
	frame, _ := runtime.CallersFrames([]uintptr{site}).Next()
	if frame.File != file || frame.Line != line+1 {
		t.Errorf("got %s:%d, want %s:%d", frame.File, frame.Line, file, line+1)
	}
}
