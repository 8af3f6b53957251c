package conformance

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// counter is the store of these cases, whose state is a number.
var counter = execution.StoreID{Name: "counter", ID: "a/b"} //nolint:gochecknoglobals // a constant; Go has none of this type

// addOne adds one to the counter on behalf of the step, and demands the result.
func (s *scene) addOne(c Client, l execution.Lease, step, want string) {
	s.Helper()
	got, err := c.UpdateStore(s.ctx, l, counter, step, func(state json.RawMessage) json.RawMessage {
		n, _ := strconv.Atoi(string(state)) // null is 0
		return strconv.AppendInt(nil, int64(n+1), 10)
	})
	s.must(err, "update the store")
	if string(got) != want {
		s.Errorf("the update of step %q made %s, want %s", step, got, want)
	}
}

func (s *scene) wantCounter(want string) {
	s.Helper()
	got, err := s.h.Peer().ReadStore(s.ctx, counter)
	s.must(err, "read the store")
	if string(got) != want {
		s.Errorf("the store holds %s, want %s", got, want)
	}
}

// staleStoreUpdate: a stale holder's update counts, once, and the current holder is
// given its result; and the other way round.
func staleStoreUpdate(s *scene) {
	stale := s.begin("order")
	d := s.reclaim(stale)
	s.addOne(s.c, stale.Lease, "take", "1")
	s.wantCounter("1")
	s.addOne(s.h.Peer(), d.Lease, "take", "1")
	s.addOne(s.h.Peer(), d.Lease, "give", "2")
	s.addOne(s.c, stale.Lease, "give", "2")
	s.addOne(s.c, stale.Lease, "take", "1")
	s.wantCounter("2")
	s.lost(s.c.Acknowledge(s.ctx, stale.Lease, completed(`1`)), "acknowledge", stale.Token, d.Token)
	s.must(s.h.Peer().Acknowledge(s.ctx, d.Lease, completed(`"done"`)), "acknowledge")
	s.wantOutcome("order", `"done"`)
}

// started is what these cases start. It is not due while they claim.
const started = "conformance-started"

// start starts an execution on behalf of the step. Without an id one is drawn.
func (s *scene) start(c Client, l execution.Lease, step string, id execution.ID) execution.ID {
	s.Helper()
	got, err := c.StartWorkflow(s.ctx, l, step, execution.AdmitRequest{
		ID: id, Workflow: started, Params: json.RawMessage(`{"of":"` + step + `"}`), Due: time.Now().Add(48 * time.Hour),
	})
	s.must(err, "start")
	return got
}

// wantStarted demands that just these were started.
func (s *scene) wantStarted(want ...execution.ID) {
	s.Helper()
	page, err := s.h.Peer().List(s.ctx, execution.ListRequest{Workflow: started})
	s.must(err, "list")
	got := map[execution.ID]bool{}
	for _, r := range page.Records {
		got[r.ID] = true
	}
	for _, id := range want {
		if !got[id] {
			s.Errorf("%q was not started", id)
		}
	}
	if len(got) != len(want) {
		s.Errorf("%d were started, want %d: %v", len(got), len(want), got)
	}
}

// staleStart: a stale holder's start counts, once, and the current holder is given what
// it has started; and the other way round.
func staleStart(s *scene) {
	stale := s.begin("order")
	d := s.reclaim(stale)
	ship := s.start(s.c, stale.Lease, "ship", "")
	s.wantStarted(ship)
	if got := s.start(s.h.Peer(), d.Lease, "ship", ""); got != ship {
		s.Errorf("the current holder was given %q, want %q", got, ship)
	}
	bill := s.start(s.h.Peer(), d.Lease, "bill", "order's bill")
	if got := s.start(s.c, stale.Lease, "bill", "order's bill"); got != bill || bill != "order's bill" {
		s.Errorf("started %q, and the stale holder was given %q", bill, got)
	}
	if got := s.start(s.c, stale.Lease, "ship", ""); got != ship {
		s.Errorf("the stale holder was given %q then, want %q", got, ship)
	}
	s.wantStarted(ship, bill)
	s.must(s.h.Peer().Acknowledge(s.ctx, d.Lease, completed(`"done"`)), "acknowledge")
	s.wantOutcome("order", `"done"`)
	s.wantStarted(ship, bill)
}
