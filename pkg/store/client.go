package store

import (
	"context"
	"errors"

	"github.com/holdfast-io/holdfast/internal/stores"
)

// A Client acts on the stores of one namespace. It is holdfast's Client.Stores. It may
// be used by many goroutines at once.
type Client struct{ stores *stores.Client }

// NewClient makes a client of the protocol's. Package holdfast calls it.
func NewClient(c *stores.Client) *Client { return &Client{stores: c} }

// protocol returns what the client acts by.
func (c *Client) protocol() (*stores.Client, error) {
	if c == nil || c.stores == nil {
		return nil, errors.New("the client is nil; use the Stores of a holdfast.Client")
	}
	return c.stores, nil
}

// Protocol returns what the client acts by. It is for packages of this module that keep
// what is theirs as stores.
func Protocol(c *Client) (*stores.Client, error) { return c.protocol() }

// ProtocolOf is Protocol of the client that the context carries: see [NewContext].
func ProtocolOf(ctx context.Context) (*stores.Client, error) { return clientOf(ctx).protocol() }

type clientKey struct{}

// NewContext returns a context that carries the client to the workflow functions of
// this package. Package holdfast calls it for each delivery.
func NewContext(ctx context.Context, c *Client) context.Context {
	return context.WithValue(ctx, clientKey{}, c)
}

// clientOf returns the client that the context carries, nil if there is none.
func clientOf(ctx context.Context) *Client {
	c, _ := ctx.Value(clientKey{}).(*Client)
	return c
}
