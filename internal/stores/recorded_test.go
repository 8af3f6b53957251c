package stores_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A step of the engine records a result with '<', '>' and '&' escaped, each in six bytes,
// and with something around it. What it could not record is not done; a step of another
// runtime records by itself.
func TestResultsThatAreRecorded(t *testing.T) {
	t.Parallel()
	angles := func(size int) string { // so long as it is recorded
		n := size - 2
		return `"` + strings.Repeat("<", n/6) + strings.Repeat("x", n%6) + `"`
	}
	for _, c := range []struct {
		name    string
		result  string
		foreign bool
		fits    bool
	}{
		{"the largest", angles(stores.MaxRecordedBytes), false, true},
		{"larger", angles(stores.MaxRecordedBytes + 1), false, false},
		{"the largest, plain", `"` + strings.Repeat("x", stores.MaxRecordedBytes-2) + `"`, false, true},
		{"larger, plain", `"` + strings.Repeat("x", stores.MaxRecordedBytes-1) + `"`, false, false},
		{"larger, of another runtime", angles(6 * stores.MaxRecordedBytes / 2), true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.create(counter, "1")
			s := step("x")
			if !c.foreign {
				s = b.admit("x")
			}
			before := b.dump()
			change := to("2", c.result)
			res, err := b.Update(t.Context(), counter, &s, "update", change)
			if c.fits {
				if err != nil || string(res.Raw) != c.result || string(b.get(counter).State) != "2" {
					t.Errorf("got %.20q, %v; want it made", res.Raw, err)
				}
				return
			}
			_, conditional := b.Commit(t.Context(), counter, &s, "updateFrom", b.get(counter).At(), change)
			for _, err := range []error{err, conditional} {
				bad, is := errors.AsType[*execution.InvalidError](err)
				if !is || bad.What != "result" || bad.Limit != stores.MaxRecordedBytes || bad.Size <= bad.Limit {
					t.Errorf("got %v", err)
				}
			}
			b.unchanged(before)
		})
	}
}
