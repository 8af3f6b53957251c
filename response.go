package holdfast

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// responseVersion is the newest version of the response format that this release
// can read. Frozen at 1 until a change makes older readers wrong.
const responseVersion = 1

// The kinds of response. Frozen.
const (
	kindResult = "result"
	kindError  = "error"
	kindSleep  = "sleep"
	kindWait   = "wait"
)

// A response is what the record of a step's attempt holds, as JSON. The format is
// frozen: see the goldens in testdata.
//
//	{"v":1,"kind":"result","result":…}                       done: what the function returned
//	{"v":1,"kind":"error","error":{"message":…,"code":…}}    done: the step has failed; "permanent" if marked so
//	{"v":1,"kind":"error","error":…,"retryAt":…}             not done: the next attempt may run from then on
//	{"v":1,"kind":"sleep","until":…}                         done from the start: the time that a Sleep waits for
//	{"v":1,"kind":"wait","until":…}                          not done: a call waits for an event or, if there is one, the time
type response struct {
	V         int              `json:"v"`
	Kind      string           `json:"kind"`
	Result    json.RawMessage  `json:"result,omitempty"`
	Error     *execution.Error `json:"error,omitempty"`
	Permanent bool             `json:"permanent,omitempty"`
	RetryAt   time.Time        `json:"retryAt,omitzero"`
	Until     time.Time        `json:"until,omitzero"`
}

func resultResponse(result json.RawMessage) response {
	return response{Kind: kindResult, Result: result}
}

func errorResponse(err error, permanent bool) response {
	return response{Kind: kindError, Error: recordedError(err), Permanent: permanent}
}

func retryResponse(err error, at time.Time) response {
	return response{Kind: kindError, Error: recordedError(err), RetryAt: at}
}

func sleepResponse(until time.Time) response {
	return response{Kind: kindSleep, Until: until}
}

func waitResponse(until time.Time) response {
	return response{Kind: kindWait, Until: until}
}

// encode renders the response. It panics only on a result that is not JSON, or a
// time past the year 9999: both are made by this package.
func (r response) encode() json.RawMessage {
	r.V = responseVersion
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("holdfast: response of kind %q: %v", r.Kind, err))
	}
	return b
}

// decodeResponse reads the record's response, which must be of one of the kinds
// that fit whether the record is done.
func decodeResponse(rec execution.Step) (response, error) {
	var r response
	if err := json.Unmarshal(rec.Response, &r); err != nil {
		return r, fmt.Errorf("record of step %q, attempt %d, is not readable: %w", rec.Key, rec.Attempt, err)
	}
	if r.V > responseVersion {
		return r, fmt.Errorf("record of step %q, attempt %d, has version %d: a newer release wrote it; upgrade this worker", rec.Key, rec.Attempt, r.V)
	}
	ok := false
	switch {
	case r.V < 1:
	case r.Kind == kindResult:
		ok = rec.Done && r.Result != nil
	case r.Kind == kindError:
		ok = r.Error != nil && rec.Done == r.RetryAt.IsZero()
	case r.Kind == kindSleep:
		ok = rec.Done && !r.Until.IsZero()
	case r.Kind == kindWait:
		ok = !rec.Done
	}
	if !ok {
		return r, fmt.Errorf("record of step %q, attempt %d, is not readable: version %d, kind %q, done %t", rec.Key, rec.Attempt, r.V, r.Kind, rec.Done)
	}
	return r, nil
}

// wake returns the time that the response waits for; zero: none.
func (r response) wake() time.Time {
	if r.Kind == kindSleep || r.Kind == kindWait {
		return r.Until
	}
	return r.RetryAt
}

// noun says what call recorded the response, as far as it tells.
func (r response) noun() string {
	if r.Kind == kindSleep || r.Kind == kindWait {
		return "a " + r.Kind
	}
	return "a step"
}
