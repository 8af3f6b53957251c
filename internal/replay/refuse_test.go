package replay_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/holdfast-io/holdfast/internal/replay"
)

func TestRefuse(t *testing.T) {
	t.Parallel()
	plain := errors.New("no such store")
	cases := []struct {
		name string
		err  error
		want bool
	}{
		{"nothing", nil, false},
		{"nothing, marked", replay.Refuse(nil), false},
		{"an error", plain, false},
		{"marked", replay.Refuse(plain), true},
		{"marked and wrapped", fmt.Errorf("take: %w", replay.Refuse(plain)), true},
		{"marked and joined", errors.Join(plain, replay.Refuse(plain)), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := replay.Refused(c.err); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
		})
	}
	err := replay.Refuse(plain)
	if err.Error() != plain.Error() || !errors.Is(err, plain) {
		t.Errorf("got %v, want it to be %v", err, plain)
	}
	if replay.Refuse(nil) != nil {
		t.Error("of nil: not nil")
	}
}
