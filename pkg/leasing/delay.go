package leasing

import (
	"fmt"
	"time"
)

// The default redelivery delay.
const (
	DefaultDelayBase = time.Second
	DefaultDelayCap  = 5 * time.Minute
)

// A DelayPolicy says how long an execution waits after deliveries that ended
// without an acknowledgement. (RFC 002, Redelivery delay.)
type DelayPolicy struct {
	Base time.Duration // after the first one; default 1 s; at least 1 ms
	Cap  time.Duration // never more than this; default 5 min; at least Base
}

func (p DelayPolicy) withDefaults() (DelayPolicy, error) {
	if p.Base == 0 {
		p.Base = DefaultDelayBase
	}
	if p.Cap == 0 {
		p.Cap = max(DefaultDelayCap, p.Base)
	}
	if p.Base < time.Millisecond || p.Cap < p.Base {
		return p, fmt.Errorf("redelivery delay: base %v, cap %v: want a base of at least 1ms and a cap that is not below it", p.Base, p.Cap)
	}
	return p, nil
}

// Delay returns the delay after n unacknowledged deliveries: base·2^(n−1), up to
// the cap. It has no jitter: a later delay is never shorter than an earlier one.
// A stored count out of range gives a delay within [base, cap] all the same.
func (p DelayPolicy) Delay(n int64) time.Duration {
	d := p.Base
	for ; n > 1 && d < p.Cap; n-- {
		if d > p.Cap/2 {
			return p.Cap
		}
		d *= 2
	}
	return d
}
