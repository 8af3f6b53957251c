package fencehttp

import (
	"container/list"
	"context"
	"strconv"
	"sync"

	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Memory is a [TokenStore] in this process's memory. It forgets with the process,
// and beyond its limit the resource that was not seen for the longest time. What it
// forgets is not protected any more: the next token to come is accepted, be it old. It
// is for tests, and for one process that may be restarted only after every frozen
// worker has woken up or died.
type Memory struct {
	limit int

	mu     sync.Mutex
	tokens map[Resource]*list.Element // of seen
	order  list.List                  // of seen, the latest one first
}

type seen struct {
	resource Resource
	token    execution.Token
}

// NewMemory returns a store that remembers so many resources, at least 1. Each takes
// some 300 bytes and its names.
func NewMemory(limit int) (*Memory, error) {
	if limit < 1 {
		return nil, &execution.InvalidError{What: "limit of remembered resources", Value: strconv.Itoa(limit), Reason: "is less than 1"}
	}
	return &Memory{limit: limit, tokens: map[Resource]*list.Element{}}, nil
}

// Raise never fails.
func (m *Memory) Raise(_ context.Context, r Resource, token execution.Token) (execution.Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, found := m.tokens[r]; found {
		s := e.Value.(*seen) //nolint:forcetypeassert // it holds nothing else
		s.token = max(s.token, token)
		m.order.MoveToFront(e)
		return s.token, nil
	}
	m.tokens[r] = m.order.PushFront(&seen{r, token})
	if len(m.tokens) > m.limit {
		oldest := m.order.Remove(m.order.Back()).(*seen) //nolint:forcetypeassert // as above
		delete(m.tokens, oldest.resource)
	}
	return token, nil
}
