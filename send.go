package holdfast

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/holdfast-io/holdfast/pkg/event"
	"github.com/holdfast-io/holdfast/pkg/execution"
)

// A SendOption configures one [Client.Send].
type SendOption func(*sendConfig)

type sendConfig struct {
	id    string
	given bool
}

// EventID gives the event its id, 1 to 512 bytes of UTF-8 without NUL, among those of
// its name that are sent to the execution; default: a random one. To send it again, with
// the same payload, does nothing, whether or not it was awaited meanwhile.
func EventID(id string) SendOption {
	return func(c *sendConfig) { c.id, c.given = id, true }
}

// Send sends an event of the name to the execution with the id, for one [Await] of it.
// The payload travels as JSON, and may have about 1 MiB. Events wait until they are
// awaited, in the order in which they have arrived; when Send returns nil the event is
// there, and the execution is delivered.
//
// An unknown id gives an error that wraps [execution.ErrNotFound], and an execution that
// has ended one that wraps [execution.ErrTerminal]; an [EventID] that another payload
// was sent with gives one that wraps [execution.ErrConflict]. In these cases nothing
// was sent. After another error it may have been: send it again with the same EventID.
func (c *Client) Send(ctx context.Context, id, name string, payload any, opts ...SendOption) error {
	if c == nil {
		return fmt.Errorf("send event %q: %w", name, errNoClient)
	}
	var cfg sendConfig
	for _, o := range opts {
		if o == nil {
			return fmt.Errorf("send event %q: an option is nil", name)
		}
		o(&cfg)
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("send event %q: payload can't be encoded as JSON: %w", name, err)
	}
	if cfg.given {
		if err := execution.ValidateName("event id", cfg.id); err != nil {
			return fmt.Errorf("send event %q: %w", name, err)
		}
	}
	_, err = c.events.Send(ctx, event.Message{Execution: execution.ID(id), Name: name, ID: cfg.id, Payload: raw})
	return err
}
