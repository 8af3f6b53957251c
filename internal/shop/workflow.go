package shop

import (
	"context"
	"crypto/rand"
	"math"
	"time"

	"github.com/holdfast-io/holdfast"
)

// WorkflowName is the name of the shop's workflow, which is stored with every order.
const WorkflowName = "shop/order"

// CodeDeclined is the error code of an order whose card was declined.
const CodeDeclined = "card_declined"

// A Receipt is what a charged order comes to.
type Receipt struct {
	OrderID     string `json:"orderId"`
	Invoice     string `json:"invoice"`
	ChargeID    string `json:"chargeId"`
	AmountCents int64  `json:"amountCents"`
	Currency    string `json:"currency"`
}

// A charge is tried until the provider has decided, however long that takes: to
// give up would be to call an order failed whose card may have been charged. Its
// execution is suspended between the attempts, which are soon half a minute apart.
const (
	chargeAttempts = math.MaxInt32
	retryFirst     = 200 * time.Millisecond
	retryFactor    = 2
	retryMost      = 30 * time.Second
)

// NewWorkflow returns the workflow of an order: number an invoice, charge the card
// for it. An order fails if its card is declined or the provider refuses the request
// for good, never for want of an answer. Without a cashier it is good for starting orders and reading what they
// came to, not for a worker.
func NewWorkflow(c *Cashier) *holdfast.Workflow[Order, Receipt] {
	return holdfast.Define(WorkflowName, func(ctx holdfast.Context, o Order) (Receipt, error) {
		// The number is drawn once and recorded: whoever takes the order over charges
		// for the same invoice.
		invoice, err := holdfast.Step(ctx, "invoice", func(context.Context) (string, error) {
			return "INV-" + rand.Text()[:12], nil
		})
		if err != nil {
			return Receipt{}, err
		}
		paid, err := holdfast.Step(ctx, "charge", func(ctx context.Context) (Payment, error) {
			f := holdfast.Fence(ctx)
			return c.Charge(ctx, f.Key, f.Token, ChargeRequest{
				OrderID: o.ID, Invoice: invoice, AmountCents: o.AmountCents, Currency: o.Currency, Card: o.Card,
			})
		}, holdfast.MaxAttempts(chargeAttempts), holdfast.Backoff(retryFirst, retryFactor, retryMost))
		if err != nil {
			return Receipt{}, err
		}
		if paid.Charge == nil {
			return Receipt{}, &DeclinedError{Message: paid.Declined}
		}
		return Receipt{
			OrderID: o.ID, Invoice: invoice, ChargeID: paid.Charge.ID,
			AmountCents: paid.Charge.AmountCents, Currency: paid.Charge.Currency,
		}, nil
	})
}

// A DeclinedError says that the card was declined.
type DeclinedError struct{ Message string }

func (e *DeclinedError) Error() string { return e.Message }

// Code is recorded with the order's outcome.
func (e *DeclinedError) Code() string { return CodeDeclined }
