package stores_test

import (
	"context"
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
)

func TestAccess(t *testing.T) {
	t.Parallel()
	var c stores.Client
	access := stores.NewAccess(&c)
	if got, err := stores.Of(access); got != &c || err != nil {
		t.Errorf("got %p, %v", got, err)
	}
	if got, err := stores.FromContext(stores.NewContext(t.Context(), access)); got != &c || err != nil {
		t.Errorf("from a context: got %p, %v", got, err)
	}
	for name, nobody := range map[string]context.Context{
		"none": t.Context(), "nil": stores.NewContext(t.Context(), nil), "to nothing": stores.NewContext(t.Context(), stores.NewAccess(nil)),
	} {
		if got, err := stores.FromContext(nobody); got != nil || err == nil {
			t.Errorf("%s: got %p, %v; want an error", name, got, err)
		}
	}
}
