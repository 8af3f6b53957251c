package holdfast_test

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast"
)

// Each page is a run of its own: however many there are, one page is recorded.
func ExampleContinueAsNew() {
	type place struct{ Page, Rows int }
	load := holdfast.Define("load", func(ctx holdfast.Context, at place) (string, error) {
		rows, err := holdfast.Step(ctx, "load a page", func(context.Context) (int, error) {
			return max(0, 300-100*at.Page), nil
		})
		if err != nil {
			return "", err
		}
		if rows > 0 {
			return "", holdfast.ContinueAsNew(place{at.Page + 1, at.Rows + rows})
		}
		return fmt.Sprintf("%d rows on %d pages", at.Rows, at.Page), nil
	})
	fmt.Println(run(load, place{}))
	// Output:
	// 600 rows on 3 pages <nil>
}
