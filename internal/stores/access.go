package stores

import (
	"context"
	"errors"
)

// An Access is a client as it is handed to users of the module: they pass it on, and
// only packages of the module act by it. Package store shows it as its Client.
type Access struct{ client *Client }

// NewAccess returns the access to the client.
func NewAccess(c *Client) *Access { return &Access{client: c} }

var errNoAccess = errors.New("the client is nil; use the Stores of a holdfast.Client")

// Of returns what the access is to. A nil one is an error: users may pass it.
func Of(a *Access) (*Client, error) {
	if a == nil || a.client == nil {
		return nil, errNoAccess
	}
	return a.client, nil
}

type accessKey struct{}

// NewContext returns a context that carries the access to the calls of a workflow.
// Package holdfast calls it for each delivery.
func NewContext(ctx context.Context, a *Access) context.Context {
	return context.WithValue(ctx, accessKey{}, a)
}

// FromContext is [Of] the access that the context carries.
func FromContext(ctx context.Context) (*Client, error) {
	a, _ := ctx.Value(accessKey{}).(*Access)
	return Of(a)
}
