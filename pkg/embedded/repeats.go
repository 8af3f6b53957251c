package embedded

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Where etcd fails it may try again at once, and say so each time: hundreds of times in
// a moment. Of the lines of one message these are passed on, each second.
const repeatsPassed = 10

// repeats counts the lines that are left out, by message.
type repeats struct {
	out zapcore.Core

	mu      sync.Mutex
	leftOut map[string]int
}

// withoutRepeats returns a core that leaves out the lines that are too many, and says so.
func withoutRepeats(out zapcore.Core) zapcore.Core {
	r := &repeats{out: out, leftOut: map[string]int{}}
	return zapcore.NewSamplerWithOptions(out, time.Second, repeatsPassed, 0, zapcore.SamplerHook(r.decided))
}

// decided hears what becomes of a line. What is left out is told of at the first line,
// the tenth, the hundredth and so on.
func (r *repeats) decided(e zapcore.Entry, decision zapcore.SamplingDecision) {
	if decision&zapcore.LogDropped == 0 {
		return
	}
	r.mu.Lock()
	r.leftOut[e.Message]++
	n := r.leftOut[e.Message]
	r.mu.Unlock()
	if !isPowerOfTen(n) {
		return
	}
	note := zapcore.Entry{Level: zapcore.WarnLevel, Time: e.Time, LoggerName: e.LoggerName, Message: "a line comes too often: some are left out"}
	if checked := r.out.Check(note, nil); checked != nil {
		checked.Write(zap.String("line", e.Message), zap.Int("leftOut", n), zap.Int("passedEachSecond", repeatsPassed))
	}
}

func isPowerOfTen(n int) bool {
	for n%10 == 0 && n > 0 {
		n /= 10
	}
	return n == 1
}
