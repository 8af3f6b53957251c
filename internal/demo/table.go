package demo

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable renders the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintln(&b)
	for _, row := range r.rows() {
		fmt.Fprintf(&b, "  %-22s %6d   %s\n", row.what, row.count, row.meaning)
	}
	if err := r.writeRefused(&b); err != nil {
		return err
	}
	fmt.Fprintln(&b)
	if r.Ledger != "" {
		fmt.Fprintf(&b, "The provider's ledger is %s, a line of JSON for each attempt and each charge.\n", r.Ledger)
	} else {
		fmt.Fprintln(&b, "To check the provider's ledger yourself, keep it: --ledger FILE.")
	}
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "PROBLEM: %s\n", p)
	}
	fmt.Fprintln(&b, r.verdict())
	_, err := w.Write(b.Bytes())
	return err
}

type row struct {
	what    string
	count   int
	meaning string
}

func (r *Report) rows() []row {
	rows := []row{
		{"orders", r.Orders, fmt.Sprintf("for %d workers; %s was killed, %s frozen and woken", r.Workers, or(r.Killed, "none"), or(r.Frozen, "none"))},
		{"  completed", r.Completed, "with a receipt"},
		{"  failed", r.Failed, "the card was declined"},
		{"charge attempts", r.ChargeAttempts, "requests to the payment provider, those included that it declined, failed or had answered before"},
		{"charges", r.Charges, "times that money moved, by the provider's ledger"},
		{"takeovers", r.Takeovers, fmt.Sprintf("an order claimed again, after its worker's lease of %s had expired", r.Lease)},
		{"late writes refused", len(r.RefusedWrites), "steps, renewals, releases and acknowledgements of a worker that had been taken over"},
		{"stale writes accepted", r.AcceptedStaleWrites, "counted by a watch of every revision of etcd"},
	}
	if r.SkippedLines > 0 {
		rows = append(rows, row{"lines skipped", r.SkippedLines, "of the orders file; see above"})
	}
	return rows
}

// writeRefused lists the refused writes with both tokens.
func (r *Report) writeRefused(b *bytes.Buffer) error {
	if len(r.RefusedWrites) == 0 {
		return nil
	}
	fmt.Fprintln(b, "\nLate writes that etcd refused: each carried the token of its own claim, and a newer claim had made another one current.")
	t := tabwriter.NewWriter(b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "  order\toperation\tworker\ttoken carried\ttoken current")
	for _, w := range r.RefusedWrites {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%d\t%d\n", name(string(w.ExecutionID)), w.Operation, w.Worker, w.Carried, w.Current)
	}
	return t.Flush()
}

// verdict says in one line what the demo has shown.
func (r *Report) verdict() string {
	if !r.OK() {
		return fmt.Sprintf("FAILED: %d problems, listed above.", len(r.Problems))
	}
	return "OK: every order has one outcome, no card was charged twice, and no write of a worker that had been taken over was accepted."
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
