package fencehttp

import (
	"context"
	"errors"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Resource is what tokens are compared for: something of the service's, as one
// execution of one namespace uses it. Tokens of different executions are never
// compared: see package fencesql.
type Resource struct {
	Namespace   string
	ExecutionID string
	Name        string // what the guard's Resource function returned
}

// A TokenStore remembers the greatest token of each resource.
type TokenStore interface {
	// Raise makes the token the resource's greatest if none that is greater was seen,
	// atomically, and returns the greatest, which may be the given one. What it
	// returned is never forgotten, as far as the store promises that.
	Raise(ctx context.Context, r Resource, token execution.Token) (execution.Token, error)
}

// errNoStore refuses a guard that could not remember anything.
var errNoStore = errors.New("fencehttp: a guard needs a Store: NewMemory or NewSQL")
