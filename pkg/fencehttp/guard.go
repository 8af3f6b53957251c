package fencehttp

import (
	"context"
	"net/http"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// everything is the resource of a guard that tells none apart.
const everything = "everything"

// missing tells a client what a request without the headers lacks.
const missing = "want the headers " + TokenHeader + ", " + NamespaceHeader + " and " + ExecutionHeader + ", as a step's request has them"

// Config says what a guard guards.
type Config struct {
	Store TokenStore // required
	// Resource returns the name of what the request changes, 1 to 512 bytes of UTF-8;
	// default: the same for all requests, so that a token counts for everything that
	// its execution does here.
	Resource func(*http.Request) string
	// Optional lets requests pass, unguarded, that have none of the headers. By
	// default they are refused with 428.
	Optional bool
	// Failed is told why the store failed, which the client is not; default: nobody is.
	Failed func(*http.Request, error)
}

// A Guard is the middleware of a service that refuses requests of late holders. It may
// be used by many goroutines at once, and wrap many handlers.
type Guard struct {
	cfg     Config
	flights flights
}

// New returns a guard. It refuses a config without a store.
func New(cfg Config) (*Guard, error) {
	if cfg.Store == nil {
		return nil, errNoStore
	}
	if cfg.Resource == nil {
		cfg.Resource = func(*http.Request) string { return everything }
	}
	if cfg.Failed == nil {
		cfg.Failed = func(*http.Request, error) {}
	}
	return &Guard{cfg: cfg}, nil
}

// Wrap returns a handler that passes a request on to next if its token is not older
// than another one that was seen for the resource. Its context carries the fencing, as
// [execution.FencingOf] returns it. Requests of the same token are handled at the same
// time; one of a greater token ends the contexts of those before it, with a
// [*StaleError] as the cause, and waits until they are over.
//
// Everything else is answered with problem details: a stale token with 412, malformed
// headers with 400, missing ones with 428, and a store that fails with 503.
func (g *Guard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, found, err := Parse(r.Header)
		switch {
		case err != nil:
			refuse(w, http.StatusBadRequest, "The fencing headers are malformed.", err.Error())
		case !found && g.cfg.Optional:
			next.ServeHTTP(w, r)
		case !found:
			refuse(w, http.StatusPreconditionRequired, "The fencing headers are missing.", missing)
		default:
			g.serve(w, r, f, next)
		}
	})
}

func (g *Guard) serve(w http.ResponseWriter, r *http.Request, f execution.Fencing, next http.Handler) {
	res := Resource{Namespace: f.Namespace, ExecutionID: f.ExecutionID, Name: g.cfg.Resource(r)}
	if err := execution.ValidateName("resource", res.Name); err != nil {
		refuse(w, http.StatusBadRequest, "The request names no resource.", err.Error())
		return
	}
	ctx, leave, err := g.admit(r.Context(), res, execution.Token(f.Token))
	switch {
	case err == nil:
		defer leave()
		next.ServeHTTP(w, r.WithContext(execution.WithFencing(ctx, f)))
	case !Refuse(w, err):
		g.cfg.Failed(r, err)
		refuse(w, http.StatusServiceUnavailable, "The token could not be checked.", "nothing was done; try again")
	}
}

// admit returns the context of a request that may be handled, and its end.
func (g *Guard) admit(ctx context.Context, r Resource, token execution.Token) (context.Context, func(), error) {
	within, leave, err := g.flights.enter(ctx, r, token)
	if err != nil {
		return nil, nil, err
	}
	greatest, err := g.cfg.Store.Raise(within, r, token)
	if err == nil && greatest > token {
		err = stale(r, token, greatest)
	}
	// A greater token that came meanwhile waits for the end of this request.
	if err == nil && within.Err() != nil {
		err = context.Cause(within)
	}
	if err != nil {
		leave()
		return nil, nil, err
	}
	return within, leave, nil
}

func refuse(w http.ResponseWriter, status int, title, detail string) {
	answer(w, problem{Title: title, Status: status, Detail: detail})
}
