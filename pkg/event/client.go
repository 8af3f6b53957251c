package event

import (
	"errors"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
	"github.com/holdfast-io/holdfast/pkg/leasing"
)

// Config says where the executions are.
type Config struct {
	Store      etcd.Store      // required
	Space      keyspace.Space  // required
	Executions *leasing.Client // of the same namespace; required
}

// A Client sends and finds events in one namespace. It may be used by many goroutines at
// once.
type Client struct{ cfg Config }

// New returns a client.
func New(cfg Config) (*Client, error) {
	if cfg.Store == nil || cfg.Space == (keyspace.Space{}) || cfg.Executions == nil {
		return nil, errors.New("event: Store, Space and Executions are required")
	}
	return &Client{cfg: cfg}, nil
}

// An Inbox is where the events of one name are that were sent to an execution.
type Inbox struct {
	Execution   execution.ID
	Incarnation int64
	Name        string
}

func (b Inbox) key(id string) keyspace.EventKey {
	return keyspace.EventKey{ID: string(b.Execution), Incarnation: b.Incarnation, Name: b.Name, Event: id}
}
