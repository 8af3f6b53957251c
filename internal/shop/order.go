// Package shop is a small shop that charges its orders, one durable execution an
// order: the orders file, the workflow, the payment provider that it charges
// through, with its ledger, and the client between the two.
//
// The shop promises that every order comes to one outcome and that no card is
// charged twice, whatever happens to its workers. The first is Holdfast's doing,
// the second takes the provider's help: the charge carries an idempotency key that
// stays the same through retries and takeovers, and the provider honours it.
package shop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/holdfast-io/holdfast/internal/canonical"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Card says how the payment provider treats it.
type Card string

// The kinds of card.
const (
	CardOK       Card = "ok"       // is charged
	CardDeclined Card = "declined" // is refused, for good
	CardFlaky    Card = "flaky2"   // fails twice, is then charged
)

// An Order is one line of an orders file. Its id is its execution's.
type Order struct {
	ID          string `json:"id"`
	Customer    string `json:"customer"`
	AmountCents int64  `json:"amountCents"`
	Currency    string `json:"currency"`
	Card        Card   `json:"card"`
}

// Chargeable says whether the order's card can be charged in the end.
func (o Order) Chargeable() bool { return o.Card != CardDeclined }

// parseOrder reads one line. Fields that an order doesn't have are ignored, as
// are their values; the names of its own are taken to the letter.
func parseOrder(line []byte) (o Order, err error) {
	if !utf8.Valid(line) {
		return o, errors.New("is not valid UTF-8")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return o, describe(err)
	}
	if fields == nil {
		return o, errors.New("is null, not a JSON object")
	}
	if key, ok := repeatedKey(line); ok {
		return o, fmt.Errorf("has the key %s twice", quote(key))
	}
	var card string
	for _, f := range []struct {
		name string
		into *string
	}{{"id", &o.ID}, {"customer", &o.Customer}, {"currency", &o.Currency}, {"card", &card}} {
		if err := text(fields, f.name, f.into); err != nil {
			return o, err
		}
	}
	o.Card = Card(card)
	if o.AmountCents, err = amount(fields); err != nil {
		return o, err
	}
	return o, o.validate()
}

// text reads a field that must be there and be a string.
func text(fields map[string]json.RawMessage, name string, into *string) error {
	raw, ok := fields[name]
	if !ok || string(raw) == "null" {
		return fmt.Errorf("%s is missing", name)
	}
	if json.Unmarshal(raw, into) != nil {
		return fmt.Errorf("%s is %s: want a string", name, excerpt(raw))
	}
	if escape := canonical.HalfSurrogate(raw); escape != "" {
		return fmt.Errorf("%s holds %s, which is half a character", name, escape)
	}
	return nil
}

func amount(fields map[string]json.RawMessage) (int64, error) {
	raw, ok := fields["amountCents"]
	if !ok || string(raw) == "null" {
		return 0, errors.New("amountCents is missing")
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || raw[0] == '-' { // also of -0
		return 0, fmt.Errorf("amountCents is %s: want a whole number from 0 to %d", excerpt(raw), int64(math.MaxInt64))
	}
	return n, nil
}

func (o Order) validate() error {
	if err := execution.ID(o.ID).Validate(); err != nil {
		return fmt.Errorf("id is not fit for an execution: %w", err)
	}
	if !isCurrency(o.Currency) {
		return fmt.Errorf("currency is %s: want three capital letters, such as EUR", quote(o.Currency))
	}
	switch o.Card {
	case CardOK, CardDeclined, CardFlaky:
		return nil
	}
	return fmt.Errorf("card is %s: want %q, %q or %q", quote(string(o.Card)), CardOK, CardDeclined, CardFlaky)
}

func isCurrency(s string) bool {
	for _, r := range s {
		if r < 'A' || r > 'Z' {
			return false
		}
	}
	return len(s) == 3
}

// repeatedKey returns a key that the object on the line, which is valid JSON, has
// more than once. The decoder would take the last value and not say so.
func repeatedKey(line []byte) (key string, repeated bool) {
	d := json.NewDecoder(bytes.NewReader(line))
	_, _ = d.Token() // the brace
	for seen := map[string]bool{}; d.More(); seen[key] = true {
		token, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return "", false
		}
		if key, _ = token.(string); seen[key] {
			return key, true
		}
	}
	return "", false
}

// describe words an error of the JSON decoder for somebody who looks at the line.
func describe(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		return fmt.Errorf("is a JSON %s, not an object", kind.Value)
	case errors.As(err, &syntax):
		return fmt.Errorf("is not one JSON object: %w at byte %d", err, syntax.Offset)
	}
	return fmt.Errorf("is not one JSON object: %w", err)
}

// maxExcerpt bounds how much of a bad value a message repeats, in bytes.
const maxExcerpt = 40

func excerpt(raw []byte) string {
	if len(raw) <= maxExcerpt {
		return string(raw)
	}
	cut := raw[:maxExcerpt]
	for len(cut) > 0 && !utf8.Valid(cut) { // not in the middle of a character
		cut = cut[:len(cut)-1]
	}
	return string(cut) + "…"
}

func quote(s string) string { return strconv.Quote(excerpt([]byte(s))) }
