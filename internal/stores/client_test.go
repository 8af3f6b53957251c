package stores_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/internal/stores"
	"github.com/holdfast-io/holdfast/internal/testetcd"
)

func TestNewRefusesABadConfig(t *testing.T) {
	t.Parallel()
	space := testetcd.Space(t)
	store := testetcd.Start(t)
	wake := newWakes().wake
	for name, cfg := range map[string]stores.Config{
		"nothing":  {},
		"no store": {Space: space, Wake: wake},
		"no space": {Store: store, Wake: wake},
		"no wake":  {Store: store, Space: space},
	} {
		if client, err := stores.New(cfg); err == nil || client != nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := stores.New(stores.Config{Store: store, Space: space, Wake: wake}); err != nil {
		t.Errorf("the rest has defaults: %v", err)
	}
}
