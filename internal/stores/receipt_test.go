package stores_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// TestReceiptsAnswerTheirKindAlone: what was recorded of one call tells nothing of
// another one.
func TestReceiptsAnswerTheirKindAlone(t *testing.T) {
	t.Parallel()
	type call func(b *bench, s execution.StepID, at stores.Version) error
	calls := map[string]call{}
	for _, kind := range []string{stores.KindUpdate, stores.KindTake, stores.KindTakeUntil} {
		calls[kind] = func(b *bench, s execution.StepID, _ stores.Version) error {
			_, err := b.Update(b.t.Context(), counter, &s, kind, add(1))
			return err
		}
	}
	for _, kind := range []string{stores.KindUpdateFrom, "commit"} {
		calls[kind] = func(b *bench, s execution.StepID, at stores.Version) error {
			_, err := b.Commit(b.t.Context(), counter, &s, kind, at, add(1))
			return err
		}
	}
	calls["delete"] = func(b *bench, s execution.StepID, at stores.Version) error {
		_, err := b.DeleteFrom(b.t.Context(), counter, &s, at)
		return err
	}
	for first, do := range calls {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			b, s := newBench(t), step("e")
			b.must(do(b, s, b.create(counter, "1").At()))
			at := b.create(counter, "2").At()
			before := b.dump()
			b.must(do(b, s, at))
			for second, do := range calls {
				err := do(b, s, at)
				if other, is := errors.AsType[*stores.ReceiptError](err); is == (first == second) || is && (other.Kind != first || other.Wanted != second ||
					!strings.Contains(err.Error(), `step "s" of "e" was used for another call, of the kind "`+first+`"`)) {
					t.Errorf("%s: got %v", second, err)
				}
			}
			b.unchanged(before)
		})
	}
}
