package fencing_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/record"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
)

func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }

var errReset = errors.New("connection reset")

// fails returns a store whose first transactions fail with the errors, without
// having been sent or, where sent, after they were applied.
func fails(t *testing.T, sent bool, errs ...error) *testetcd.Hook {
	t.Helper()
	hook := &testetcd.Hook{Store: testetcd.Start(t)}
	next := func() (err error) {
		if len(errs) > 0 {
			err, errs = errs[0], errs[1:]
		}
		return err
	}
	if sent {
		hook.AfterTxn = func(_ *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
			if drop := next(); drop != nil {
				return nil, drop
			}
			return res, err
		}
	} else {
		hook.BeforeTxn = func(*etcd.Txn) error { return next() }
	}
	return hook
}

func TestSend(t *testing.T) {
	tests := []struct {
		name    string
		errs    []error
		again   bool
		want    error // nil: it is answered
		unknown bool
	}{
		{"answered", nil, false, nil, false},
		{"no answer, then one", []error{errReset, errReset}, true, nil, false},
		{"busy, then answered", []error{etcd.ErrBusy}, false, nil, false},
		{"refused", []error{etcd.ErrTooLarge}, false, etcd.ErrTooLarge, false},
		{"out of space", []error{etcd.ErrNoSpace}, true, etcd.ErrNoSpace, true},
		{"no answer, then refused", []error{errReset, etcd.ErrPermission}, true, etcd.ErrPermission, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			space := testetcd.Space(t)
			txn := &etcd.Txn{Then: []etcd.Op{etcd.Put{Key: space.Epoch(), Value: []byte("e")}}}
			res, again, err := fencing.Send(t.Context(), fails(t, false, tt.errs...), txn)
			if again != tt.again || !errors.Is(err, tt.want) || errors.Is(err, fencing.ErrUnknown) != tt.unknown || (err == nil) != (res != nil) {
				t.Fatalf("got %v, again %v, %v", res, again, err)
			}
		})
	}
}

func TestSendGivesUpWithItsContext(t *testing.T) {
	hook := &testetcd.Hook{Store: testetcd.Start(t), BeforeTxn: func(*etcd.Txn) error { return errReset }}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, again, err := fencing.Send(ctx, hook, &etcd.Txn{}); !again || !errors.Is(err, fencing.ErrUnknown) || !errors.Is(err, errReset) {
		t.Fatalf("again %v, %v", again, err)
	}
}

// A fenced write that etcd has no space for waits, and is applied once.
func TestFencedWriteWaitsForSpace(t *testing.T) {
	call := newCall(t, new([]execution.Event))
	call.Lease.Token = state(t, call, record.State{Claimed: true})
	call.Store = fails(t, true, etcd.ErrNoSpace)
	key := call.Space.Wake("x")
	ans, err := call.Do(t.Context(), []etcd.Compare{etcd.Absent(key)}, []etcd.Op{etcd.Put{Key: key}}, []etcd.Op{etcd.Get{Key: key}})
	if err != nil || !ans.Again {
		t.Fatalf("%+v, %v", ans, err)
	}
	if kv, ok := ans.Rest[0].One(); !ok || kv.Created != kv.Modified {
		t.Fatalf("the first try, which etcd had applied all the same, is not seen: %+v", ans)
	}
}

// state stores a state record, and returns its revision.
func state(t *testing.T, call *fencing.Call, s record.State) execution.Token {
	t.Helper()
	res, err := call.Store.Txn(t.Context(), &etcd.Txn{Then: []etcd.Op{
		etcd.Put{Key: call.Space.State("x"), Value: s.Encode()},
		etcd.Put{Key: call.Space.Epoch(), Value: []byte("e")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return execution.Token(res.Revision)
}

func newCall(t *testing.T, told *[]execution.Event) *fencing.Call {
	t.Helper()
	return &fencing.Call{
		Store: testetcd.Start(t), Space: testetcd.Space(t), Operation: "release", Nonce: "mine",
		Lease:    execution.Lease{ID: "x", Epoch: "e"},
		Observer: func(e execution.Event) { *told = append(*told, e) },
	}
}

// A refusal says which token is current and why.
func TestRefusalExplainsItself(t *testing.T) {
	var told []execution.Event
	call := newCall(t, &told)
	claimed := record.State{Claimed: true, Deliveries: []record.Delivery{{How: execution.HowRunning}}}
	call.Lease.Token = state(t, call, claimed)
	if ans, err := call.Do(t.Context(), nil, nil, nil); err != nil || !ans.Applied {
		t.Fatalf("current token: %+v, %v", ans, err)
	}
	if ans, err := call.Do(t.Context(), []etcd.Compare{etcd.Present("nothing")}, nil, nil); err != nil || ans.Applied || ans.Lost != nil || ans.State == nil {
		t.Fatalf("another compare failed: %+v, %v", ans, err)
	}
	first := call.Lease.Token
	claimed.Deliveries = []record.Delivery{{Token: first, How: execution.HowExpired}, {How: execution.HowRunning}}
	second := state(t, call, claimed)
	ans, err := call.Do(t.Context(), nil, nil, nil)
	if err != nil || ans.Lost == nil || ans.Lost.Carried != first || ans.Lost.Current != second || ans.Lost.Reason != "" {
		t.Fatalf("taken over: %+v, %v", ans.Lost, err)
	}
	if !errors.Is(call.Refuse(ans.Lost), execution.ErrLost) || len(told) != 1 || told[0].Kind != execution.EventRefused || told[0].Current != second {
		t.Fatalf("told: %+v", told)
	}
	state(t, call, record.State{Deliveries: []record.Delivery{{Token: first, How: execution.HowFenced, Why: "stuck", EndNonce: "theirs"}}})
	if ans, err = call.Do(t.Context(), nil, nil, nil); err != nil || ans.Lost == nil || ans.Lost.Reason != "this delivery ended: fenced, stuck" {
		t.Fatalf("fenced: %+v, %v", ans.Lost, err)
	}
	call.Lease.Epoch = "before"
	if ans, err = call.Do(t.Context(), nil, nil, nil); err != nil || ans.Lost == nil || ans.Lost.Current != 0 {
		t.Fatalf("restored: %+v, %v", ans.Lost, err)
	}
	call.Space = testetcd.Space(t)
	if ans, err = call.Do(t.Context(), nil, nil, nil); err != nil || ans.Lost == nil {
		t.Fatalf("deleted: %+v, %v", ans.Lost, err)
	}
}

// What an earlier, unanswered try did is told by the nonce; where that is gone, the
// outcome is unknown.
func TestUnansweredTryIsRecognised(t *testing.T) {
	tests := []struct {
		name    string
		after   record.State
		applied bool
		lost    bool
	}{
		{"it wrote the record", record.State{Nonce: "mine"}, true, false},
		{"it is in the history", record.State{Deliveries: []record.Delivery{{Token: 1, EndNonce: "mine"}, {Token: 2}}}, true, false},
		{"another call ended it", record.State{Deliveries: []record.Delivery{{Token: 1, EndNonce: "theirs"}}}, false, true},
		{"the history is too short", record.State{Deliveries: []record.Delivery{{Token: 2}, {Token: 3}}}, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call := newCall(t, new([]execution.Event))
			call.Lease.Token = 1
			state(t, call, tt.after)
			call.Store = fails(t, true, errReset)
			ans, err := call.Do(t.Context(), nil, nil, nil)
			if ans.Applied != tt.applied || (ans.Lost != nil) != tt.lost || errors.Is(err, fencing.ErrUnknown) != (!tt.applied && !tt.lost) {
				t.Fatalf("%+v, %v", ans, err)
			}
		})
	}
}
