// The counter example lets many executions count in one place. Each counts once,
// whatever happens to its worker, and the last one is told that all have.
//
//	go run ./examples/counter
package main

import (
	"context"
	"fmt"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/examples/internal/local"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// A Tally says how many visitors came through which door.
type Tally struct {
	Total int            `json:"total"`
	Doors map[string]int `json:"doors"`
}

// Visitors is the tally of a day.
var Visitors = store.Define[Tally]("visitors")

// Visit counts a visitor who came through a door.
var Visit = holdfast.Define("visit", func(ctx holdfast.Context, door string) (int, error) {
	res, err := store.Update(ctx, "count", Visitors.At("today"), func(t *Tally) error {
		if t.Doors == nil {
			t.Doors = map[string]int{}
		}
		t.Total++
		t.Doors[door]++
		return nil
	})
	return res.State.Total, err
})

// Close waits until so many visitors were counted, and returns the tally.
var Close = holdfast.Define("close", func(ctx holdfast.Context, visitors int) (Tally, error) {
	return store.When(ctx, "all are in", Visitors.At("today"), func(t Tally) (Tally, bool) {
		return t, t.Total >= visitors
	}, store.Reads("total"))
})

const visitors = 50

func main() { local.Run(show, Visit, Close) }

func show(ctx context.Context, c *holdfast.Client) error {
	today := Visitors.At("today").On(c.Stores())
	if _, err := today.GetOrCreate(ctx, Tally{}); err != nil {
		return err
	}
	closing, err := Close.Start(ctx, c, visitors, holdfast.WithID("closing"))
	if err != nil {
		return err
	}
	for i := range visitors {
		door := []string{"north", "south"}[i%2]
		if _, err := Visit.Start(ctx, c, door, holdfast.WithID(fmt.Sprintf("visitor-%d", i))); err != nil {
			return err
		}
	}
	if _, err := closing.Result(ctx); err != nil {
		return err
	}
	now, err := today.Get(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d visitors, %d by the north door, %d by the south door; version %d of the store\n",
		now.State.Total, now.State.Doors["north"], now.State.Doors["south"], now.Version)
	return nil
}
