package leasing_test

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// The delay is within [base, cap] for any stored count, and never decreases.
func TestDelay(t *testing.T) {
	for _, p := range []leasing.DelayPolicy{
		{Base: time.Second, Cap: 5 * time.Minute},
		{Base: time.Millisecond, Cap: math.MaxInt64},
		{Base: time.Second, Cap: time.Second},
	} {
		last := time.Duration(0)
		for _, n := range []int64{math.MinInt64, -1, 0, 1, 2, 3, 39, 63, 64, 1000, 1 << 31, math.MaxInt64} {
			d := p.Delay(n)
			if d < p.Base || d > p.Cap || d < last {
				t.Errorf("%+v: delay(%d) = %v after %v", p, n, d, last)
			}
			last = d
		}
	}
	if d := (leasing.DelayPolicy{Base: time.Second, Cap: 5 * time.Minute}).Delay(4); d != 8*time.Second {
		t.Errorf("delay(4) = %v", d)
	}
}
