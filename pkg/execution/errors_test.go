package execution_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

func TestLostError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  execution.LostError
		want string
	}{
		"claimed by another": {
			execution.LostError{ID: "order-42", Operation: "writeStep", Carried: 2, Current: 3},
			`writeStep "order-42": lease lost: carried token 2, current token 3`,
		},
		"a reason": {
			execution.LostError{ID: "a/b\n", Operation: "acknowledge", Carried: 2, Current: 5, Reason: "fenced: stuck"},
			`acknowledge "a/b\n": lease lost: carried token 2, current token 5 (fenced: stuck)`,
		},
		"the record is gone": {
			execution.LostError{ID: "order-42", Operation: "renew", Carried: 2},
			`renew "order-42": lease lost: carried token 2, current token 0`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := fmt.Errorf("run: %w", &c.err)
			if got := c.err.Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			var lost *execution.LostError
			if !errors.Is(err, execution.ErrLost) || !errors.As(err, &lost) || lost.Carried != c.err.Carried {
				t.Errorf("%v is not a *LostError that is ErrLost", err)
			}
			for _, other := range []error{execution.ErrDraining, execution.ErrUnconfirmed, execution.ErrNotFound, execution.ErrConflict, execution.ErrTerminal} {
				if errors.Is(err, other) {
					t.Errorf("%v passes for %v", err, other)
				}
			}
		})
	}
}

func TestInvalidError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  execution.InvalidError
		want string
	}{
		"a reason": {
			execution.InvalidError{What: "queue", Value: "a\x00", Reason: "holds a NUL character"},
			`queue "a\x00" holds a NUL character`,
		},
		"a limit": {
			execution.InvalidError{What: "params", Value: `{"a":1}`, Size: 7, Limit: 5, Reason: "is too large"},
			`params "{\"a\":1}" is too large: 7 bytes, the limit is 5`,
		},
		"64 bytes": {
			execution.InvalidError{What: "id", Value: strings.Repeat("a", 64), Reason: "is odd"},
			`id "` + strings.Repeat("a", 64) + `" is odd`,
		},
		"a long value": {
			execution.InvalidError{What: "id", Value: strings.Repeat("a", 65), Size: 65, Limit: 64, Reason: "is too long"},
			`id "` + strings.Repeat("a", 64) + `…" is too long: 65 bytes, the limit is 64`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := c.err.Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			var invalid *execution.InvalidError
			if err := fmt.Errorf("admit: %w", &c.err); !errors.As(err, &invalid) || errors.Is(err, execution.ErrLost) {
				t.Errorf("%v is not just an *InvalidError", err)
			}
		})
	}
}

func TestRecordedErrorIsItsMessage(t *testing.T) {
	t.Parallel()
	if got := (&execution.Error{Message: "card declined", Code: "declined", Stack: "main.go:7"}).Error(); got != "card declined" {
		t.Errorf("got %q", got)
	}
}
