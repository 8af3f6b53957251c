package main

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-io/holdfast/holdfasttest"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// The worker dies when it has read a till, and when it has started a shop's child:
// another one goes on, and each shop is counted once.
func TestReportSurvivesCrashes(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"read the till", "start Oslo", "await Lima"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
				env.BeforeRecord(step, (*holdfasttest.Worker).Crash)
				env.Worker(MakeReport, Count)
				report, err := MakeReport.Start(env.Context(), env.Client(), []string{"Rome", "Oslo", "Lima", "Mars"})
				if err != nil {
					t.Fatal(err)
				}
				env.Worker(MakeReport, Count)
				r, err := report.Result(env.Context())
				missing := []string{`Mars: step "read the till" failed: no connection`}
				if err != nil || r.Sold != 1200 || !slices.Equal(r.Missing, missing) {
					t.Errorf("got %+v, %v; want 1200 sold and %v", r, err, missing)
				}
				all, err := env.Client().List(env.Context(), execution.ListRequest{})
				if err != nil || len(all.Records) != 5 {
					t.Errorf("%d executions, %v; want the report and 4 shops", len(all.Records), err)
				}
			})
		})
	}
}

// A report of no shops is empty.
func TestReportOfNothing(t *testing.T) {
	t.Parallel()
	holdfasttest.Run(t, func(t *testing.T, env *holdfasttest.Env) {
		env.Worker(MakeReport, Count)
		report, err := MakeReport.Start(env.Context(), env.Client(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := report.Result(env.Context()); err != nil || fmt.Sprint(r) != "{0 []}" {
			t.Errorf("got %v, %v", r, err)
		}
	})
}
