package fencehttp

import (
	"fmt"
	"net/http"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Transport sends requests with the headers of the step in whose context they were
// made, and returns a refusal as a [*StaleError] in place of the response. Make each
// request with the context that the step's function was given:
//
//	client := &http.Client{Transport: &fencehttp.Transport{}}
//	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
//	resp, err := client.Do(req)
//
// It tells the service which execution and step it works for. A client that also
// talks to strangers has one for each, with KeyOnly for those.
type Transport struct {
	// Base sends the requests; default http.DefaultTransport.
	Base http.RoundTripper
	// KeyOnly sends the idempotency key alone, to an API that knows no tokens.
	KeyOnly bool
	// Optional lets requests pass that come from no step, without headers. By default
	// they fail: the usual reason is a request made without the step's context.
	Optional bool
}

// RoundTrip sends the request. It leaves the given one as it is.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	f := execution.FencingOf(req.Context())
	if f == (execution.Fencing{}) && t.Optional {
		return t.base().RoundTrip(req)
	}
	sent := req.Clone(req.Context())
	if err := t.apply(sent, f); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // as a RoundTripper must
		}
		return nil, fmt.Errorf("%s %s: %w", req.Method, req.URL.Redacted(), err)
	}
	resp, err := t.base().RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	if err := Check(resp, f); err != nil {
		return nil, err
	}
	return resp, nil
}

func (t *Transport) apply(req *http.Request, f execution.Fencing) error {
	if !t.KeyOnly {
		return Apply(req, f)
	}
	if err := f.Validate(); err != nil {
		return err
	}
	return applyKey(req, f.Key)
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}
