package embedded

// This test is inside the package: no etcd can be made to repeat itself at will.

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestRepeatedLinesAreLeftOutAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, seen := observer.New(zapcore.DebugLevel)
		log, _ := newLogger(zap.New(core))
		for i := range 164 {
			log.With(zap.Int("attempt", i)).Warn("failed to publish", zap.Int("attempt", i))
			if i%10 == 0 {
				log.Warn(fmt.Sprint("another line, ", i))
			}
		}
		if n := seen.FilterMessage("failed to publish").Len(); n != repeatsPassed {
			t.Errorf("%d lines were passed on, want %d", n, repeatsPassed)
		}
		if n := seen.FilterMessageSnippet("another line").Len(); n != 17 {
			t.Errorf("%d other lines were passed on, want 17", n)
		}
		var counts []any
		for _, e := range seen.FilterMessageSnippet("left out").All() {
			if counts = append(counts, e.ContextMap()["leftOut"]); e.LoggerName != "etcd" || e.ContextMap()["line"] != "failed to publish" {
				t.Errorf("the note is %v %v", e.Entry, e.ContextMap())
			}
		}
		if got := fmt.Sprint(counts); got != "[1 10 100]" {
			t.Errorf("the notes count %s, want [1 10 100]", got)
		}
		<-time.After(time.Second)
		log.Warn("failed to publish")
		if n := seen.FilterMessage("failed to publish").Len(); n != repeatsPassed+1 {
			t.Errorf("%d lines were passed on after a second, want %d", n, repeatsPassed+1)
		}
	})
}
