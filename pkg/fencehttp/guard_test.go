package fencehttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/fencehttp"
	"github.com/holdfast-io/holdfast/pkg/fencesql"
)

// A stage is a guarded handler, called directly.
type stage struct {
	t       *testing.T
	handler http.Handler
}

// newStage guards next, which may be nil, with a memory unless the config has a store.
func newStage(t *testing.T, cfg fencehttp.Config, next http.HandlerFunc) *stage {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = memory(t, 100)
	}
	g, err := fencehttp.New(cfg)
	must(t, err)
	if next == nil {
		next = func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "done") }
	}
	return &stage{t, g.Wrap(next)}
}

func memory(t *testing.T, limit int) *fencehttp.Memory {
	t.Helper()
	m, err := fencehttp.NewMemory(limit)
	must(t, err)
	return m
}

// send sends a POST with the headers of the fencing.
func (s *stage) send(ctx context.Context, path string, f execution.Fencing) *httptest.ResponseRecorder {
	s.t.Helper()
	req := httptest.NewRequestWithContext(ctx, http.MethodPost, path, nil)
	must(s.t, fencehttp.Apply(req, f))
	return s.do(req)
}

func (s *stage) do(req *http.Request) *httptest.ResponseRecorder {
	s.t.Helper()
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, req)
	return w
}

func (s *stage) want(status int, path string, f execution.Fencing) {
	s.t.Helper()
	if got := s.send(s.t.Context(), path, f).Code; got != status {
		s.t.Errorf("%s under token %d: status %d, want %d", path, f.Token, got, status)
	}
}

func TestGuardComparesTokens(t *testing.T) {
	t.Parallel()
	s := newStage(t, fencehttp.Config{}, nil)
	other := fencing(900)
	other.ExecutionID = "order-43"
	elsewhere := fencing(900)
	elsewhere.Namespace = "tests"
	for _, c := range []struct {
		fencing execution.Fencing
		status  int
	}{
		{fencing(101), 200},
		{other, 200},
		{elsewhere, 200},
		{fencing(101), 200},
		{fencing(105), 200},
		{fencing(101), 412},
		{fencing(104), 412},
		{fencing(105), 200},
	} {
		s.want(c.status, "/charge", c.fencing)
	}
}

// The refusal is a format that other languages' clients read.
func TestRefusalIsFrozen(t *testing.T) {
	t.Parallel()
	s := newStage(t, fencehttp.Config{}, nil)
	s.want(200, "/charge", fencing(1<<60))
	resp := s.send(t.Context(), "/charge", fencing(101))
	const want = `{"type":"https://github.com/holdfast-io/holdfast/blob/main/docs/fencing.md#a-stale-token",` +
		`"title":"The fencing token is stale.","status":412,` +
		`"detail":"request for \"everything\": lease lost: execution \"order-42\" carried token 101, and token 1152921504606846976 has been there",` +
		`"namespace":"default","execution":"order-42","resource":"everything","carried":"101","seen":"1152921504606846976"}`
	if got := resp.Body.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := resp.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("the media type is %q", got)
	}
}

func TestGuardTellsResourcesApart(t *testing.T) {
	t.Parallel()
	s := newStage(t, fencehttp.Config{Resource: func(r *http.Request) string { return r.URL.Query().Get("account") }}, nil)
	s.want(200, "/charge?account=tea", fencing(105))
	s.want(200, "/charge?account=coffee", fencing(101))
	s.want(412, "/charge?account=tea", fencing(101))
	for _, bad := range []string{"", "%00", "%FF", strings.Repeat("a", 513)} {
		s.want(400, "/charge?account="+bad, fencing(105))
	}
}

func TestGuardAnswersBadRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header   http.Header
		optional bool
		status   int
		says     string
	}{
		"no headers":               {nil, false, 428, "Holdfast-Token, Holdfast-Namespace and Holdfast-Execution"},
		"no headers, optional":     {nil, true, 200, "done"},
		"malformed":                {http.Header{"Holdfast-Token": {"x"}}, false, 400, `header Holdfast-Token \"x\" is not a token`},
		"malformed, optional":      {http.Header{"Holdfast-Token": {"x"}}, true, 400, "is not a token"},
		"some of them":             {http.Header{"Holdfast-Token": {"105"}}, false, 400, "fencing namespace"},
		"some of them, optional":   {http.Header{"Holdfast-Step": {"charge"}}, true, 400, "Holdfast-Token"},
		"a key alone":              {http.Header{"Idempotency-Key": {"a"}}, false, 428, "want the headers"},
		"a key alone and optional": {http.Header{"Idempotency-Key": {"a"}}, true, 200, "done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, fencehttp.Config{Optional: c.optional}, nil)
			req := httptest.NewRequest(http.MethodPost, "/charge", nil)
			req.Header = c.header
			resp := s.do(req)
			if got := resp.Body.String(); resp.Code != c.status || !strings.Contains(got, c.says) {
				t.Errorf("got %d %s, want %d and that it says %q", resp.Code, got, c.status, c.says)
			}
		})
	}
}

// The handler knows whose work it does.
func TestHandlerIsGivenTheFencing(t *testing.T) {
	t.Parallel()
	s := newStage(t, fencehttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%+v", execution.FencingOf(r.Context()))
	})
	f := fencing(105)
	if got, want := s.send(t.Context(), "/charge", f).Body.String(), fmt.Sprintf("%+v", f); got != want {
		t.Errorf("the handler was given %s, want %s", got, want)
	}
}

// A handler that guards its own rows hands on what they say.
func TestRefuseAnswersForRows(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	if !fencehttp.Refuse(w, fmt.Errorf("save: %w", &fencesql.StaleError{
		Namespace: "default", ExecutionID: "order-42", Resource: "accounts", Carried: 101, Seen: 105,
	})) {
		t.Fatal("a stale row was not answered")
	}
	resp := w.Result()
	defer resp.Body.Close()
	var stale *fencehttp.StaleError
	if !errors.As(fencehttp.Check(resp, fencing(101)), &stale) || stale.Resource != "accounts" || stale.Seen != 105 {
		t.Errorf("the client reads %+v", stale)
	}
	for _, err := range []error{nil, io.EOF, execution.ErrLost} {
		if w := httptest.NewRecorder(); fencehttp.Refuse(w, err) || w.Body.Len() > 0 {
			t.Errorf("%v was answered as a stale token", err)
		}
	}
}

// A failing store lets nothing pass.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("password of the database is secret")
	var told error
	s := newStage(t, fencehttp.Config{
		Store:  raise(func() (execution.Token, error) { return 0, broken }),
		Failed: func(_ *http.Request, err error) { told = err },
	}, func(http.ResponseWriter, *http.Request) { t.Error("the handler was called") })
	resp := s.send(t.Context(), "/charge", fencing(105))
	if got := resp.Body.String(); resp.Code != http.StatusServiceUnavailable || strings.Contains(got, "secret") || !strings.Contains(got, "try again") {
		t.Errorf("got %d %s", resp.Code, got)
	}
	if !errors.Is(told, broken) {
		t.Errorf("Failed was told %v", told)
	}
}

type raise func() (execution.Token, error)

func (r raise) Raise(context.Context, fencehttp.Resource, execution.Token) (execution.Token, error) {
	return r()
}

func TestGuardNeedsAStore(t *testing.T) {
	t.Parallel()
	if _, err := fencehttp.New(fencehttp.Config{}); err == nil {
		t.Error("a guard without a store was accepted")
	}
}

// A late holder's request that is being handled when the current one's comes: it is
// told, and the current one's is handled after it.
func TestGreaterTokenWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, finish := make(chan int64, 10), make(chan struct{})
		causes := make(chan error, 10)
		s := newStage(t, fencehttp.Config{}, func(w http.ResponseWriter, r *http.Request) {
			token := execution.FencingOf(r.Context()).Token
			began <- token
			if token == 101 {
				<-r.Context().Done()
				causes <- context.Cause(r.Context())
				<-finish
			}
		})
		done := make(chan int, 10)
		send := func(token int64) {
			go func() { done <- s.send(t.Context(), "/charge", fencing(token)).Code }()
			synctest.Wait()
		}
		send(101)
		send(101) // a parallel step
		if len(began) != 2 || len(causes) != 0 {
			t.Fatalf("%d requests of one token are handled at once, %d were cancelled", len(began), len(causes))
		}
		send(105)
		if len(began) != 2 || len(causes) != 2 {
			t.Fatalf("%d requests have begun, %d were cancelled; want the greater token to wait", len(began), len(causes))
		}
		var stale *fencehttp.StaleError
		if err := <-causes; !errors.As(err, &stale) || stale.Carried != 101 || stale.Seen != 105 {
			t.Errorf("the late request ended because of %v", err)
		}
		send(101) // comes too late to join them
		close(finish)
		synctest.Wait()
		statuses := map[int]int{}
		for range 4 {
			statuses[<-done]++
		}
		if statuses[200] < 3 || statuses[200]+statuses[412] != 4 {
			t.Errorf("the statuses are %v", statuses)
		}
		s.want(412, "/charge", fencing(101))
		s.want(200, "/charge", fencing(105))
	})
}

// While the current holder's request is handled, a late one is refused at once.
func TestSmallerTokenIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		s := newStage(t, fencehttp.Config{}, func(http.ResponseWriter, *http.Request) { <-finish })
		done := make(chan int, 1)
		go func() { done <- s.send(t.Context(), "/charge", fencing(105)).Code }()
		synctest.Wait()
		s.want(412, "/charge", fencing(101))
		close(finish)
		if got := <-done; got != 200 {
			t.Errorf("the current holder's status is %d", got)
		}
	})
}

// A client that gives up waiting is let go, and what panics leaves nothing behind.
func TestRequestsLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		s := newStage(t, fencehttp.Config{}, func(http.ResponseWriter, *http.Request) {
			<-finish
			panic("the handler panics")
		})
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			s.send(t.Context(), "/charge", fencing(101))
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		status := make(chan int, 1)
		go func() { status <- s.send(ctx, "/charge", fencing(105)).Code }()
		synctest.Wait()
		cancel()
		if got := <-status; got != 503 {
			t.Errorf("the status of a client that has gone is %d", got)
		}
		close(finish)
		if got := <-done; got != "the handler panics" {
			t.Errorf("recovered %v", got)
		}
		synctest.Wait()
	})
}

// The greater token comes while the store is being asked for the smaller one.
func TestSupersededWhileTheStoreIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finish, asked := make(chan struct{}), 0
		s := newStage(t, fencehttp.Config{Store: raise(func() (execution.Token, error) {
			if asked++; asked == 1 {
				<-finish
				return 101, nil
			}
			return 105, nil
		})}, func(_ http.ResponseWriter, r *http.Request) {
			if got := execution.FencingOf(r.Context()).Token; got != 105 {
				t.Errorf("token %d was handled", got)
			}
		})
		done := make(chan int, 2)
		for _, token := range []int64{101, 105} {
			go func() { done <- s.send(t.Context(), "/charge", fencing(token)).Code }()
			synctest.Wait()
		}
		close(finish)
		if got := <-done + <-done; got != 200+412 {
			t.Errorf("the statuses add up to %d", got)
		}
	})
}

// Problems are JSON, whatever the names hold.
func TestProblemsAreJSON(t *testing.T) {
	t.Parallel()
	s := newStage(t, fencehttp.Config{}, nil)
	f := fencing(105)
	f.ExecutionID = "\"</script>\u2028🦀"
	s.want(200, "/charge", f)
	f.Token = 101
	var problem map[string]any
	must(t, json.Unmarshal(s.send(t.Context(), "/charge", f).Body.Bytes(), &problem))
	if problem["execution"] != f.ExecutionID {
		t.Errorf("the execution is %q", problem["execution"])
	}
}
