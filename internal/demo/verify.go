package demo

import (
	"strconv"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/shop"
)

// An outcome is what an order came to: a receipt or a failure.
type outcome struct {
	receipt shop.Receipt
	failure *holdfast.FailedError
}

// An account is what the ledger says of one order.
type account struct {
	attempts int
	charges  []shop.Entry
	keys     map[string]bool
}

func accounts(entries []shop.Entry) map[string]*account {
	byOrder := map[string]*account{}
	for _, e := range entries {
		a := byOrder[e.OrderID]
		if a == nil {
			a = &account{keys: map[string]bool{}}
			byOrder[e.OrderID] = a
		}
		a.keys[e.IdempotencyKey] = true
		if e.Kind == shop.EntryCharge {
			a.charges = append(a.charges, e)
		} else {
			a.attempts++
		}
	}
	return byOrder
}

// verify counts the outcomes and the ledger's entries, and compares each order with both.
func (r *Report) verify(orders []shop.Order, outcomes map[string]outcome, entries []shop.Entry) {
	r.Orders = len(orders)
	ledger := accounts(entries)
	for _, o := range orders {
		out, ok := outcomes[o.ID]
		switch {
		case !ok:
			r.problem("order %s has no outcome", name(o.ID))
		case out.failure != nil:
			r.Failed++
		default:
			r.Completed++
		}
		a := ledger[o.ID]
		if a == nil {
			a = &account{}
		}
		if ok {
			r.verifyOutcome(o, out, a.charges)
		}
		r.verifyAccount(o, a)
		delete(ledger, o.ID)
	}
	for id := range ledger {
		r.problem("the ledger has entries for %s, which is no order", name(id))
	}
	for _, e := range entries {
		if e.Kind == shop.EntryCharge {
			r.Charges++
		} else {
			r.ChargeAttempts++
		}
	}
}

// verifyOutcome compares what an order came to with what its card should have led
// to, and with its charges.
func (r *Report) verifyOutcome(o shop.Order, out outcome, charges []shop.Entry) {
	declined := out.failure != nil && out.failure.Code == shop.CodeDeclined
	switch {
	case out.failure != nil && !declined:
		r.problem("order %s failed: %s", name(o.ID), out.failure.Message)
	case declined && o.Chargeable():
		r.problem("order %s was declined, with a card that works", name(o.ID))
	case !declined && !o.Chargeable():
		r.problem("order %s completed, with a card that is declined", name(o.ID))
	}
	want := 1
	if out.failure != nil {
		want = 0
	}
	if len(charges) != want {
		r.problem("order %s has %d charges on the ledger, not %d", name(o.ID), len(charges), want)
		return
	}
	if want == 0 {
		return
	}
	c := charges[0]
	got := shop.Receipt{OrderID: c.OrderID, Invoice: c.Invoice, ChargeID: c.ChargeID, AmountCents: c.AmountCents, Currency: c.Currency}
	if got != out.receipt {
		r.problem("order %s: the receipt %+v and the charge %+v differ", name(o.ID), out.receipt, got)
	}
	if c.AmountCents != o.AmountCents || c.Currency != o.Currency {
		r.problem("order %s is for %d %s, and %d %s was charged", name(o.ID), o.AmountCents, o.Currency, c.AmountCents, c.Currency)
	}
}

// verifyAccount checks what the ledger says of an order by itself.
func (r *Report) verifyAccount(o shop.Order, a *account) {
	if len(a.charges) > a.attempts {
		r.problem("order %s has more charges (%d) than attempts (%d)", name(o.ID), len(a.charges), a.attempts)
	}
	if len(a.keys) > 1 {
		r.problem("order %s was charged under %d idempotency keys, not one", name(o.ID), len(a.keys))
	}
}

// verifyPlay checks that what was to be shown has happened, and that no revision of
// etcd violates an invariant.
func (r *Report) verifyPlay(violations []audit.Violation) {
	if r.Killed == "" {
		r.problem("no worker was killed")
	}
	if r.Frozen == "" {
		r.problem("no worker was frozen")
	}
	if r.Takeovers == 0 {
		r.problem("no order was taken over")
	}
	late := 0
	for _, w := range r.RefusedWrites {
		if w.Current <= w.Carried {
			r.problem("%s of order %s was refused although it carried token %d and %d was current", w.Operation, name(string(w.ExecutionID)), w.Carried, w.Current)
		}
		if w.Worker == r.Frozen {
			late++
		}
	}
	if late == 0 {
		r.problem("no late write of the frozen worker was refused")
	}
	if r.AcceptedStaleWrites > 0 {
		r.problem("etcd accepted %d stale writes", r.AcceptedStaleWrites)
	}
	for _, v := range violations {
		r.problem("a revision of etcd violates an invariant: %v", v)
	}
}

// name renders an id for people: quoted, and not too long for a line.
func name(id string) string {
	const most = 32
	if r := []rune(id); len(r) > most {
		id = string(r[:most-1]) + "…"
	}
	return strconv.Quote(id)
}
