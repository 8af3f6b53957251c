package leasing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// numbered asks for n executions, the ids of which begin with the prefix.
func numbered(prefix string, n int) []execution.AdmitRequest {
	reqs := make([]execution.AdmitRequest, n)
	for i := range reqs {
		reqs[i] = execution.AdmitRequest{ID: execution.ID(fmt.Sprintf("%s%05d", prefix, i)), Workflow: "w", Params: json.RawMessage(fmt.Sprint(i))}
	}
	return reqs
}

// admitMany admits, and returns the answers and how many transactions that took.
func (w *world) admitMany(reqs []execution.AdmitRequest) (answers []leasing.AdmitAnswer, txns int) {
	w.t.Helper()
	w.hook.BeforeTxn = func(txn *etcd.Txn) error {
		outer, inner := len(txn.Then), 0
		for _, op := range txn.Then {
			if nested, is := op.(*etcd.Txn); is {
				inner = max(inner, len(nested.If), len(nested.Then), len(nested.Else))
			}
		}
		if outer+inner > 128 {
			w.t.Errorf("a transaction of %d operations, with %d in the largest", outer, inner)
		}
		txns++
		return nil
	}
	defer func() { w.hook.BeforeTxn = nil }()
	answers, err := w.AdmitMany(w.t.Context(), reqs)
	if err != nil || len(answers) != len(reqs) {
		w.t.Fatalf("%d answers, %v", len(answers), err)
	}
	return answers, txns
}

func TestAdmitMany(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	reqs := numbered("x", 1000)
	reqs[7].ID = ""
	answers, txns := w.admitMany(reqs)
	if txns != 9 { // of up to 124
		t.Errorf("%d transactions", txns)
	}
	for i, a := range answers {
		if a.Err != nil || a.Existing || a.ID == "" || i != 7 && a.ID != reqs[i].ID {
			t.Fatalf("answer %d: %+v", i, a)
		}
		if rec := w.get(a.ID); string(rec.Params) != fmt.Sprint(i) || rec.Status != execution.StatusAdmitted || rec.Due.IsZero() {
			t.Fatalf("execution %d: %+v", i, rec)
		}
	}
	answers, _ = w.admitMany(reqs)
	for i, a := range answers {
		if a.Err != nil || a.Existing != (i != 7) {
			t.Fatalf("admitted again: answer %d: %+v", i, a)
		}
	}
	if d := w.claim(reqs[999].ID); string(d.Params) != "999" {
		t.Errorf("delivered %+v", d)
	}
}

func TestAdmitManyAnswersEach(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("there") // with other params
	w.finished("x", 3, 3)
	if w.interrupt(3, true); !strings.Contains(strings.Join(w.left(), "\n"), "/purging/") {
		t.Fatal("no deletion was begun")
	}
	reqs := numbered("n", 12)
	reqs[1].ID = "there"
	reqs[2].ID = "a\x00b"
	reqs[3].Params = json.RawMessage(`{`)
	reqs[4].ID = reqs[0].ID // with other params
	reqs[5] = reqs[0]
	reqs[6].Workflow = ""
	reqs[7].ID = "x"
	reqs[8].Timeout = -1
	answers, _ := w.admitMany(reqs)
	for i, a := range answers {
		switch i {
		case 1, 4:
			if !errors.Is(a.Err, execution.ErrConflict) {
				t.Errorf("answer %d: %+v, want a conflict", i, a)
			}
		case 2, 3, 6, 8:
			if _, invalid := errors.AsType[*execution.InvalidError](a.Err); !invalid {
				t.Errorf("answer %d: %+v, want that it is invalid", i, a)
			}
		default:
			if a.Err != nil || a.Existing != (i == 5) || a.ID != reqs[i].ID {
				t.Errorf("answer %d: %+v", i, a)
			}
		}
	}
	if rec := w.get("x"); string(rec.Params) != "7" || rec.Status != execution.StatusAdmitted {
		t.Errorf("the one whose predecessor was being deleted: %+v", rec)
	}
}

// Params that are large make the parts smaller.
func TestAdmitManyOfLargeParams(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	reqs := numbered("x", 8)
	for i := range reqs {
		reqs[i].Params = json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)
	}
	reqs[2].Params = json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	answers, txns := w.admitMany(reqs)
	for i, a := range answers {
		if a.Err != nil {
			t.Errorf("answer %d: %v", i, a.Err)
		}
	}
	if txns != 4 { // 2, 1, 3 and 2
		t.Errorf("%d transactions", txns)
	}
}

// An etcd with lower limits than the default refuses: then the parts are smaller.
func TestAdmitManyWithLowerLimits(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.hook.BeforeTxn = func(txn *etcd.Txn) error {
		if len(txn.Then) > 10 {
			return etcd.ErrTooManyOps
		}
		for _, op := range txn.Then {
			if one, is := op.(*etcd.Txn); is && one.If[0].Key == w.space.State("x00003") {
				return etcd.ErrTooLarge
			}
		}
		return nil
	}
	reqs := numbered("x", 50)
	answers, err := w.AdmitMany(t.Context(), reqs)
	w.hook.BeforeTxn = nil
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if i == 3 != errors.Is(a.Err, etcd.ErrTooLarge) || i != 3 && (a.Err != nil || !w.there(reqs[i].ID)) {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
}

// Whatever is not answered is asked for again, and admitted once.
func TestAdmitManyIsCutShort(t *testing.T) {
	for name, applied := range map[string]bool{"before the second part": false, "after the second part": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, time.Millisecond)
			reqs := numbered("x", 300)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			sent := 0
			cut := func() error {
				if sent++; sent == 2 {
					cancel()
					return context.DeadlineExceeded
				}
				return nil
			}
			if applied {
				w.hook.AfterTxn = func(_ *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
					if lost := cut(); lost != nil {
						return nil, lost
					}
					return res, err
				}
			} else {
				w.hook.BeforeTxn = func(*etcd.Txn) error { return cut() }
			}
			answers, err := w.AdmitMany(ctx, reqs)
			w.hook.BeforeTxn, w.hook.AfterTxn = nil, nil
			if err == nil || len(answers) != 300 {
				t.Fatalf("%d answers, %v", len(answers), err)
			}
			there := 0
			for i, a := range answers {
				if (a.Err == nil) != (i < 124) || a.ID != reqs[i].ID {
					t.Fatalf("answer %d: %+v", i, a)
				}
				if w.there(a.ID) {
					there++
				}
			}
			want := 124
			if applied {
				want = 248
			}
			if there != want {
				t.Errorf("%d are there, want %d", there, want)
			}
			answers, _ = w.admitMany(reqs)
			for i, a := range answers {
				if a.Err != nil || a.Existing != (i < want) {
					t.Fatalf("again: answer %d: %+v", i, a)
				}
			}
		})
	}
}

// An answer that is lost is asked for again: what an earlier try has admitted is no
// existing execution.
func TestAdmitManyWithoutAnAnswer(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.hook.AfterTxn = func(*etcd.Txn, *etcd.TxnResult, error) (*etcd.TxnResult, error) {
		w.hook.AfterTxn = nil
		return nil, context.DeadlineExceeded
	}
	answers, _ := w.admitMany(numbered("x", 5))
	for i, a := range answers {
		if a.Err != nil || a.Existing {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
}
