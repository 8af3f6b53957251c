package leasing_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// mark is what these tests do beside an admission: to put a process that nobody is.
const mark = "a mark"

func (w *world) beside(more ...etcd.Compare) leasing.Beside {
	key := w.space.Evict(mark, mark)
	return leasing.Beside{
		If:   append([]etcd.Compare{etcd.Absent(key)}, more...),
		Then: []etcd.Op{etcd.Put{Key: key, Value: []byte(`{"v":1}`)}},
		Else: []etcd.Op{etcd.Get{Key: key}},
	}
}

// marked says whether it was done.
func (w *world) marked() bool {
	w.t.Helper()
	res, _, err := w.hook.Store.Get(w.t.Context(), etcd.Get{Key: w.space.Evict(mark, mark)})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(res.KVs) > 0
}

func (w *world) there(id execution.ID) bool {
	w.t.Helper()
	_, err := w.Get(w.t.Context(), id)
	if err != nil && !errors.Is(err, execution.ErrNotFound) {
		w.t.Fatal(err)
	}
	return err == nil
}

var request = execution.AdmitRequest{ID: "x", Workflow: "w", Params: json.RawMessage(`{"a":1}`)}

func TestAdmitBeside(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	ans, err := w.AdmitBeside(t.Context(), request, w.beside())
	if err != nil || !ans.Admitted || ans.Incarnation != w.get("x").Incarnation || !w.marked() {
		t.Errorf("got %+v, %v, marked: %t", ans, err, w.marked())
	}
	if d := w.claim("x"); string(d.Params) != `{"a":1}` || d.Workflow != "w" || d.Queue != "w" {
		t.Errorf("delivered %+v", d)
	}
}

// An execution of the same workflow and params is as taken as any other.
func TestAdmitBesideOfATakenID(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	w.admit("x")
	before := w.get("x")
	ans, err := w.AdmitBeside(t.Context(), request, w.beside())
	if err != nil || ans.Admitted || !ans.Taken || ans.Again || len(ans.Read) != 1 || w.marked() {
		t.Errorf("got %+v, %v, marked: %t", ans, err, w.marked())
	}
	if after := w.get("x"); after.Incarnation != before.Incarnation {
		t.Errorf("incarnation %d became %d", before.Incarnation, after.Incarnation)
	}
}

func TestAdmitBesideOfWhatDoesNotHold(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	ans, err := w.AdmitBeside(t.Context(), request, w.beside(etcd.Present(w.space.State("another"))))
	if err != nil || ans.Admitted || ans.Taken || len(ans.Read) != 1 || w.marked() || w.there("x") {
		t.Errorf("got %+v, %v, marked: %t, admitted: %t", ans, err, w.marked(), w.there("x"))
	}
}

func TestAdmitBesideWithoutAnAnswer(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	lost := false
	w.hook.AfterTxn = func(_ *etcd.Txn, res *etcd.TxnResult, err error) (*etcd.TxnResult, error) {
		if !lost {
			lost = true
			return nil, context.DeadlineExceeded
		}
		return res, err
	}
	ans, err := w.AdmitBeside(t.Context(), request, w.beside())
	if err != nil || ans.Admitted || !ans.Again || !ans.Taken {
		t.Fatalf("got %+v, %v", ans, err)
	}
	if kv, there := ans.Read[0].One(); !there || kv.Created != w.get("x").Incarnation {
		t.Errorf("read %+v, want what was done with the admission at %d", kv, w.get("x").Incarnation)
	}
}

// A deletion that was begun is finished, and its id is free.
func TestAdmitBesideOfWhatIsBeingDeleted(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	first := w.finished("x", 10, 10)
	w.hook.BeforeTxn = func(txn *etcd.Txn) error {
		for _, op := range txn.Then {
			if del, ok := op.(etcd.Delete); ok && del.Key == w.space.State("x") {
				return etcd.ErrPermission
			}
		}
		return nil
	}
	if err := w.Delete(t.Context(), "x"); err == nil {
		t.Fatal("the deletion was not kept from its end")
	}
	w.hook.BeforeTxn = nil
	ans, err := w.AdmitBeside(t.Context(), request, w.beside())
	if err != nil || !ans.Admitted || ans.Incarnation == first.Incarnation || !w.marked() {
		t.Errorf("got %+v, %v", ans, err)
	}
}

func TestAdmitBesideRefuses(t *testing.T) {
	w := newWorld(t, time.Millisecond)
	for name, req := range map[string]execution.AdmitRequest{
		"no id":       {Workflow: "w"},
		"no workflow": {ID: "x"},
		"no JSON":     {ID: "x", Workflow: "w", Params: json.RawMessage(`{`)},
	} {
		var invalid *execution.InvalidError
		if _, err := w.AdmitBeside(t.Context(), req, w.beside()); !errors.As(err, &invalid) || w.marked() {
			t.Errorf("%s: %v, marked: %t", name, err, w.marked())
		}
	}
}
