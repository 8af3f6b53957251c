package shop

import (
	"fmt"
	"net/http"
	"time"
)

// ChargesPath is where the provider takes charges, by POST.
const ChargesPath = "/v1/charges"

// KeyHeader names the idempotency key of a charge.
const KeyHeader = "Idempotency-Key"

// A ChargeRequest is the body of a charge.
type ChargeRequest struct {
	OrderID     string   `json:"orderId"`
	Invoice     string   `json:"invoice"`
	AmountCents int64    `json:"amountCents"`
	Currency    string   `json:"currency"`
	Card        Card     `json:"card"`
	Metadata    Metadata `json:"metadata"`
}

func (r ChargeRequest) validate() error {
	if r.AmountCents < 0 {
		return fmt.Errorf("amountCents is %d: want 0 or more", r.AmountCents)
	}
	return Order{ID: r.OrderID, Currency: r.Currency, Card: r.Card}.validate()
}

// Metadata says who asks for a charge. It goes into the ledger and decides nothing.
type Metadata struct {
	Worker string `json:"worker"`
	Token  int64  `json:"token"`
}

// A Charge is the answer to a charge that was made.
type Charge struct {
	ID          string    `json:"id"`
	OrderID     string    `json:"orderId"`
	Invoice     string    `json:"invoice"`
	AmountCents int64     `json:"amountCents"`
	Currency    string    `json:"currency"`
	At          time.Time `json:"at"`
}

// A Refusal is the answer to a charge that was not made.
type Refusal struct {
	Answer  Answer `json:"answer"`
	Message string `json:"message"`
}

// reply returns the answer to an attempt.
func reply(attempt Entry, charge *Entry) (status int, body any) {
	refusal := Refusal{Answer: attempt.Answer}
	switch attempt.Answer {
	case AnswerCharged, AnswerRepeated:
		return http.StatusOK, Charge{
			ID: charge.ChargeID, OrderID: charge.OrderID, Invoice: charge.Invoice,
			AmountCents: charge.AmountCents, Currency: charge.Currency, At: charge.At,
		}
	case AnswerDeclined:
		status, refusal.Message = http.StatusPaymentRequired, "the card was declined"
	case AnswerUnavailable:
		status, refusal.Message = http.StatusServiceUnavailable, "try again"
	case AnswerMismatch:
		status, refusal.Message = http.StatusConflict, fmt.Sprintf("the key %s belongs to another charge", attempt.IdempotencyKey)
	}
	return status, refusal
}
