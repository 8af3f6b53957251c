package start

import (
	"errors"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// Config says where executions are started.
type Config struct {
	Store      etcd.Store      // required
	Space      keyspace.Space  // required
	Executions *leasing.Client // of the same namespace; required

	// NewID returns the id of an execution for which the caller chooses none; default:
	// execution.NewID. One that is taken is asked for again.
	NewID func() execution.ID
}

// A Client starts executions in one namespace. It may be used by many goroutines at
// once.
type Client struct{ cfg Config }

// New returns a client.
func New(cfg Config) (*Client, error) {
	if cfg.Store == nil || cfg.Space == (keyspace.Space{}) || cfg.Executions == nil {
		return nil, errors.New("start: Store, Space and Executions are required")
	}
	if cfg.NewID == nil {
		cfg.NewID = execution.NewID
	}
	return &Client{cfg: cfg}, nil
}

func callKey(step execution.StepID) keyspace.CallKey {
	return keyspace.CallKey{ID: string(step.Execution), Incarnation: step.Incarnation, Run: step.Run, Step: step.Step}
}
