package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/internal/testetcd"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencing"
	"github.com/holdfast-io/holdfast/pkg/start"
)

// TestStartAdapter: a step's start of a workflow, on real etcd.
func TestStartAdapter(t *testing.T) {
	t.Parallel()
	for slug, assert := range map[string]func(*starting){
		"fail-before-commit":                failBeforeCommit,
		"lost-response":                     lostResponse,
		"concurrent-same-id":                concurrentSameID,
		"different-ids":                     differentIDs,
		"generated-id-collides":             generatedIDCollides,
		"free-caller-id":                    freeCallerID,
		"existing-caller-id":                existingCallerID,
		"launch-fails-after-admission":      launchFailsAfterAdmission,
		"invalid-params":                    invalidParams,
		"key-order":                         keyOrder,
		"changed-descriptor":                changedDescriptor,
		"changed-after-target-ack":          changedAfterTargetAck,
		"target-acked-before-step-recorded": targetAckedBeforeStepRecorded,
	} {
		t.Run(slug, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			assert(&starting{s, s.begin("parent").Lease})
		})
	}
}

// A starting is a stage with a parent that is held.
type starting struct {
	*stage
	parent execution.Lease
}

// request is the parent's step's for a child.
func (s *starting) request(step string) start.Request { return requestOf(s.parent, step) }

func requestOf(l execution.Lease, step string) start.Request {
	return start.Request{
		Caller: stepOf(l, step), Epoch: l.Epoch, Workflow: "child", Params: json.RawMessage(`{"to":"Ada","n":1}`), ParamsPresent: true,
	}
}

// starter returns a client that starts through the hook, if any, and draws these ids.
func (s *starting) starter(hook *testetcd.Hook, ids ...execution.ID) *start.Client {
	s.t.Helper()
	executions, store := s.caller(hook).leases, s.store
	if hook != nil {
		store = hook
	}
	cfg := start.Config{Store: store, Space: s.space, Executions: executions}
	if len(ids) > 0 {
		cfg.NewID = func() execution.ID {
			id := ids[0]
			ids = ids[1:]
			return id
		}
	}
	c, err := start.New(cfg)
	s.must(err)
	return c
}

func (s *starting) start(c *start.Client, req start.Request) execution.ID {
	s.t.Helper()
	a, err := c.Start(s.t.Context(), req)
	s.must(err)
	return a.ID
}

// rejected demands that the request is refused with the code, and changes nothing.
func (s *starting) rejected(req start.Request, code string) {
	s.t.Helper()
	before := s.stored()
	a, err := s.starts.Start(s.t.Context(), req)
	var rejected *start.RejectedError
	if !errors.As(err, &rejected) || rejected.Code() != code {
		s.t.Errorf("got %+v, %v, want %s", a, err, code)
	}
	if after := s.stored(); !slices.Equal(after, before) {
		s.t.Errorf("the refused start changed\n%q\nto\n%q", before, after)
	}
}

// stored lists what the namespace holds, with the revisions.
func (s *starting) stored() (all []string) {
	s.t.Helper()
	for _, kv := range s.kvs() {
		all = append(all, fmt.Sprintf("%s at %d", kv.Key, kv.Modified))
	}
	return all
}

// wantChildren demands that just these were started, each by one step.
func (s *starting) wantChildren(want ...execution.ID) {
	s.t.Helper()
	page, err := s.List(s.t.Context(), execution.ListRequest{Workflow: "child"})
	s.must(err)
	var got []execution.ID
	for _, r := range page.Records {
		got = append(got, r.ID)
	}
	slices.Sort(got)
	if want = slices.Sorted(slices.Values(want)); !slices.Equal(got, want) {
		s.t.Errorf("started %q, want %q", got, want)
	}
	if starts := s.keysOf(s.space.Starts()); len(starts) != len(want) {
		s.t.Errorf("%d starts are kept, want %d: %q", len(starts), len(want), starts)
	}
}

// claimChild claims what was started.
func (s *starting) claimChild(id execution.ID) execution.Delivery {
	s.t.Helper()
	ds, err := s.ClaimDue(s.t.Context(), execution.ClaimRequest{Now: s.never(), Limit: 1, Duration: longLease, Queues: []string{"child"}})
	s.must(err)
	if len(ds) != 1 || ds[0].ID != id {
		s.t.Fatalf("claimed %v, want %q", ds, id)
	}
	return ds[0]
}

// startKey is where the start of the parent's step is kept.
func (s *starting) startKey(step string) string {
	return s.space.Start(keyspace.CallKey{ID: string(s.parent.ID), Incarnation: s.parent.Incarnation, Run: s.parent.Run, Step: step})
}

// failBeforeCommit: a request that never reached etcd, and one that etcd refused, have
// started nothing, and the next one starts.
func failBeforeCommit(s *starting) {
	c := s.starter(unsent(s.startKey("start"), func(*etcd.Txn) { s.wantChildren() }))
	first := s.start(c, s.request("start"))
	s.wantChildren(first)
	refusing := &testetcd.Hook{BeforeTxn: func(txn *etcd.Txn) error {
		if writes(txn, s.startKey("another")) {
			return etcd.ErrPermission
		}
		return nil
	}}
	if _, err := s.starter(refusing).Start(s.t.Context(), s.request("another")); !errors.Is(err, etcd.ErrPermission) {
		s.t.Errorf("got %v, want etcd's refusal", err)
	}
	s.wantChildren(first)
	s.wantChildren(first, s.start(s.starts, s.request("another")))
}

// lostResponse: a start whose answer was lost is answered with what it has started, by
// the same call, or, if that was cut short, by the next one.
func lostResponse(s *starting) {
	var there []execution.ID
	c := s.starter(unanswered(s.startKey("start"), func() {
		page, err := s.List(s.t.Context(), execution.ListRequest{Workflow: "child"})
		s.must(err)
		for _, r := range page.Records {
			there = append(there, r.ID)
		}
	}))
	first := s.start(c, s.request("start"))
	if !slices.Equal(there, []execution.ID{first}) {
		s.t.Errorf("the lost try started %q, and the next was answered with %q", there, first)
	}
	s.wantChildren(first)

	ctx, cancel := context.WithCancel(s.t.Context())
	cut := s.starter(unanswered(s.startKey("another"), cancel))
	if a, err := cut.Start(ctx, s.request("another")); !errors.Is(err, fencing.ErrUnknown) {
		s.t.Errorf("got %+v, %v, want that the outcome is unknown", a, err)
	}
	s.wantChildren(first, s.start(s.starts, s.request("another")))
}

// concurrentSameID: whoever asks for a step's start, and however many do, one execution
// is started, and everyone is given it.
func concurrentSameID(s *starting) {
	const callers = 20
	var all sync.WaitGroup
	ids := make([]execution.ID, callers)
	for i := range callers {
		c := s.starter(nil)
		all.Go(func() {
			a, err := c.Start(s.t.Context(), s.request("start"))
			if err != nil {
				s.t.Error(err)
			}
			ids[i] = a.ID
		})
	}
	all.Wait()
	s.wantChildren(ids[0])
	if got := slices.Compact(ids); len(got) != 1 {
		s.t.Errorf("started %q", got)
	}
}

// differentIDs: steps of one execution, and equal ones of several, start an execution
// each.
func differentIDs(s *starting) {
	another := s.begin("another parent").Lease
	ids := []execution.ID{
		s.start(s.starts, s.request("start")), s.start(s.starts, s.request("start/2")),
		s.start(s.starts, requestOf(another, "start")), s.start(s.starts, requestOf(another, "start/2")),
	}
	s.wantChildren(ids...)
	again := []execution.ID{s.start(s.starts, s.request("start")), s.start(s.starts, requestOf(another, "start/2"))}
	if again[0] != ids[0] || again[1] != ids[3] {
		s.t.Errorf("repeated: %q of %q", again, ids)
	}
}

// generatedIDCollides: an id that was drawn and is taken, by whatever, is drawn again.
func generatedIDCollides(s *starting) {
	s.admit("taken")
	first := s.start(s.starts, s.request("first"))
	before := s.Dump("taken")
	if id := s.start(s.starter(nil, "taken", first, "free"), s.request("start")); id != "free" {
		s.t.Errorf("started %q, want the free one", id)
	}
	s.wantChildren(first, "free")
	if after := s.Dump("taken"); after != before {
		s.t.Errorf("the taken one was changed:\n%s\nto\n%s", before, after)
	}
}

func freeCallerID(s *starting) {
	req := s.request("start")
	req.ID = "a/child of mine"
	for range 2 {
		if id := s.start(s.starts, req); id != req.ID {
			s.t.Errorf("started %q", id)
		}
	}
	s.wantChildren(req.ID)
	if r := s.get(req.ID); string(r.Params) != `{"n":1,"to":"Ada"}` || r.Workflow != "child" {
		s.t.Errorf("record %+v", r)
	}
}

// existingCallerID: an execution that this step has not started is never answered, not
// even one that looks the same, whether it goes on or has ended. One that it has started
// is, at any time.
func existingCallerID(s *starting) {
	another := s.begin("another parent").Lease
	same := execution.AdmitRequest{ID: "admitted", Workflow: "child", Params: json.RawMessage(`{"n":1,"to":"Ada"}`)}
	_, err := s.Admit(s.t.Context(), same)
	s.must(err)
	theirs := requestOf(another, "start")
	theirs.ID = "theirs"
	s.start(s.starts, theirs)
	for _, id := range []execution.ID{"admitted", "theirs", "parent"} {
		req := s.request("start")
		req.ID = id
		s.rejected(req, "START_ID_TAKEN")
	}
	s.must(s.Cancel(s.t.Context(), "theirs", "test"))
	req := s.request("start")
	req.ID = "theirs"
	s.rejected(req, "START_ID_TAKEN")
	s.must(s.Delete(s.t.Context(), "theirs")) // and the id is free
	mine := s.start(s.starts, req)
	s.must(s.Cancel(s.t.Context(), "theirs", "test"))
	if id := s.start(s.starts, req); id != mine || id != "theirs" {
		s.t.Errorf("my own is answered with %q, want %q", id, mine)
	}
}

// launchFailsAfterAdmission: what is started is admitted, whoever runs it and when. A
// delivery that dies before it has done anything changes nothing of the start.
func launchFailsAfterAdmission(s *starting) {
	id := s.start(s.starts, s.request("start"))
	d := s.claimChild(id)
	s.EndLease(d.Lease)
	s.reap()
	if again := s.start(s.starts, s.request("start")); again != id {
		s.t.Errorf("started %q, want %q", again, id)
	}
	s.wantChildren(id)
	if r := s.get(id); r.Status != execution.StatusAdmitted || r.UnacknowledgedDeliveries != 1 {
		s.t.Errorf("record %+v, want it admitted, with the delivery counted", r)
	}
	s.complete(s.claimChild(id).Lease)
}

// invalidParams are refused before anything is read or written, also where the request
// would not match the step's start.
func invalidParams(s *starting) {
	id := s.start(s.starts, s.request("started"))
	asked := 0
	hook := &testetcd.Hook{BeforeTxn: func(*etcd.Txn) error { asked++; return nil }, BeforeGet: func(etcd.Get) error { asked++; return nil }}
	c := s.starter(hook)
	asked = 0
	for _, step := range []string{"start", "started"} {
		for _, doc := range []string{`NaN`, `{"a":1,"a":2}`, `{"a":undefined}`, "\"\xff\"", `[1e999]`, ``} {
			req := s.request(step)
			req.Params = json.RawMessage(doc)
			req.Workflow = "another"
			_, err := c.Start(s.t.Context(), req)
			var rejected *start.RejectedError
			if !errors.As(err, &rejected) || rejected.Code() != "INVALID_START_PARAMETERS" {
				s.t.Errorf("%s: %v, want it invalid", doc, err)
			}
		}
	}
	if asked != 0 {
		s.t.Errorf("etcd was asked %d times", asked)
	}
	s.wantChildren(id)
}

// keyOrder: params that say the same are the same.
func keyOrder(s *starting) {
	req := s.request("start")
	req.Params = json.RawMessage(`{"a":[1,{"c":0,"b":"é"}],"n":-0,"m":1.50}`)
	id := s.start(s.starts, req)
	for _, doc := range []string{
		`{"n":0,"m":1.5,"a":[1,{"b":"\u00e9","c":-0.0}]}`, " { \"m\" : 15e-1,\n\"a\":[1.0,{\"c\":0,\"b\":\"é\"}],\"n\":0 } ",
	} {
		req.Params = json.RawMessage(doc)
		if again := s.start(s.starts, req); again != id {
			s.t.Errorf("%s started %q, want %q", doc, again, id)
		}
	}
	s.wantChildren(id)
	req.Params = json.RawMessage(`{"a":[{"c":0,"b":"é"},1],"n":0,"m":1.5}`) // lists have an order
	s.rejected(req, "START_REQUEST_MISMATCH")
}

// changedDescriptor: a step that asks for something else than it has started is refused.
func changedDescriptor(s *starting) {
	id := s.start(s.starts, s.request("start"))
	for name, edit := range map[string]func(*start.Request){
		"workflow": func(r *start.Request) { r.Workflow = "another" },
		"params":   func(r *start.Request) { r.Params = json.RawMessage(`{"to":"Ada","n":2}`) },
		"omitted":  func(r *start.Request) { r.Params, r.ParamsPresent = nil, false },
		"null":     func(r *start.Request) { r.Params = json.RawMessage(`null`) },
	} {
		req := s.request("start")
		edit(&req)
		s.t.Log(name)
		s.rejected(req, "START_REQUEST_MISMATCH")
	}
	s.wantChildren(id)
	if again := s.start(s.starts, s.request("start")); again != id {
		s.t.Errorf("then started %q, want %q", again, id)
	}
}

// changedAfterTargetAck: the end of what was started forgets nothing of the start.
func changedAfterTargetAck(s *starting) {
	id := s.start(s.starts, s.request("start"))
	s.complete(s.claimChild(id).Lease)
	req := s.request("start")
	req.Params = json.RawMessage(`{"to":"Bob"}`)
	s.rejected(req, "START_REQUEST_MISMATCH")
	if again := s.start(s.starts, s.request("start")); again != id {
		s.t.Errorf("started %q, want %q", again, id)
	}
	s.wantChildren(id)
}

// targetAckedBeforeStepRecorded: the child has ended, and been deleted even, before its
// starter has recorded the step. The next holder is given the same one.
func targetAckedBeforeStepRecorded(s *starting) {
	for i, remove := range []bool{false, true} {
		step := "start-" + strconv.Itoa(i)
		id := s.start(s.starts, s.request(step))
		s.complete(s.claimChild(id).Lease)
		if remove {
			s.must(s.Delete(s.t.Context(), id))
		}
		s.EndLease(s.parent)
		s.reap()
		s.parent = s.claim("parent").Lease
		if again := s.start(s.starts, s.request(step)); again != id {
			s.t.Errorf("the next holder started %q, want %q", again, id)
		}
		s.step(s.parent, step)
	}
	if starts := s.keysOf(s.space.Starts()); len(starts) != 2 {
		s.t.Errorf("starts %q", starts)
	}
	s.complete(s.parent)
}
