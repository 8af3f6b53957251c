// Package door is what package holdfast lets other packages of this module replace
// in its clients and workers: etcd itself, first of all. Its one user outside of
// tests is holdfasttest.
package door

import (
	"context"
	"time"

	"github.com/holdfast-io/holdfast/internal/etcd"
)

// A Config replaces parts of a client. A zero field replaces nothing.
type Config struct {
	// Store is used in place of a connection. It stays its owner's to close.
	Store etcd.Store

	// Name is the process's, by which it begins its scans; default host/pid.
	Name string

	// Jitter returns a part of the bound by which a pause is varied; default: a
	// random one.
	Jitter func(bound time.Duration) time.Duration

	// Around is called for each attempt of a step, in place of the step's function.
	Around Around
}

// An Around calls a step's function, or does not, with the context that the function
// would have been given or one derived from it. What it returns is taken for the
// function's answer.
type Around func(ctx context.Context, step string, fn func(context.Context) (any, error)) (any, error)
