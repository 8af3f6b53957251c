package store

import "github.com/holdfast-io/holdfast/internal/stores"

// A Client gives access to the stores of one namespace. The Stores of a
// holdfast.Client returns it, and it is passed to [Ref.On] and [Store.List]. It may be
// used by many goroutines at once.
type Client = stores.Access
