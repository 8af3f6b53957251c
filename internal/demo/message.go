package demo

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/holdfast-io/holdfast/internal/shop"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A Message is a line of JSON that a child process says to the demo on its
// standard output. One field is set.
type Message struct {
	// Listening is the provider's URL, once it answers there.
	Listening string `json:"listening,omitempty"`
	// Notice tells what the provider did.
	Notice *shop.Notice `json:"notice,omitempty"`
	// Event tells what a worker's engine met.
	Event *Event `json:"event,omitempty"`
}

// An Event is the part of an engine's event that the demo shows.
type Event struct {
	Kind      execution.EventKind `json:"kind"`
	ID        execution.ID        `json:"id"`
	Operation string              `json:"operation,omitempty"`
	Token     execution.Token     `json:"token"`
	Current   execution.Token     `json:"current,omitempty"`
}

// A Speaker writes messages. It may be used by many goroutines at once.
type Speaker struct {
	mu  sync.Mutex
	out *json.Encoder
}

// NewSpeaker returns a speaker that writes to w. The demo reads whatever comes and
// keeps it, so that a write doesn't block.
func NewSpeaker(w io.Writer) *Speaker { return &Speaker{out: json.NewEncoder(w)} }

// Say writes a message. Where nobody listens any more there is nothing to be done
// about it: the process is about to end with its parent.
func (s *Speaker) Say(m Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(m) //nolint:errchkjson // see above
}

// Notify passes on what the provider did.
func (s *Speaker) Notify(n shop.Notice) { s.Say(Message{Notice: &n}) }

// Observe passes on the takeovers and the refused writes of a worker.
func (s *Speaker) Observe(e execution.Event) {
	if e.Kind != execution.EventTakeover && e.Kind != execution.EventRefused {
		return
	}
	s.Say(Message{Event: &Event{Kind: e.Kind, ID: e.ID, Operation: e.Operation, Token: e.Token, Current: e.Current}})
}

// A command is a line of JSON that the demo says to the provider on its standard
// input.
type command struct {
	Release int `json:"release"` // the hold whose answer may go
}

// Obey returns what carries out the demo's commands to the provider.
func Obey(p *shop.Provider) func(line []byte) {
	return func(line []byte) {
		var c command
		if json.Unmarshal(line, &c) == nil {
			_ = p.Release(c.Release) // the demo names holds that it was told of
		}
	}
}
