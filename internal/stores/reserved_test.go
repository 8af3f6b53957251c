package stores_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestCheckName(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]string{
		"approval":                 "",
		"holdfast":                 "",
		"Holdfast:mine":            "",
		"a/holdfast:b":             "",
		"holdfast:":                "the engine's own",
		"holdfast:effect":          "choose another name",
		"holdfast:whatever comes":  "the engine's own",
		"":                         "is empty",
		"a\x00":                    "NUL",
		strings.Repeat("x", 1<<10): "the limit is 512",
	} {
		err := stores.CheckName(name)
		if bad, is := errors.AsType[*execution.InvalidError](err); says != "" && (!is || bad.What != "store name" || !strings.Contains(err.Error(), says)) || says == "" && err != nil {
			t.Errorf("%q: got %v, want %q", name, err, says)
		}
	}
}
