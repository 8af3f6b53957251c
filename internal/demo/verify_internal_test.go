package demo

// Inside the package: see script_internal_test.go.

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast"
	"github.com/holdfast-io/holdfast/internal/audit"
	"github.com/holdfast-io/holdfast/internal/shop"
)

// A world is what verify looks at: two orders, one charged after a repeat, one declined.
type world struct {
	orders     []shop.Order
	outcomes   map[string]outcome
	entries    []shop.Entry
	violations []audit.Violation
	report     Report
}

func newWorld() *world {
	charge := shop.Entry{
		Kind: shop.EntryCharge, OrderID: "paid", IdempotencyKey: "k1", Invoice: "INV-1", AmountCents: 42, Currency: "EUR",
		Worker: "a", Token: 7, Answer: shop.AnswerCharged, ChargeID: "ch_1",
	}
	first, repeat := charge, charge
	first.Kind, repeat.Kind, repeat.Answer, repeat.Worker, repeat.Token = shop.EntryAttempt, shop.EntryAttempt, shop.AnswerRepeated, "b", 9
	return &world{
		orders: []shop.Order{
			{ID: "paid", AmountCents: 42, Currency: "EUR", Card: shop.CardOK},
			{ID: "refused", AmountCents: 1, Currency: "EUR", Card: shop.CardDeclined},
		},
		outcomes: map[string]outcome{
			"paid":    {receipt: shop.Receipt{OrderID: "paid", Invoice: "INV-1", ChargeID: "ch_1", AmountCents: 42, Currency: "EUR"}},
			"refused": {failure: &holdfast.FailedError{ID: "refused", Message: "the card was declined", Code: shop.CodeDeclined}},
		},
		entries: []shop.Entry{first, charge, repeat, {Kind: shop.EntryAttempt, OrderID: "refused", IdempotencyKey: "k2", Answer: shop.AnswerDeclined}},
		report: Report{
			Takeovers: 1, Killed: "c", Frozen: "a", Workers: 3, Lease: "3s",
			RefusedWrites: []RefusedWrite{{ExecutionID: "paid", Operation: "writeStep", Carried: 7, Current: 9, Worker: "a"}},
		},
	}
}

func (w *world) verify() *Report {
	w.report.verify(w.orders, w.outcomes, w.entries)
	w.report.verifyPlay(w.violations)
	return &w.report
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*world)
		want   string // part of a problem; empty: there is none
	}{
		{"nothing is wrong", func(*world) {}, ""},
		{"no outcome", func(w *world) { delete(w.outcomes, "paid") }, `"paid" has no outcome`},
		{"failed for another reason", func(w *world) { w.outcomes["refused"].failure.Code = "" }, `"refused" failed: the card was declined`},
		{"declined although it works", func(w *world) { w.orders[1].Card = shop.CardFlaky }, "with a card that works"},
		{"completed although declined", func(w *world) { w.orders[0].Card = shop.CardDeclined }, "with a card that is declined"},
		{"charged twice", func(w *world) { w.entries = append(w.entries, w.entries[:2]...) }, `"paid" has 2 charges on the ledger, not 1`},
		{"never charged", func(w *world) { w.entries = w.entries[2:] }, `"paid" has 0 charges on the ledger, not 1`},
		{"not on the ledger at all", func(w *world) { w.entries = w.entries[3:] }, `"paid" has 0 charges`},
		{"charged although declined", func(w *world) { w.entries[1].OrderID = "refused" }, `"refused" has 1 charges on the ledger, not 0`},
		{"charged another amount", func(w *world) { w.entries[1].AmountCents = 43 }, "43 EUR was charged"},
		{"charged in another currency", func(w *world) { w.entries[1].Currency = "USD" }, "42 USD was charged"},
		{"receipt of another charge", func(w *world) { w.entries[1].ChargeID = "ch_2" }, "differ"},
		{"two keys", func(w *world) { w.entries[2].IdempotencyKey = "k3" }, "under 2 idempotency keys"},
		{"a charge without an attempt", func(w *world) { w.entries = w.entries[1:2] }, "more charges (1) than attempts (0)"},
		{"a stranger on the ledger", func(w *world) { w.entries[3].OrderID = "x" }, `entries for "x", which is no order`},
		{"nobody killed", func(w *world) { w.report.Killed = "" }, "no worker was killed"},
		{"nobody frozen", func(w *world) { w.report.Frozen = "" }, "no worker was frozen"},
		{"no takeover", func(w *world) { w.report.Takeovers = 0 }, "no order was taken over"},
		{"no refusal", func(w *world) { w.report.RefusedWrites = nil }, "no late write of the frozen worker"},
		{"refusal of another", func(w *world) { w.report.RefusedWrites[0].Worker = "b" }, "no late write of the frozen worker"},
		{"refused although current", func(w *world) { w.report.RefusedWrites[0].Current = 7 }, "although it carried token 7 and 7 was current"},
		{"stale write accepted", func(w *world) { w.report.AcceptedStaleWrites = 2 }, "accepted 2 stale writes"},
		{"violation", func(w *world) { w.violations = []audit.Violation{{Invariant: audit.I5, ID: "paid"}} }, "violates an invariant: I5"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			tt.change(w)
			r := w.verify()
			all := strings.Join(r.Problems, "\n")
			if r.OK() != (tt.want == "") || !strings.Contains(all, tt.want) {
				t.Errorf("problems:\n%s\nwant one with %q", all, tt.want)
			}
			var b bytes.Buffer
			if err := r.WriteTable(&b); err != nil {
				t.Fatal(err)
			}
			if verdict := b.String(); strings.Contains(verdict, "OK: every order") != r.OK() || !strings.Contains(verdict, all[:min(len(all), 20)]) {
				t.Errorf("the table says:\n%s", verdict)
			}
		})
	}
}

func TestReportForPeople(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.report.SkippedLines, w.report.Ledger = 1, "ledger.jsonl"
	var b bytes.Buffer
	if err := w.verify().WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	const want = `
  orders                      2   for 3 workers; c was killed, a frozen and woken
    completed                 1   with a receipt
    failed                    1   the card was declined
  charge attempts             3   requests to the payment provider, those included that it declined, failed or had answered before
  charges                     1   times that money moved, by the provider's ledger
  takeovers                   1   an order claimed again, after its worker's lease of 3s had expired
  late writes refused         1   steps, renewals, releases and acknowledgements of a worker that had been taken over
  stale writes accepted       0   counted by a watch of every revision of etcd
  lines skipped               1   of the orders file; see above

Late writes that etcd refused: each carried the token of its own claim, and a newer claim had made another one current.
  order    operation   worker   token carried   token current
  "paid"   writeStep   a        7               9

The provider's ledger is ledger.jsonl, a line of JSON for each attempt and each charge.
OK: every order has one outcome, no card was charged twice, and no write of a worker that had been taken over was accepted.
`
	if b.String() != want {
		t.Errorf("the table is:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestReportForPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.report.SkippedLines = 4
	line, err := w.verify().JSON()
	const want = `{"orders":2,"completed":1,"failed":1,"chargeAttempts":3,"charges":1,"takeovers":1,` +
		`"refusedWrites":[{"executionId":"paid","operation":"writeStep","carried":7,"current":9}],"acceptedStaleWrites":0,"skippedLines":4}`
	if err != nil || string(line) != want {
		t.Errorf("the JSON is %s (%v), want %s", line, err, want)
	}
	line, err = new(Report).JSON()
	if err != nil || !json.Valid(line) || !strings.Contains(string(line), `"refusedWrites":[]`) {
		t.Errorf("an empty report is %s (%v)", line, err)
	}
}

func TestNameIsFitForALine(t *testing.T) {
	t.Parallel()
	tests := []struct{ id, want string }{
		{"order-42", `"order-42"`},
		{"a\nb\t", `"a\nb\t"`},
		{strings.Repeat("x", 32), `"` + strings.Repeat("x", 32) + `"`},
		{strings.Repeat("😀", 33), `"` + strings.Repeat("😀", 31) + `…"`},
	}
	for _, tt := range tests {
		if got := name(tt.id); got != tt.want {
			t.Errorf("name(%q) = %s, want %s", tt.id, got, tt.want)
		}
	}
}
