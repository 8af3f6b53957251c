package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencehttp"
)

// A service that ships parcels refuses a worker that comes late.
func Example() {
	// The service. One that must not forget uses NewSQL.
	store := ok(fencehttp.NewMemory(10_000))
	guard := ok(fencehttp.New(fencehttp.Config{Store: store}))
	service := httptest.NewServer(guard.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := execution.FencingOf(r.Context())
		fmt.Println("the service ships", f.ExecutionID, "under token", f.Token)
	})))
	defer service.Close()

	// The worker. ship is the function of a step: holdfast.Step(ctx, "ship", ship).
	client := &http.Client{Transport: &fencehttp.Transport{}}
	ship := func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, service.URL, strings.NewReader("tea"))
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		return resp.Status, nil
	}

	// Two deliveries of one execution; the first one was frozen and wakes up late.
	fmt.Println(ship(delivery(105)))
	_, err := ship(delivery(101))
	var stale *fencehttp.StaleError
	fmt.Println("refused:", errors.As(err, &stale), "since token", stale.Seen, "has been there")
	fmt.Println("which ends the delivery as lost:", errors.Is(err, execution.ErrLost))
	// Output:
	// the service ships order-42 under token 105
	// 200 OK <nil>
	// refused: true since token 105 has been there
	// which ends the delivery as lost: true
}

// Without a Transport: the headers for a request, and the refusal of a response.
func ExampleApply() {
	step := func(ctx context.Context) {
		req := ok(http.NewRequestWithContext(ctx, http.MethodPost, "https://parcels.example/ship", nil))
		if err := fencehttp.Apply(req, holdfast.Fence(ctx)); err != nil {
			fmt.Println(err)
			return
		}
		for _, h := range []string{fencehttp.KeyHeader, fencehttp.TokenHeader, fencehttp.NamespaceHeader, fencehttp.ExecutionHeader, fencehttp.StepHeader} {
			fmt.Printf("%s: %s\n", h, req.Header.Get(h))
		}
	}
	step(delivery(105))
	step(context.Background()) // not the step's context
	// Output:
	// Idempotency-Key: "hf-3d40458d03d99c12a53416ff45c7344e"
	// Holdfast-Token: 105
	// Holdfast-Namespace: default
	// Holdfast-Execution: order-42
	// Holdfast-Step: charge
	// fencing "" is empty; take it from the context that the step's function was given
}

// delivery is the context of a step in the delivery with the token, as the engine
// makes it.
func delivery(token int64) context.Context {
	return execution.WithFencing(context.Background(), fencing(token))
}

// ok stands for the error handling of a real program.
func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
