package main

import (
	"fmt"
	"testing"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
)

// A worker that dies after it has counted, and before it has recorded that, does not
// make its visitor count twice.
func TestEachVisitorCountsOnce(t *testing.T) {
	t.Parallel()
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		today := Visitors.At("today").On(env.Client().Stores())
		if _, err := today.GetOrCreate(env.Context(), Tally{}); err != nil {
			t.Fatal(err)
		}
		env.BeforeRecord("count", (*holdfasttest.Worker).Crash)
		env.Worker(Visit, Close)
		closing, err := Close.Start(env.Context(), env.Client(), 10, holdfast.WithID("closing"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			if _, err := Visit.Start(env.Context(), env.Client(), "north", holdfast.WithID(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
		env.Worker(Visit, Close)
		got, err := closing.Result(env.Context())
		if err != nil || got.Total != 10 {
			t.Errorf("closed with %+v, %v", got, err)
		}
		now, err := today.Get(env.Context())
		if err != nil || now.State.Total != 10 || now.State.Doors["north"] != 10 || now.Version != 10 {
			t.Errorf("the store holds %+v, %v; want 10 visitors at version 10", now, err)
		}
	})
}
