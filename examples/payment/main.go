// The payment example charges a card exactly once, by a bank whose answers get lost. An
// ordinary step would be run again, and charge again; an effect is looked up first.
//
//	go run ./examples/payment
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/effect"
)

// An Order is what a customer wants to have.
type Order struct {
	Item string `json:"item"`
	Euro int    `json:"euro"`
}

// A Receipt is what the bank gives for a charge.
type Receipt struct {
	Number int `json:"number"`
}

// NewCheckout returns the workflow that has an order paid, and ships it.
func NewCheckout(bank *Bank) *holdfast.Workflow[Order, string] {
	return holdfast.Define("checkout", func(ctx holdfast.Context, o Order) (string, error) {
		receipt, err := effect.Run(ctx, "charge", effect.Effect[int, Receipt]{
			Operation: "charge-card",
			Input:     o.Euro,
			Perform:   bank.Charge,
			Lookup:    bank.Find,
			RetryIn:   time.Second, // where nobody knows what has become of it
		})
		if step, declined := errors.AsType[*holdfast.StepError](err); declined {
			return step.Message, nil
		}
		if err != nil {
			return "", err
		}
		return holdfast.Step(ctx, "ship", func(context.Context) (string, error) {
			return fmt.Sprintf("%s is shipped, by receipt %d", o.Item, receipt.Number), nil
		})
	})
}

// A Bank charges a key once, however often it is asked to.
type Bank struct {
	mu     sync.Mutex
	ledger map[string]Receipt
	Losing int // how many of its next answers get lost
}

// errLost says nothing of whether the bank has acted.
var errLost = errors.New("connection to the bank reset")

// Charge charges a card.
func (b *Bank) Charge(_ context.Context, euro int, key string) (Receipt, error) {
	if euro > 1000 {
		return Receipt{}, effect.Decline(errors.New("the card is declined"))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, charged := b.ledger[key]; !charged {
		if b.ledger == nil {
			b.ledger = map[string]Receipt{}
		}
		b.ledger[key] = Receipt{Number: len(b.ledger) + 1}
	}
	if b.Losing > 0 {
		b.Losing--
		return Receipt{}, errLost
	}
	return b.ledger[key], nil
}

// Find says whether a key was charged.
func (b *Bank) Find(_ context.Context, _ int, key string) (effect.Found[Receipt], error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if receipt, charged := b.ledger[key]; charged {
		return effect.Found[Receipt]{Status: effect.Settled, Result: receipt}, nil
	}
	return effect.Found[Receipt]{Status: effect.NotFound}, nil
}

// Charges says how often it has charged a card.
func (b *Bank) Charges() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ledger)
}
