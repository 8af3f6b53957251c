package shop_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/shop"
)

func entry(kind shop.EntryKind, id string) shop.Entry {
	return shop.Entry{
		Kind: kind, At: time.Date(2026, 5, 1, 12, 0, 0, 7, time.UTC), OrderID: id, IdempotencyKey: "k-" + id, Invoice: "INV-1",
		AmountCents: 9007199254740993, Currency: "EUR", Worker: "worker-1", Token: 12, Answer: shop.AnswerCharged, ChargeID: "ch_1",
	}
}

func TestLedgerKeepsWhatWasAppended(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := shop.CreateLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []shop.Entry{entry(shop.EntryAttempt, "🎁/a b\n"), entry(shop.EntryCharge, "🎁/a b\n"), entry(shop.EntryAttempt, "<&>")}
	if err := l.Append(want[:2]...); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(want[2]); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := shop.ReadLedger(path); err != nil || !slices.Equal(got, want) {
		t.Errorf("ReadLedger gave %+v, %v", got, err)
	}
	if err := l.Append(want[0]); err == nil {
		t.Error("a closed ledger took an entry")
	}
}

// The words of a line are the ones that the demo's help promises.
func TestLedgerLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := shop.CreateLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Append(entry(shop.EntryCharge, "order-42")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	want := `{"kind":"charge","at":"2026-05-01T12:00:00.000000007Z","orderId":"order-42","idempotencyKey":"k-order-42","invoice":"INV-1",` +
		`"amountCents":9007199254740993,"currency":"EUR","worker":"worker-1","token":12,"answer":"charged","chargeId":"ch_1"}` + "\n"
	if err != nil || string(got) != want {
		t.Errorf("the ledger holds %s (%v), want %s", got, err, want)
	}
}

func TestCreateLedger(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct{ name, path, refusal string }{
		{"new", filepath.Join(dir, "new"), ""},
		{"empty", write("empty", ""), ""},
		{"not empty", write("full", "precious\n"), "is not empty"},
		{"directory", dir, "directory"},
		{"no directory", filepath.Join(dir, "none", "ledger"), "none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := shop.CreateLedger(tt.path)
			if err == nil {
				l.Close()
			}
			if tt.refusal == "" && err != nil || tt.refusal != "" && (err == nil || !strings.Contains(err.Error(), tt.refusal)) {
				t.Errorf("CreateLedger: %v, want %q", err, tt.refusal)
			}
		})
	}
	if got, err := os.ReadFile(filepath.Join(dir, "full")); err != nil || string(got) != "precious\n" {
		t.Errorf("the refused file holds %q (%v)", got, err)
	}
}

// Whoever has a ledger open has it alone, but for a child that it shares it with.
func TestLedgerIsLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := shop.CreateLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := shop.CreateLedger(path); err == nil || !strings.Contains(err.Error(), path+": another provider or demo writes to it") {
		t.Errorf("CreateLedger of an open ledger gave %v, %v", other, err)
	}
	if other, _, err := shop.OpenLedger(path); err == nil || !strings.Contains(err.Error(), "another provider or demo writes to it") {
		t.Errorf("OpenLedger of an open ledger gave %v, %v", other, err)
	}
	shared, _, err := shop.ShareLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []*shop.Ledger{shared, l} {
		if err := open.Close(); err != nil {
			t.Error(err)
		}
	}
	l, _, err = shop.OpenLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}

func TestOpenLedgerGoesOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, past, err := shop.OpenLedger(path)
	if err != nil || len(past) != 0 {
		t.Fatalf("OpenLedger gave %v, %v", past, err)
	}
	if err := l.Append(entry(shop.EntryAttempt, "a")); err != nil {
		t.Fatal(err)
	}
	l.Close()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"kind":"charge","at":"20`); err != nil { // power cut
		t.Fatal(err)
	}
	f.Close()
	l, past, err = shop.OpenLedger(path)
	if err != nil || !slices.Equal(past, []shop.Entry{entry(shop.EntryAttempt, "a")}) {
		t.Fatalf("OpenLedger gave %v, %v", past, err)
	}
	if err := l.Append(entry(shop.EntryCharge, "a")); err != nil {
		t.Fatal(err)
	}
	l.Close()
	if got, err := shop.ReadLedger(path); err != nil || len(got) != 2 {
		t.Errorf("ReadLedger gave %v, %v", got, err)
	}
}

func TestReadLedgerNamesABadLine(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"{", `{"kind":"gift"}`, `{"kind":"charge","tip":1}`} {
		path := filepath.Join(t.TempDir(), "ledger.jsonl")
		if err := os.WriteFile(path, []byte(`{"kind":"charge"}`+"\n"+bad+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := shop.ReadLedger(path); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("ReadLedger of %s: %v", bad, err)
		}
		if _, _, err := shop.OpenLedger(path); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("OpenLedger of %s: %v", bad, err)
		}
	}
}

func TestLedgerTakesManyAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.jsonl")
	l, err := shop.CreateLedger(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := l.Append(entry(shop.EntryAttempt, "a"), entry(shop.EntryCharge, "a")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := shop.ReadLedger(path)
	if err != nil || len(got) != 40 {
		t.Fatalf("ReadLedger gave %d entries, %v", len(got), err)
	}
	for i := 0; i < len(got); i += 2 {
		if got[i].Kind != shop.EntryAttempt || got[i+1].Kind != shop.EntryCharge {
			t.Errorf("entries %d and %d are %s and %s", i, i+1, got[i].Kind, got[i+1].Kind)
		}
	}
}
