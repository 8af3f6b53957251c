package heap_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
	"github.com/holdfast-io/holdfast/pkg/heap"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

func TestMain(m *testing.M) { os.Exit(testetcd.Main(m)) }

// A scene is one execution, claimed.
type scene struct {
	*heap.Client
	space      keyspace.Space
	executions *leasing.Client
	hook       *testetcd.Hook
	delivery   execution.Delivery
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{hook: &testetcd.Hook{Store: testetcd.Start(t)}}
	s.space = testetcd.Space(t)
	var err error
	if s.executions, err = leasing.New(t.Context(), leasing.Config{Store: s.hook, Space: s.space}); err != nil {
		t.Fatal(err)
	}
	if s.Client, err = heap.New(heap.Config{Store: s.hook, Space: s.space}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.executions.Admit(t.Context(), execution.AdmitRequest{ID: "x", Workflow: "w"}); err != nil {
		t.Fatal(err)
	}
	ds, err := s.executions.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 1, Duration: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatalf("claim: %v, %v", ds, err)
	}
	s.delivery = ds[0]
	return s
}

func TestStepsAreKeptByteForByte(t *testing.T) {
	s := newScene(t)
	responses := []string{`null`, `{"b":1,"a":2}`, `12345678901234567890.10`, "\"\u2028 <&> ☃\"", "{\n\t\"x\" : 1e400 }"}
	for i, r := range responses {
		w := execution.StepWrite{Key: fmt.Sprintf("a/%d ☃", i), Attempt: int64(i), Done: true, Response: json.RawMessage(r)}
		if st, err := s.WriteStep(t.Context(), s.delivery.Lease, w); err != nil || string(st.Response) != r || st.Token != s.delivery.Token {
			t.Fatalf("write: %+v, %v", st, err)
		}
	}
	steps, err := s.Read(t.Context(), s.delivery.Lease)
	if err != nil || len(steps) != len(responses) {
		t.Fatalf("read: %d steps, %v", len(steps), err)
	}
	for i, st := range steps {
		if st.Key != fmt.Sprintf("a/%d ☃", i) || string(st.Response) != responses[i] || st.Attempt != int64(i) || !st.Done {
			t.Errorf("step %d: %+v", i, st)
		}
	}
}

func TestRewriteReturnsTheRecordedValue(t *testing.T) {
	s := newScene(t)
	for _, r := range []string{`1`, `2`} {
		st, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: "k", Done: r == `1`, Response: json.RawMessage(r)})
		if err != nil || string(st.Response) != `1` || !st.Done {
			t.Fatalf("writing %s: %+v, %v", r, st, err)
		}
	}
}

func TestStaleWriteIsRefusedAndChangesNothing(t *testing.T) {
	s := newScene(t)
	if err := s.executions.Acknowledge(t.Context(), s.delivery.Lease, execution.Outcome{Kind: execution.Suspended}); err != nil {
		t.Fatal(err)
	}
	_, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: "k", Response: json.RawMessage(`1`)})
	var lost *execution.LostError
	if !errors.As(err, &lost) || lost.Carried != s.delivery.Token || lost.Current <= lost.Carried || lost.Operation != "writeStep" {
		t.Fatalf("got %v", err)
	}
	if steps, err := s.Read(t.Context(), s.delivery.Lease); err != nil || len(steps) != 0 {
		t.Fatalf("recorded: %v, %v", steps, err)
	}
}

func TestBadStepsAreRefused(t *testing.T) {
	s := newScene(t)
	limit := strings.Repeat("x", execution.MaxPayloadBytes-2)
	for name, w := range map[string]execution.StepWrite{
		"no key":      {Response: json.RawMessage(`1`)},
		"long key":    {Key: strings.Repeat("k", 513), Response: json.RawMessage(`1`)},
		"attempt":     {Key: "k", Attempt: -1, Response: json.RawMessage(`1`)},
		"not JSON":    {Key: "k", Response: json.RawMessage(`{`)},
		"no response": {Key: "k"},
		"no store":    {Key: "k", Response: json.RawMessage(`1`), Waiter: &execution.StoreID{}},
		"no store id": {Key: "k", Response: json.RawMessage(`1`), Waiter: &execution.StoreID{Name: "stock"}, Done: true},
		"too large":   {Key: "k", Response: json.RawMessage(`"` + limit + `x"`)},
	} {
		_, err := s.WriteStep(t.Context(), s.delivery.Lease, w)
		if _, is := errors.AsType[*execution.InvalidError](err); !is {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: "k", Response: json.RawMessage(`"` + limit + `"`)}); err != nil {
		t.Errorf("a response at the limit: %v", err)
	}
}

func TestReadPages(t *testing.T) {
	s := newScene(t)
	const n = 501 // more than two pages
	for i := range n {
		if _, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: fmt.Sprintf("%04d", i), Response: json.RawMessage(`1`)}); err != nil {
			t.Fatal(err)
		}
	}
	steps, err := s.Read(t.Context(), s.delivery.Lease)
	if err != nil || len(steps) != n || steps[n-1].Key != "0500" {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
}

func TestLostAnswerOfAStep(t *testing.T) {
	s := newScene(t)
	dropped := false
	s.hook.AfterTxn = func(_ *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if !dropped && err == nil {
			dropped = true
			return nil, context.DeadlineExceeded
		}
		return res, err
	}
	st, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: "k", Response: json.RawMessage(`1`)})
	if err != nil || !bytes.Equal(st.Response, []byte(`1`)) || !dropped {
		t.Fatalf("%+v, %v", st, err)
	}
}

// The answer is lost, and before the step is sent again somebody else takes over:
// the step was accepted, which its own token in the record proves.
func TestLostAnswerThenTakeover(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		t.Run(fmt.Sprintf("terminal=%v", terminal), func(t *testing.T) {
			s := newScene(t)
			s.hook.AfterTxn = func(_ *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
				s.hook.AfterTxn = nil
				end := s.executions.Fence
				if terminal {
					end = s.executions.Cancel
				}
				return nil, errors.Join(context.DeadlineExceeded, err, end(t.Context(), "x", "operator"))
			}
			st, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: "k", Response: json.RawMessage(`1`)})
			if err != nil || string(st.Response) != `1` {
				t.Fatalf("%+v, %v", st, err)
			}
		})
	}
}

// A write that was not sent, but may have been, of an execution that has ended
// since, or whose run has, so that its steps may be deleted: nothing proves anything, so
// it is not called lost.
func TestUnknownWriteOfAnEndedExecution(t *testing.T) {
	for name, end := range map[string]func(s *scene) error{
		"cancelled":    func(s *scene) error { return s.executions.Cancel(context.Background(), "x", "") },
		"another run":  func(s *scene) error { return s.turnOver(1) },
		"further runs": func(s *scene) error { return s.turnOver(3) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.hook.BeforeTxn = func(*etcd.Txn) error {
				s.hook.BeforeTxn = nil
				if err := end(s); err != nil {
					t.Error(err)
				}
				return context.DeadlineExceeded
			}
			_, err := s.WriteStep(t.Context(), s.delivery.Lease, execution.StepWrite{Key: "k", Response: json.RawMessage(`1`)})
			if !errors.Is(err, fencing.ErrUnknown) || errors.Is(err, execution.ErrLost) {
				t.Fatalf("got %v", err)
			}
		})
	}
}

// turnOver ends so many runs.
func (s *scene) turnOver(runs int) error {
	for d := s.delivery; ; {
		if err := s.executions.Acknowledge(context.Background(), d.Lease, execution.Outcome{Kind: execution.Continued}); err != nil {
			return err
		}
		if runs--; runs == 0 {
			return nil
		}
		ds, err := s.executions.ClaimDue(context.Background(), execution.ClaimRequest{Limit: 1, Duration: time.Minute})
		if err != nil || len(ds) != 1 {
			return fmt.Errorf("claim: %v, %w", ds, err)
		}
		d = ds[0]
	}
}

// Each run has its own steps: what is read is the lease's run's.
func TestEachRunHasItsSteps(t *testing.T) {
	s := newScene(t)
	for run := range 3 {
		w := execution.StepWrite{Key: "k", Done: true, Response: json.RawMessage(fmt.Sprint(run))}
		if st, err := s.WriteStep(t.Context(), s.delivery.Lease, w); err != nil || string(st.Response) != fmt.Sprint(run) {
			t.Fatalf("run %d: %+v, %v", run, st, err)
		}
		if err := s.turnOver(1); err != nil {
			t.Fatal(err)
		}
		ds, err := s.executions.ClaimDue(t.Context(), execution.ClaimRequest{Limit: 1, Duration: time.Minute})
		if err != nil || len(ds) != 1 {
			t.Fatalf("claim: %v, %v", ds, err)
		}
		if steps, err := s.Read(t.Context(), ds[0].Lease); err != nil || len(steps) != 0 {
			t.Fatalf("run %d begins with %v, %v", ds[0].Run, steps, err)
		}
		s.delivery = ds[0]
	}
}
