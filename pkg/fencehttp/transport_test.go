package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencehttp"
)

// serve runs a guarded service, and returns a client of it and its address.
func serve(t *testing.T, transport *fencehttp.Transport, next http.HandlerFunc) (*http.Client, string) {
	t.Helper()
	server := httptest.NewServer(newStage(t, fencehttp.Config{}, next).handler)
	t.Cleanup(server.Close)
	transport.Base = server.Client().Transport
	return &http.Client{Transport: transport}, server.URL
}

func post(ctx context.Context, client *http.Client, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/charge", strings.NewReader("5"))
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	return string(body)
}

func under(t *testing.T, token int64) context.Context {
	t.Helper()
	return execution.WithFencing(t.Context(), fencing(token))
}

func TestTransportEndsADeliveryAsLost(t *testing.T) {
	t.Parallel()
	client, url := serve(t, &fencehttp.Transport{}, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v under %s", body, err, r.Header.Get("Idempotency-Key"))
	})
	resp, err := post(under(t, 105), client, url)
	must(t, err)
	if got, want := text(t, resp), `5 <nil> under "hf-3d40458d03d99c12a53416ff45c7344e"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	must(t, resp.Body.Close())
	_, err = post(under(t, 101), client, url) //nolint:bodyclose // there is none
	var stale *fencehttp.StaleError
	var lost *execution.LostError
	if !errors.Is(err, execution.ErrLost) || !errors.As(err, &stale) || !errors.As(err, &lost) {
		t.Fatalf("got %v, want lost", err)
	}
	if want := (fencehttp.StaleError{Namespace: "default", ExecutionID: "order-42", Resource: "everything", Carried: 101, Seen: 105}); *stale != want {
		t.Errorf("got %+v, want %+v", *stale, want)
	}
	if lost.ID != "order-42" || lost.Carried != 101 || lost.Current != 105 {
		t.Errorf("the engine sees %+v", lost)
	}
}

// A sent is what a base transport was given.
type sent struct {
	header http.Header
	answer func(*http.Request) (*http.Response, error)
}

func (s *sent) RoundTrip(req *http.Request) (*http.Response, error) {
	s.header = req.Header
	return s.answer(req)
}

func empty(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}, nil
}

func TestTransportChoosesHeaders(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		transport fencehttp.Transport
		fencing   execution.Fencing
		want      int    // headers of ours
		says      string // the error; empty: it is sent
	}{
		"all":                       {fencehttp.Transport{}, fencing(105), 5, ""},
		"the key alone":             {fencehttp.Transport{KeyOnly: true}, fencing(105), 1, ""},
		"no step":                   {fencehttp.Transport{}, execution.Fencing{}, 0, "take it from the context that the step's function was given"},
		"no step, the key alone":    {fencehttp.Transport{KeyOnly: true}, execution.Fencing{}, 0, "take it from the context"},
		"no step, optional":         {fencehttp.Transport{Optional: true}, execution.Fencing{}, 0, ""},
		"an odd step, and optional": {fencehttp.Transport{Optional: true}, execution.Fencing{Token: 1}, 0, "fencing namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := &sent{answer: empty}
			c.transport.Base = base
			body := &closed{Reader: strings.NewReader("5")}
			req, err := http.NewRequestWithContext(execution.WithFencing(t.Context(), c.fencing), http.MethodPost, "http://user:secret@example.com/charge", body)
			must(t, err)
			resp, err := c.transport.RoundTrip(req)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") || !body.closed || base.header != nil {
					t.Errorf("got %v, closed %v, sent %v; want an error that says %q", err, body.closed, base.header, c.says)
				}
				return
			}
			must(t, err)
			must(t, resp.Body.Close())
			if len(base.header) != c.want || len(req.Header) != 0 {
				t.Errorf("sent %v, want %d of ours; the request has %v now", base.header, c.want, req.Header)
			}
		})
	}
}

type closed struct {
	io.Reader

	closed bool
}

func (c *closed) Close() error {
	c.closed = true
	return nil
}

func TestTransportHandsErrorsOn(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	transport := &fencehttp.Transport{Base: &sent{answer: func(*http.Request) (*http.Response, error) { return nil, down }}}
	_, err := post(under(t, 105), &http.Client{Transport: transport}, "http://example.com") //nolint:bodyclose // there is none
	if !errors.Is(err, down) || errors.Is(err, execution.ErrLost) {
		t.Errorf("got %v, want %v", err, down)
	}
}

// Lost is said only by a refusal of the own token, after a greater one. Whatever else
// comes is handed on whole.
func TestCheckBelievesOnlyItsOwnRefusal(t *testing.T) {
	t.Parallel()
	const media = "application/problem+json; charset=utf-8"
	refusal := func(change string, to string) string {
		return strings.Replace(`{"type":"`+fencehttp.StaleType+`","status":412,"namespace":"default","execution":"order-42","resource":"a","carried":"101","seen":"105"}`, change, to, 1)
	}
	for name, c := range map[string]struct {
		status int
		media  string
		body   string
		lost   bool
	}{
		"its own":               {412, media, refusal("", ""), true},
		"with more members":     {412, media, refusal(`"status"`, `"later":true,"status"`), true},
		"another status":        {409, media, refusal("", ""), false},
		"another media type":    {412, "application/json", refusal("", ""), false},
		"no media type":         {412, "", refusal("", ""), false},
		"another type":          {412, media, refusal("a-stale-token", "another"), false},
		"another token":         {412, media, refusal(`"101"`, `"100"`), false},
		"another execution":     {412, media, refusal("order-42", "order-43"), false},
		"another namespace":     {412, media, refusal("default", "tests"), false},
		"after the same token":  {412, media, refusal(`"105"`, `"101"`), false},
		"after a smaller token": {412, media, refusal(`"105"`, `"100"`), false},
		"a number for a token":  {412, media, refusal(`"105"`, `105`), false},
		"a word for a token":    {412, media, refusal(`"101"`, `"many"`), false},
		"no JSON":               {412, media, "stale", false},
		"a long body":           {412, media, strings.Repeat(" ", 65<<10) + refusal("", ""), false},
		"no body":               {412, media, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := &closed{Reader: strings.NewReader(c.body)}
			resp := &http.Response{StatusCode: c.status, Header: http.Header{"Content-Type": {c.media}}, Body: body}
			err := fencehttp.Check(resp, fencing(101))
			if errors.Is(err, execution.ErrLost) != c.lost || c.lost != (err != nil) || body.closed != c.lost {
				t.Fatalf("got %v, closed %v; want it lost: %v", err, body.closed, c.lost)
			}
			if c.lost {
				return
			}
			if got := text(t, resp); got != c.body {
				t.Errorf("of a body of %d bytes %d are left", len(c.body), len(got))
			}
			must(t, resp.Body.Close())
			if !body.closed {
				t.Error("closing the response does not close the body")
			}
		})
	}
}

func TestCheckHandsAReadErrorOn(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset")
	resp := &http.Response{
		StatusCode: http.StatusPreconditionFailed, Header: http.Header{"Content-Type": {"application/problem+json"}},
		Body: io.NopCloser(io.MultiReader(strings.NewReader("{"), broken{reset})),
	}
	must(t, fencehttp.Check(resp, fencing(101)))
	if body, err := io.ReadAll(resp.Body); string(body) != "{" || !errors.Is(err, reset) {
		t.Errorf("the body is %q, %v", body, err)
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }
