package store

import (
	"context"

	"github.com/holdfast-io/holdfast/internal/stores"
)

// A Client acts on the stores of one namespace, by a [Handle]. It is what the Stores of
// a holdfast.Client returns, and may be used by many goroutines at once.
type Client = stores.Access

// NewClient makes a client of the protocol's.
func NewClient(c *stores.Client) *Client { return stores.NewAccess(c) }

// Protocol returns what the client acts by.
func Protocol(c *Client) (*stores.Client, error) { return stores.Of(c) }

// ProtocolOf is Protocol of the client that the context carries.
func ProtocolOf(ctx context.Context) (*stores.Client, error) { return stores.FromContext(ctx) }

// NewContext returns a context that carries the client.
func NewContext(ctx context.Context, c *Client) context.Context { return stores.NewContext(ctx, c) }
