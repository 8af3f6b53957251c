package shop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// An EntryKind says what a line of the ledger records.
type EntryKind string

// The kinds of entry. An attempt that charges a card writes both, the attempt first.
const (
	EntryAttempt EntryKind = "attempt" // a request that reached the provider
	EntryCharge  EntryKind = "charge"  // money that moved
)

// An Answer is what the provider makes of an attempt.
type Answer string

// The answers.
const (
	AnswerCharged     Answer = "charged"     // the card was charged
	AnswerRepeated    Answer = "repeated"    // the key's charge was there already: its receipt again, no money moved
	AnswerDeclined    Answer = "declined"    // the card is refused, for good
	AnswerUnavailable Answer = "unavailable" // try again
	AnswerMismatch    Answer = "mismatch"    // the key belongs to another charge
)

// An Entry is one line of the ledger, a JSON object.
type Entry struct {
	Kind           EntryKind `json:"kind"`
	At             time.Time `json:"at"`
	OrderID        string    `json:"orderId"`
	IdempotencyKey string    `json:"idempotencyKey"`
	Invoice        string    `json:"invoice"`
	AmountCents    int64     `json:"amountCents"`
	Currency       string    `json:"currency"`
	Worker         string    `json:"worker"` // who asked
	Token          int64     `json:"token"`  // the fencing token that it carried
	Answer         Answer    `json:"answer"`
	ChargeID       string    `json:"chargeId,omitempty"` // of the charge, or of the one that was repeated
}

// sameCharge says whether two entries ask for the same thing.
func (e Entry) sameCharge(o Entry) bool {
	return e.OrderID == o.OrderID && e.Invoice == o.Invoice && e.AmountCents == o.AmountCents && e.Currency == o.Currency
}

// A Ledger is a file of entries that only ever grows. An entry that Append has
// returned for is on the disk. The file is locked as long as the ledger is open, so
// that two providers never write to one: each would know its own charges only.
type Ledger struct {
	mu   sync.Mutex
	file *os.File
}

// CreateLedger makes a new ledger. A file that holds anything is refused, so that
// no ledger is ever mixed up with that of another run, and so is one that is open.
func CreateLedger(path string) (*Ledger, error) {
	f, err := openLocked(path, lockFile)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		err = errors.New("the file is not empty; name a new one, or move it away")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ledger %s: %w", path, err), f.Close())
	}
	return &Ledger{file: f}, nil
}

// OpenLedger opens a ledger to go on with it, or makes a new one, and returns
// what it holds. The rest of an entry at its end whose writing was cut short,
// which nobody was told of, is removed. A ledger that is open is refused.
func OpenLedger(path string) (*Ledger, []Entry, error) {
	return resume(path, lockFile)
}

// ShareLedger is [OpenLedger] for the child of a process that has the ledger open
// for it, and writes nothing to it.
func ShareLedger(path string) (*Ledger, []Entry, error) {
	return resume(path, func(*os.File) error { return nil })
}

func resume(path string, lock func(*os.File) error) (*Ledger, []Entry, error) {
	f, err := openLocked(path, lock)
	if err != nil {
		return nil, nil, err
	}
	entries, err := recoverEntries(f)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("ledger %s: %w", path, err), f.Close())
	}
	return &Ledger{file: f}, entries, nil
}

var errLedgerInUse = errors.New("another provider or demo writes to it; stop that one, or name another file")

func openLocked(path string, lock func(*os.File) error) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("ledger %s: %w", path, err), f.Close())
	}
	return f, nil
}

func recoverEntries(f *os.File) ([]Entry, error) {
	all, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	whole := all[:bytes.LastIndexByte(all, '\n')+1]
	entries, err := readEntries(bytes.NewReader(whole))
	if err == nil && len(whole) < len(all) {
		err = f.Truncate(int64(len(whole)))
	}
	return entries, err
}

// ReadLedger reads a ledger that nobody writes any more.
func ReadLedger(path string) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	defer f.Close()
	entries, err := readEntries(f)
	if err != nil {
		return nil, fmt.Errorf("ledger %s: %w", path, err)
	}
	return entries, nil
}

func readEntries(r io.Reader) ([]Entry, error) {
	var entries []Entry
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		d := json.NewDecoder(bytes.NewReader(s.Bytes()))
		d.DisallowUnknownFields()
		var e Entry
		if err := d.Decode(&e); err != nil {
			return nil, fmt.Errorf("line %d is not an entry: %w", len(entries)+1, err)
		}
		if e.Kind != EntryAttempt && e.Kind != EntryCharge {
			return nil, fmt.Errorf("line %d is not an entry: its kind is %q", len(entries)+1, e.Kind)
		}
		entries = append(entries, e)
	}
	return entries, s.Err()
}

// Append writes the entries, one after the other, and makes them durable.
func (l *Ledger) Append(entries ...Entry) error {
	var lines []byte
	for _, e := range entries {
		line, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		lines = append(append(lines, line...), '\n')
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(lines); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	if err := l.file.Sync(); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// Close closes the file.
func (l *Ledger) Close() error { return l.file.Close() }
