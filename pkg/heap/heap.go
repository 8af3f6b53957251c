package heap

import (
	"errors"

	"github.com/holdfast-io/holdfast/internal/etcd"
	"github.com/holdfast-io/holdfast/internal/keyspace"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// Config says where the records are.
type Config struct {
	Store    etcd.Store     // required
	Space    keyspace.Space // required
	Observer execution.Observer
	// MaxResponseBytes bounds a step's response; default 1 MiB. Etcd itself refuses
	// requests over 1.5 MiB unless configured otherwise.
	MaxResponseBytes int
}

// A Client reads and writes step records. It may be used by many goroutines.
type Client struct{ cfg Config }

// New returns a client, or an error if the configuration lacks something.
func New(cfg Config) (*Client, error) {
	if cfg.Store == nil || cfg.Space == (keyspace.Space{}) {
		return nil, errors.New("heap: Store and Space are required")
	}
	if cfg.MaxResponseBytes < 0 {
		return nil, &execution.InvalidError{What: "MaxResponseBytes", Value: "negative", Reason: "must be positive, or 0 for 1 MiB"}
	}
	if cfg.MaxResponseBytes == 0 {
		cfg.MaxResponseBytes = execution.MaxPayloadBytes
	}
	return &Client{cfg: cfg}, nil
}
