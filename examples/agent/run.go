package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/examples/internal/local"
)

func main() { local.Run(show, Agent) }

// show has an agent book a train. The human is quick.
func show(ctx context.Context, c *holdfast.Client) error {
	model := httptest.NewServer(http.HandlerFunc(pretend))
	defer model.Close()
	trip, err := Agent.Start(ctx, c, Task{Goal: "Get me to Rome", Model: model.URL}, holdfast.WithID("trip"))
	if err != nil {
		return err
	}
	if err := Approved.Send(ctx, c, trip.ID(), true); err != nil {
		return err
	}
	answer, err := trip.Result(ctx)
	if err != nil {
		return err
	}
	fmt.Println(answer)
	return nil
}
