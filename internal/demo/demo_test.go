package demo_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A result is what --json prints, read anew.
type result struct {
	Orders, Completed, Failed, ChargeAttempts, Charges, Takeovers *int
	RefusedWrites                                                 []struct {
		ExecutionID, Operation string
		Carried, Current       *int64
	}
	AcceptedStaleWrites, SkippedLines *int
}

// resultOf reads the last line of the output: every field there, none besides.
func resultOf(t *testing.T, p *program) result {
	t.Helper()
	out := bytes.TrimRight(p.stdout.Bytes(), "\n")
	line := out[bytes.LastIndexByte(out, '\n')+1:]
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	var r result
	if err := d.Decode(&r); err != nil {
		t.Fatalf("the last line is %s: %v", line, err)
	}
	for _, field := range []*int{r.Orders, r.Completed, r.Failed, r.ChargeAttempts, r.Charges, r.Takeovers, r.AcceptedStaleWrites, r.SkippedLines} {
		if field == nil {
			t.Fatalf("a field is missing: %s", line)
		}
	}
	for _, w := range r.RefusedWrites {
		if w.ExecutionID == "" || w.Operation == "" || w.Carried == nil || w.Current == nil || *w.Current <= *w.Carried {
			t.Errorf("a refused write: %s", line)
		}
	}
	return r
}

// A book is the ledger, read by hand.
type book struct {
	attempts int
	charges  map[string]string // order → amount and currency, one line a charge
}

func bookOf(t *testing.T, path string) book {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b := book{charges: map[string]string{}}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(content), "\n"), "\n") {
		var e struct {
			Kind, OrderID, Currency string
			AmountCents             json.Number
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("the ledger's line %s: %v", line, err)
		}
		switch e.Kind {
		case "attempt":
			b.attempts++
		case "charge":
			b.charges[e.OrderID] += fmt.Sprintf("%s %s\n", e.AmountCents, e.Currency)
		default:
			t.Errorf("the ledger's line %s has an unknown kind", line)
		}
	}
	return b
}

// A play is a demo with its result and its ledger.
func demo(t *testing.T, orders string, args ...string) (p *program, status int, r result, b book) {
	t.Helper()
	ledger := filepath.Join(t.TempDir(), "ledger.jsonl")
	p, status = run(t, append([]string{"demo", "--json", "--lease=2s", "--orders=" + orders, "--ledger=" + ledger}, args...)...)
	return p, status, resultOf(t, p), bookOf(t, ledger)
}

// check compares the result with what the orders should lead to, and with the ledger.
func check(t *testing.T, r result, b book, completed, failed, skipped int) {
	t.Helper()
	if *r.Orders != completed+failed || *r.Completed != completed || *r.Failed != failed || *r.SkippedLines != skipped {
		t.Errorf("%d orders, %d completed, %d failed, %d lines skipped; want %d, %d, %d and %d",
			*r.Orders, *r.Completed, *r.Failed, *r.SkippedLines, completed+failed, completed, failed, skipped)
	}
	if *r.ChargeAttempts != b.attempts || *r.Charges != len(b.charges) || *r.Charges != completed || *r.ChargeAttempts <= *r.Charges {
		t.Errorf("%d attempts and %d charges; on the ledger %d and %d", *r.ChargeAttempts, *r.Charges, b.attempts, len(b.charges))
	}
	if *r.Takeovers < 2 || len(r.RefusedWrites) < 1 || *r.AcceptedStaleWrites != 0 {
		t.Errorf("%d takeovers, %d refused writes, %d accepted stale ones", *r.Takeovers, len(r.RefusedWrites), *r.AcceptedStaleWrites)
	}
}

func TestDemoOfTwelveOrders(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"a": "1 EUR\n", "a/b": "2 EUR\n", "../x y": "3 EUR\n", "🎁": "0 EUR\n", "zero": "0 EUR\n",
		"huge": fmt.Sprintf("%d EUR\n", int64(math.MaxInt64)), "注文": "4 EUR\n", "flaky": "5 EUR\n", "flaky free": "0 EUR\n",
	}
	p, status, r, b := demo(t, file(t,
		order("a", 1, "ok"), order("a/b", 2, "ok"), order("declined", 9, "declined"), order("../x y", 3, "ok"),
		`{"id":"broken","amountCents":`,
		order("🎁", 0, "ok"), order("zero", 0, "ok"), order("huge", math.MaxInt64, "ok"), "", order("注文", 4, "ok"),
		order("flaky", 5, "flaky2"), order("flaky free", 0, "flaky2"), order("no", 0, "declined"), order("no/more", 7, "declined"),
	))
	if status != 3 {
		t.Errorf("exit status %d, want 3: a line was skipped", status)
	}
	if !strings.Contains(p.log(), "line 5 skipped: is not one JSON object") {
		t.Error("the malformed line is not named")
	}
	check(t, r, b, 9, 3, 1)
	for id, charges := range want {
		if b.charges[id] != charges {
			t.Errorf("order %q was charged %q, want %q", id, b.charges[id], charges)
		}
	}
	for _, said := range []string{"SIGKILL", "SIGSTOP", "SIGCONT", "takeover: ", "refused: ", "lease is 2s"} {
		if !strings.Contains(p.log(), said) {
			t.Errorf("nothing was said of %q", said)
		}
	}
	if out := p.stdout.String(); !strings.Contains(out, "token carried") || !strings.Contains(out, "OK: every order has one outcome") {
		t.Error("the table is not all there")
	}
}

// Two demos, one after the other, in one data directory: of a single order, and of
// orders that are all declined.
func TestDemoOfFewOrders(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	_, status, r, b := demo(t, file(t, order("only", 42, "ok")), "--data-dir="+data)
	if status != 0 {
		t.Errorf("one order: exit status %d, want 0", status)
	}
	check(t, r, b, 1, 0, 0)
	_, status, r, b = demo(t, file(t, order("only", 42, "declined"), order("another", 0, "declined")), "--data-dir="+data)
	if status != 0 {
		t.Errorf("declined orders: exit status %d, want 0", status)
	}
	check(t, r, b, 0, 2, 0)
}

// A ledger is one demo's at a time, also before it holds anything.
func TestDemoRefusesTheLedgerOfAnother(t *testing.T) {
	t.Parallel()
	ledger := filepath.Join(t.TempDir(), "ledger.jsonl")
	first := start(t, "demo", "--ledger="+ledger)
	first.await(t, "etcd: in this process")
	for _, args := range [][]string{{"demo", "--ledger=" + ledger}, {"provider", "--listen=127.0.0.1:0", "--ledger=" + ledger}} {
		p, status := run(t, args...)
		if status != 1 || !strings.Contains(p.log(), "another provider or demo writes to it") && !strings.Contains(p.log(), "is not empty") {
			t.Errorf("%s: exit status %d, want 1 and that the ledger is in use", args[0], status)
		}
		p.leavesNothing(t)
	}
}

// A demo that is ended at once takes its temporary files with it.
func TestSecondInterruptOfADemoLeavesNoFiles(t *testing.T) {
	t.Parallel()
	p := start(t, "demo", "--lease=5s")
	p.await(t, "FREEZE")
	p.signal(t, syscall.SIGINT)
	p.await(t, "another Ctrl-C")
	p.signal(t, syscall.SIGINT)
	if status := p.exit(t); status != 130 && status != 1 { // 1: it had ended before
		t.Errorf("exit status %d, want 130", status)
	}
	p.leavesNothing(t)
}

// What can't work is refused before anything is started.
func TestDemoRefuses(t *testing.T) {
	t.Parallel()
	full := file(t, "somebody's own ledger")
	bad := file(t, "nonsense", order("a", -1, "ok"))
	tests := []struct {
		name   string
		args   []string
		status int
		says   string
	}{
		{"no valid order", []string{"--orders=" + bad}, 1, "holds no valid order"},
		{"no such file", []string{"--orders=" + bad + "x"}, 1, "orders.jsonlx"},
		{"a ledger that is in use", []string{"--ledger=" + full}, 1, "is not empty"},
		{"two workers", []string{"--workers=2"}, 2, "want 3 at least"},
		{"no workers", []string{"--workers=0"}, 2, "--workers 0: want more than 0"},
		{"no concurrency", []string{"--concurrency=0"}, 2, "--concurrency 0: want more than 0"},
		{"no lease", []string{"--lease=0s"}, 2, "--lease 0s: want more than 0"},
		{"no orders file", []string{"--orders="}, 2, "--orders is empty"},
		{"a data directory that is a file", []string{"--data-dir=" + full}, 1, "can't be made"},
		{"a short lease", []string{"--lease=10ms"}, 2, "want at least 1s"},
		{"an unknown flag", []string{"--no-fencing"}, 2, "unknown flag"},
		{"an argument", []string{"orders.jsonl"}, 2, "orders.jsonl"},
	}
	t.Cleanup(func() {
		if content, err := os.ReadFile(full); err != nil || string(content) != "somebody's own ledger\n" {
			t.Errorf("the ledger that was refused holds %q (%v)", content, err)
		}
	})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, status := run(t, append([]string{"demo"}, tt.args...)...)
			if status != tt.status || !strings.Contains(p.log(), tt.says) || p.stdout.Len() > 0 {
				t.Errorf("exit status %d, want %d and %q", status, tt.status, tt.says)
			}
			if strings.Contains(p.log(), "etcd: in this process") {
				t.Error("etcd was started")
			}
			p.leavesNothing(t)
		})
	}
}
