package fencehttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

// StatusStale is the status of a refusal: the token is a precondition.
const StatusStale = http.StatusPreconditionFailed

// StaleType is the type of a refusal's problem details (RFC 9457). It is frozen.
const StaleType = "https://github.com/holdfast-io/holdfast/blob/main/docs/fencing.md#a-stale-token"

// problemMedia is the media type of every refusal.
const problemMedia = "application/problem+json"

// maxProblemBytes bounds what is read of an answer that may be a refusal.
const maxProblemBytes = 64 << 10

// A StaleError refuses a request: a later delivery of the same execution has been at
// the resource. It wraps an [*execution.LostError], and so [execution.ErrLost]: a
// step's function returns it, wrapped or not, and the engine ends the delivery as lost
// and records nothing.
type StaleError struct {
	Namespace   string
	ExecutionID string
	Resource    string
	Carried     execution.Token // the refused request's
	Seen        execution.Token // the greatest that has been there
}

func (e *StaleError) Error() string {
	return fmt.Sprintf("request for %q: %v: execution %q carried token %d, and token %d has been there",
		e.Resource, execution.ErrLost, e.ExecutionID, e.Carried, e.Seen)
}

// Unwrap returns what the engine understands.
func (e *StaleError) Unwrap() error {
	return &execution.LostError{
		ID: execution.ID(e.ExecutionID), Operation: "request", Carried: e.Carried, Current: e.Seen,
		Reason: fmt.Sprintf("by a guard of %q outside of etcd", e.Resource),
	}
}

// A problem is the body of a refusal. Its members are frozen; those from namespace on
// are only those of a stale token. Tokens are text: not every client's numbers hold 64
// bits.
type problem struct {
	Type      string `json:"type,omitempty"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Execution string `json:"execution,omitempty"`
	Resource  string `json:"resource,omitempty"`
	Carried   string `json:"carried,omitempty"`
	Seen      string `json:"seen,omitempty"`
}

// Refuse answers a request if err is, or wraps, a [*StaleError] or a
// [*fencesql.StaleError], and says whether it did. It is for handlers that guard their
// own rows with package fencesql.
func Refuse(w http.ResponseWriter, err error) bool {
	var stale *StaleError
	var inRows *fencesql.StaleError
	switch {
	case errors.As(err, &stale):
	case errors.As(err, &inRows):
		stale = (*StaleError)(inRows)
	default:
		return false
	}
	answer(w, problem{
		Type: StaleType, Title: "The fencing token is stale.", Status: StatusStale, Detail: stale.Error(),
		Namespace: stale.Namespace, Execution: stale.ExecutionID, Resource: stale.Resource,
		Carried: strconv.FormatInt(int64(stale.Carried), 10), Seen: strconv.FormatInt(int64(stale.Seen), 10),
	})
	return true
}

// answer writes the problem as the response.
func answer(w http.ResponseWriter, p problem) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // it is text alone
	}
	w.Header().Set("Content-Type", problemMedia)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a client that has gone misses nothing
}

// Check returns a [*StaleError] if the response is the refusal of a request that
// carried the fencing, and then closes its body. Any other response is left as it was,
// its body unread. [Transport] does this.
func Check(resp *http.Response, f execution.Fencing) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != StatusStale || media != problemMedia || resp.Body == nil {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblemBytes))
	if stale, is := read(body, f); err == nil && is {
		_ = resp.Body.Close() // it has been read
		return stale
	}
	rest := io.Reader(resp.Body)
	if err != nil {
		rest = failing{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), resp.Body}
	return nil
}

// read returns the refusal that the body is, if it is one of this fencing: lost is
// said of the own token only, and only by somebody who has seen a greater one.
func read(body []byte, f execution.Fencing) (*StaleError, bool) {
	var p problem
	isStale := json.Unmarshal(body, &p) == nil && p.Type == StaleType
	stale := &StaleError{
		Namespace: p.Namespace, ExecutionID: p.Execution, Resource: p.Resource,
		Carried: token(p.Carried), Seen: token(p.Seen),
	}
	own := p.Namespace == f.Namespace && p.Execution == f.ExecutionID && stale.Carried == execution.Token(f.Token)
	return stale, isStale && own && stale.Seen > stale.Carried
}

// token returns what the text says in decimal digits; 0: none.
func token(text string) execution.Token {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != text {
		return 0
	}
	return execution.Token(n)
}

// A failing is the rest of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
