package effect_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/pkg/effect"
)

type Charge struct {
	Card  string `json:"card"`
	Cents int    `json:"cents"`
}

type Receipt struct {
	Number int `json:"number"`
}

// A bank stands for the provider: one act for one key, and a way to ask.
type bank struct {
	charges map[string]Receipt
	lose    bool // the next answer
}

func (b *bank) charge(_ context.Context, c Charge, key string) (Receipt, error) {
	if c.Cents > 10_000 {
		return Receipt{}, effect.Decline(errors.New("over the limit"))
	}
	if _, done := b.charges[key]; !done {
		b.charges[key] = Receipt{Number: len(b.charges) + 1}
	}
	if b.lose {
		b.lose = false
		return Receipt{}, errors.New("connection reset")
	}
	return b.charges[key], nil
}

func (b *bank) find(_ context.Context, _ Charge, key string) (effect.Found[Receipt], error) {
	receipt, done := b.charges[key]
	if !done {
		return effect.Found[Receipt]{Status: effect.NotFound}, nil
	}
	return effect.Found[Receipt]{Status: effect.Settled, Result: receipt}, nil
}

// A payment is charged once, though the bank's answer is lost after it has acted: the
// next delivery asks what has become of it.
func ExampleRun() {
	ctx := context.Background()
	bank := &bank{charges: map[string]Receipt{}, lose: true}
	pay := holdfast.Define("pay", func(ctx holdfast.Context, c Charge) (Receipt, error) {
		return effect.Run(ctx, "charge", effect.Effect[Charge, Receipt]{
			Operation: "charge-card",
			Input:     c,
			Perform:   bank.charge,
			Lookup:    bank.find,
			RetryIn:   10 * time.Millisecond,
		})
	})
	client, stop := serve(pay) // holdfast.Open, holdfast.NewWorker and its Run
	defer stop()

	receipt := must(must(pay.Start(ctx, client, Charge{"4242", 1999})).Result(ctx))
	fmt.Println("receipt", receipt.Number, "of", len(bank.charges))
	_, err := must(pay.Start(ctx, client, Charge{"4242", 1_000_000}, holdfast.WithID("yacht"))).Result(ctx)
	fmt.Println(err)
	// Output:
	// receipt 1 of 1
	// execution "yacht" failed: step "charge" failed: over the limit
}

// A provider that reports results by a webhook settles the effect, and the workflow that
// waits for it goes on.
func ExampleClient_Settle() {
	ctx := context.Background()
	asked := make(chan string, 1)
	transfer := holdfast.Define("transfer", func(ctx holdfast.Context, cents int) (string, error) {
		return effect.Run(ctx, "send", effect.Effect[int, string]{
			Operation: "bank-transfer", ID: "transfer-7", Input: cents,
			Perform: func(_ context.Context, _ int, key string) (string, error) {
				asked <- key
				return "", errors.New("accepted; the webhook will tell")
			},
			Lookup: func(context.Context, int, string) (effect.Found[string], error) {
				return effect.Found[string]{Status: effect.Unknown}, nil
			},
			RetryIn: time.Hour,
		})
	})
	client, stop := serve(transfer)
	defer stop()
	sent := must(transfer.Start(ctx, client, 1999))

	// Elsewhere, in the webhook's handler:
	effects := effect.NewClient(client)
	id := <-asked
	fmt.Println("first:", effects.Settle(ctx, id, "booked"))
	fmt.Println("again:", effects.Settle(ctx, id, "booked"))
	fmt.Println("other:", effects.Settle(ctx, id, "rejected"))

	fmt.Println(must(sent.Result(ctx)))
	for _, c := range must(effects.Conflicts(ctx)) {
		fmt.Printf("%s of %s: %s counts, not %s\n", c.Operation, c.Effect, c.Result.Value, c.Reports[0].Result.Value)
	}
	// Output:
	// first: <nil>
	// again: <nil>
	// other: effect "transfer-7" is settled with another result already, which stays; this one is reported as a conflict
	// booked
	// bank-transfer of transfer-7: "booked" counts, not "rejected"
}
