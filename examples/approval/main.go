// The approval example lets a manager approve an expense, within a time. The workflow
// waits for the decision without a goroutine and without a lease, and nobody polls.
//
//	go run ./examples/approval
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/store"
)

// A Request is an expense that has to be approved.
type Request struct {
	Who    string
	Euros  int
	Within time.Duration // how long the manager has
}

// A Decision is what the manager has come to.
type Decision struct {
	Approved bool   `json:"approved"`
	By       string `json:"by,omitempty"` // nobody yet
}

// Decisions holds a decision for each expense, which has the id of its execution.
var Decisions = store.Define[Decision]("decision")

// Expense pays an expense that is approved in time.
var Expense = holdfast.Define("expense", func(ctx holdfast.Context, r Request) (string, error) {
	asked, err := holdfast.Step(ctx, "ask", func(context.Context) (time.Time, error) { return time.Now(), nil })
	if err != nil {
		return "", err
	}
	if _, err := store.GetOrCreate(ctx, "open", Decisions.Own(), Decision{}); err != nil {
		return "", err
	}
	decided := func(d Decision) (Decision, bool) { return d, d.By != "" }
	d, inTime, err := store.WhenUntil(ctx, "decision", Decisions.Own(), asked.Add(r.Within), decided)
	switch {
	case err != nil:
		return "", err
	case !inTime:
		return "nobody decided in time", nil
	case !d.Approved:
		return "declined by " + d.By, nil
	}
	return holdfast.Step(ctx, "pay", func(context.Context) (string, error) {
		return fmt.Sprintf("%s is paid %d euros, says %s", r.Who, r.Euros, d.By), nil
	})
})

// Decide is what the manager's web page would call. It is not part of a workflow.
func Decide(ctx context.Context, c *holdfast.Client, expense string, d Decision) error {
	decision := Decisions.At(expense).On(c.Stores())
	if _, err := decision.GetOrCreate(ctx, d); err != nil { // the workflow may not have come so far
		return err
	}
	_, err := decision.Update(ctx, func(now *Decision) error {
		if now.By == "" {
			*now = d
		}
		return nil
	})
	return err
}
