package shop

import (
	"encoding/json"
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

// reply renders the answer to an attempt.
func reply(attempt Entry, charge *Entry) (status int, body []byte) {
	message := ""
	switch attempt.Answer {
	case AnswerCharged, AnswerRepeated:
		body, _ = json.Marshal(Charge{
			ID: charge.ChargeID, OrderID: charge.OrderID, Invoice: charge.Invoice,
			AmountCents: charge.AmountCents, Currency: charge.Currency, At: charge.At,
		})
		return http.StatusOK, body
	case AnswerDeclined:
		status, message = http.StatusPaymentRequired, "the card was declined"
	case AnswerUnavailable:
		status, message = http.StatusServiceUnavailable, "try again"
	default:
		status, message = http.StatusConflict, fmt.Sprintf("the key %s belongs to another charge", attempt.IdempotencyKey)
	}
	body, _ = json.Marshal(Refusal{Answer: attempt.Answer, Message: message})
	return status, body
}
