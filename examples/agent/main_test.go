package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/holdfasttest"
)

// A transport has the model answer in this process: a socket would hold the test's
// clock.
type transport func(http.ResponseWriter, *http.Request)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	f(w, r)
	return w.Result(), nil
}

func TestMain(m *testing.M) {
	http.DefaultClient.Transport = transport(pretend)
	m.Run()
}

// The agent dies at each of its steps, once. None that is recorded runs again, and the
// train is booked only if the human has said yes, in time.
func TestAgent(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, c := range map[string]struct {
		approved *bool
		after    time.Duration
		want     string
	}{
		"approved":          {&yes, time.Hour, "Done: booked the first train under hf-"},
		"approved before":   {&yes, 0, "Done: booked the first train under hf-"},
		"refused":           {&no, time.Hour, "Done: a human has refused it."},
		"nobody is there":   {nil, 0, "Done: nobody has approved it in time."},
		"approved too late": {&yes, 80 * time.Hour, "Done: nobody has approved it in time."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				for _, step := range []string{"model 0", "search 0", "model 1", "model 2"} {
					env.AfterStep(step, (*holdfasttest.Worker).Crash)
				}
				trip, err := Agent.Start(env.Context(), env.Client(), Task{Goal: "Get me to Rome", Model: "http://model"}, holdfast.WithID("trip"))
				if err != nil {
					t.Fatal(err)
				}
				for range 5 {
					env.Worker(Agent)
				}
				env.Advance(c.after)
				if c.approved != nil {
					_ = Approved.Send(env.Context(), env.Client(), "trip", *c.approved) // it may be over
				}
				if got, err := trip.Result(env.Context()); err != nil || !strings.HasPrefix(got, c.want) {
					t.Errorf("got %q, %v; want %q", got, err, c.want)
				}
				for _, step := range []string{"model 0", "search 0", "model 1"} {
					if n := env.Calls(step); n != 1 {
						t.Errorf("%s ran %d times", step, n)
					}
				}
			})
		})
	}
}
