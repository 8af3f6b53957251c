package shop_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	example "github.com/holdfast-io/holdfast/examples/shop"
	"github.com/holdfast-io/holdfast/internal/shop"
)

// line returns an order's line with some of its fields replaced, or left out
// where the replacement is empty.
func line(replace ...string) string {
	fields := []string{"id", `"o-1"`, "customer", `"Ada"`, "amountCents", "4200", "currency", `"EUR"`, "card", `"ok"`}
	for i := 0; i < len(replace); i += 2 {
		if j := slices.Index(fields, replace[i]); j >= 0 {
			fields[j+1] = replace[i+1]
		} else {
			fields = append(fields, replace[i], replace[i+1])
		}
	}
	var parts []string
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", fields[i], fields[i+1]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestReadOrdersTakesOddOnes(t *testing.T) {
	t.Parallel()
	plain := shop.Order{ID: "o-1", Customer: "Ada", AmountCents: 4200, Currency: "EUR", Card: shop.CardOK}
	with := func(change func(*shop.Order)) shop.Order { o := plain; change(&o); return o }
	tests := []struct {
		name, file string
		want       []shop.Order
	}{
		{"empty file", "", nil},
		{"one line", line(), []shop.Order{plain}},
		{"line feed at the end", line() + "\n", []shop.Order{plain}},
		{"blank lines", "\n  \n\t\r\n" + line() + "\n\n", []shop.Order{plain}},
		{"carriage returns", line() + "\r\n", []shop.Order{plain}},
		{"byte order mark", "\ufeff" + line() + "\n", []shop.Order{plain}},
		{"spaces around", "  " + line() + "\t", []shop.Order{plain}},
		{"zero amount", line("amountCents", "0"), []shop.Order{with(func(o *shop.Order) { o.AmountCents = 0 })}},
		{"largest amount", line("amountCents", "9223372036854775807"), []shop.Order{with(func(o *shop.Order) { o.AmountCents = math.MaxInt64 })}},
		{"amount beyond a float", line("amountCents", "9007199254740993"), []shop.Order{with(func(o *shop.Order) { o.AmountCents = 1<<53 + 1 })}},
		{"declined card", line("card", `"declined"`), []shop.Order{with(func(o *shop.Order) { o.Card = shop.CardDeclined })}},
		{"flaky card", line("card", `"flaky2"`), []shop.Order{with(func(o *shop.Order) { o.Card = shop.CardFlaky })}},
		{"emoji id", line("id", `"🎁🎂"`), []shop.Order{with(func(o *shop.Order) { o.ID = "🎁🎂" })}},
		{"escaped id", line("id", `"\ud83c\udf81\n"`), []shop.Order{with(func(o *shop.Order) { o.ID = "🎁\n" })}},
		{"escaped backslash before u", line("id", `"\\ud83c"`), []shop.Order{with(func(o *shop.Order) { o.ID = `\ud83c` })}},
		{"replacement character", line("id", `"�\ufffd"`), []shop.Order{with(func(o *shop.Order) { o.ID = "��" })}},
		{"a key twice inside another field", line("note", `{"a":1,"a":2}`), []shop.Order{plain}},
		{"slashes, spaces", line("id", `" a//b /../c "`), []shop.Order{with(func(o *shop.Order) { o.ID = " a//b /../c " })}},
		{"512 bytes of id", line("id", `"`+strings.Repeat("x", 512)+`"`), []shop.Order{with(func(o *shop.Order) { o.ID = strings.Repeat("x", 512) })}},
		{"unicode customer", line("customer", `"田中 由紀"`), []shop.Order{with(func(o *shop.Order) { o.Customer = "田中 由紀" })}},
		{"empty customer", line("customer", `""`), []shop.Order{with(func(o *shop.Order) { o.Customer = "" })}},
		{"more fields", line("note", `{"amountCents":-1}`), []shop.Order{plain}},
		{"ids that differ in case", line() + "\n" + line("id", `"O-1"`), []shop.Order{plain, with(func(o *shop.Order) { o.ID = "O-1" })}},
		{"longest line", line("note", `"`+strings.Repeat("x", shop.MaxLineBytes-len(line("note", `""`)))+`"`) + "\r\n", []shop.Order{plain}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := shop.ReadOrders(strings.NewReader(tt.file))
			if err != nil || len(got.Skipped) > 0 {
				t.Fatalf("ReadOrders: %v, skipped %v", err, got.Skipped)
			}
			if !slices.Equal(got.Valid, tt.want) {
				t.Errorf("ReadOrders gave %+v, want %+v", got.Valid, tt.want)
			}
		})
	}
}

func TestReadOrdersSkipsWhatIsNoOrder(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, line, reason string }{
		{"not JSON", `id=42`, "is not one JSON object"},
		{"cut short", line()[:20], "is not one JSON object"},
		{"trailing garbage", line() + " x", "is not one JSON object"},
		{"two objects", line() + line(), "is not one JSON object"},
		{"an array", `[` + line() + `]`, "is a JSON array, not an object"},
		{"a number", `42`, "is a JSON number, not an object"},
		{"null", `null`, "is null, not a JSON object"},
		{"not UTF-8", line("id", "\"\xff\""), "is not valid UTF-8"},
		{"no id", line("id", ""), "id is missing"},
		{"null id", line("id", "null"), "id is missing"},
		{"id of another case", line("id", "", "ID", `"o-1"`), "id is missing"},
		{"empty id", line("id", `""`), "id is not fit for an execution"},
		{"id with NUL", line("id", `"a\u0000b"`), "holds a NUL character"},
		{"id too long", line("id", `"`+strings.Repeat("x", 513)+`"`), "513 bytes, the limit is 512"},
		{"id is a number", line("id", "42"), "id is 42: want a string"},
		{"no customer", line("customer", ""), "customer is missing"},
		{"customer is a list", line("customer", `["Ada"]`), `customer is ["Ada"]: want a string`},
		{"no amount", line("amountCents", ""), "amountCents is missing"},
		{"null amount", line("amountCents", "null"), "amountCents is missing"},
		{"negative amount", line("amountCents", "-1"), "amountCents is -1: want a whole number"},
		{"negative zero", line("amountCents", "-0"), "amountCents is -0: want a whole number"},
		{"half a character", line("id", `"a\ud83c"`), `id holds \ud83c, which is half a character`},
		{"second half first", line("customer", `"\udf81\ud83c"`), `customer holds \udf81, which is half a character`},
		{"half before another", line("id", `"\ud83c\u0041"`), `id holds \ud83c, which is half a character`},
		{"a key twice", strings.Replace(line(), "{", `{"id":"o-1",`, 1), `has the key "id" twice`},
		{"an escaped key twice", strings.Replace(line(), "{", `{"i\u0064":"o-1",`, 1), `has the key "id" twice`},
		{"a key of no order twice", line("note", "1,\"note\":2"), `has the key "note" twice`},
		{"fraction", line("amountCents", "41.5"), "amountCents is 41.5: want a whole number"},
		{"exponent", line("amountCents", "1e3"), "amountCents is 1e3: want a whole number"},
		{"amount beyond 64 bits", line("amountCents", "9223372036854775808"), "amountCents is 9223372036854775808: want"},
		{"amount is a string", line("amountCents", `"4200"`), `amountCents is "4200": want a whole number`},
		{"long amount", line("amountCents", strings.Repeat("9", 1000)), "9…: want a whole number"},
		{"no currency", line("currency", ""), "currency is missing"},
		{"small currency", line("currency", `"eur"`), `currency is "eur": want three capital letters`},
		{"long currency", line("currency", `"EURO"`), `currency is "EURO"`},
		{"currency sign", line("currency", `"€"`), `currency is "€"`},
		{"no card", line("card", ""), "card is missing"},
		{"unknown card", line("card", `"visa"`), `card is "visa": want "ok", "declined" or "flaky2"`},
		{"repeats an order", line("id", `"first"`), `repeats the order "first" of line 1`},
		{"takes an id", line("id", `"first"`, "amountCents", "1"), `the id "first" belongs to another order, on line 1`},
		{"too long", line("note", `"`+strings.Repeat("x", shop.MaxLineBytes)+`"`), "is longer than 65536 bytes"},
		{"far too long", line("note", `"`+strings.Repeat("x", 5*shop.MaxLineBytes)+`"`), "is longer than 65536 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, end := range []string{"", "\n", "\n\n" + line("id", `"last"`) + "\n"} {
				got, err := shop.ReadOrders(strings.NewReader(line("id", `"first"`) + "\n" + tt.line + end))
				if err != nil {
					t.Fatal(err)
				}
				if len(got.Skipped) != 1 || got.Skipped[0].Number != 2 || !strings.Contains(got.Skipped[0].Reason, tt.reason) {
					t.Errorf("skipped %v, want line 2: …%s…", got.Skipped, tt.reason)
				}
				if len(got.Skipped) == 1 && len(got.Skipped[0].Reason) > 300 {
					t.Errorf("a reason of %d bytes", len(got.Skipped[0].Reason))
				}
				want := []string{"first"}
				if len(end) > 1 {
					want = append(want, "last")
				}
				if ids := ids(got.Valid); !slices.Equal(ids, want) {
					t.Errorf("the orders are %q, want %q", ids, want)
				}
			}
		})
	}
}

func ids(orders []shop.Order) []string {
	var s []string
	for _, o := range orders {
		s = append(s, o.ID)
	}
	return s
}

// An order that was skipped does not keep its id from a later one.
func TestReadOrdersSkippedLineTakesNoID(t *testing.T) {
	t.Parallel()
	got, err := shop.ReadOrders(strings.NewReader(line("card", `"visa"`) + "\n" + line() + "\n" + line()))
	if err != nil || len(got.Valid) != 1 || len(got.Skipped) != 2 {
		t.Fatalf("ReadOrders gave %+v, %v", got, err)
	}
	if want := `line 3 skipped: repeats the order "o-1" of line 2`; got.Skipped[1].String() != want {
		t.Errorf("skipped: %v, want %s", got.Skipped[1], want)
	}
}

func TestReadOrdersReportsABrokenFile(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader(line()+"\n"), iotest.ErrReader(broken))
	if _, err := shop.ReadOrders(r); !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("ReadOrders: %v", err)
	}
	if _, err := shop.ReadOrdersFile("no-such-file.jsonl"); err == nil || !strings.Contains(err.Error(), "no-such-file.jsonl") {
		t.Errorf("ReadOrdersFile: %v", err)
	}
}

// The example is fit to be the demo's default: some hundred orders, all valid, with
// every kind of card and the odd ones that it promises.
func TestExampleOrders(t *testing.T) {
	t.Parallel()
	got, err := shop.ReadOrders(bytes.NewReader(example.Orders))
	if err != nil || len(got.Skipped) > 0 {
		t.Fatalf("ReadOrders: %v, skipped %v", err, got.Skipped)
	}
	if n := len(got.Valid); n < 300 {
		t.Errorf("%d orders, want 300 at least", n)
	}
	cards, currencies := map[shop.Card]int{}, map[string]bool{}
	for _, o := range got.Valid {
		cards[o.Card]++
		currencies[o.Currency] = true
	}
	if len(cards) != 3 || len(currencies) < 3 {
		t.Errorf("cards %v, currencies %v: want 3 kinds of either at least", cards, currencies)
	}
	for what, is := range map[string]func(shop.Order) bool{
		"zero amount":    func(o shop.Order) bool { return o.AmountCents == 0 },
		"largest amount": func(o shop.Order) bool { return o.AmountCents == math.MaxInt64 },
		"slash in an id": func(o shop.Order) bool { return strings.Contains(o.ID, "/") },
		"space in an id": func(o shop.Order) bool { return strings.Contains(o.ID, " ") },
		"emoji in an id": func(o shop.Order) bool { return strings.Contains(o.ID, "😀") },
		"512 bytes":      func(o shop.Order) bool { return len(o.ID) == 512 },
		"order 42":       func(o shop.Order) bool { return o.ID == "order-42" },
	} {
		if !slices.ContainsFunc(got.Valid, is) {
			t.Errorf("no order with: %s", what)
		}
	}
}

func FuzzReadOrders(f *testing.F) {
	f.Add([]byte(line() + "\n" + line("id", `"🎁"`) + "\nx\n"))
	f.Add([]byte("\ufeff" + line() + "\r\n\r\nnull"))
	f.Fuzz(func(t *testing.T, file []byte) {
		got, err := shop.ReadOrders(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if n, lines := len(got.Valid)+len(got.Skipped), bytes.Count(file, []byte("\n"))+1; n > lines {
			t.Errorf("%d orders and skipped lines of a file of %d lines", n, lines)
		}
		seen := map[string]bool{}
		for _, o := range got.Valid {
			if seen[o.ID] || o.ID == "" || o.AmountCents < 0 || len(o.Currency) != 3 {
				t.Errorf("order %+v", o)
			}
			seen[o.ID] = true
		}
	})
}
