package execution

import "time"

// An EventKind says what the engine did or met.
type EventKind string

// The kinds of event, each with the fields that it fills in beside ID and Token.
const (
	EventClaimed      EventKind = "claimed"       // Workflow, Queue, Count (1)
	EventTakeover     EventKind = "takeover"      // Workflow, Queue: claimed after an expiry
	EventRefused      EventKind = "refused"       // Operation, Current: a fenced write was refused
	EventAcknowledged EventKind = "acknowledged"  // Workflow, Outcome
	EventReleased     EventKind = "released"      // Workflow, Err
	EventReaped       EventKind = "reaped"        // an expired lease was made claimable
	EventSwept        EventKind = "swept"         // a claim that nobody runs was released
	EventEvicted      EventKind = "evicted"       // cancelled or fenced by an operator
	EventRenewal      EventKind = "renewal"       // Err, or none: a renewal of the process's etcd lease
	EventRehomed      EventKind = "rehomed"       // Count: leases moved onto a new etcd lease
	EventUnconfirmed  EventKind = "unconfirmed"   // Count: deliveries cancelled by the watchdog
	EventWatchRestart EventKind = "watch-restart" // Err
	EventBadRecord    EventKind = "bad-record"    // Operation (the key), Err
	EventSwallowed    EventKind = "swallowed"     // Workflow, Operation (the call site)
	EventStep         EventKind = "step"          // Workflow, Operation (the step), Outcome (ran, replayed, failed, retried, waiting)
	EventWakeFailed   EventKind = "wake-failed"   // Operation (the step), Err: a wake stays owed
)

// An Event is told to an [Observer].
type Event struct {
	Kind      EventKind
	At        time.Time
	ID        ID
	Token     Token
	Current   Token
	Workflow  string
	Queue     string
	Operation string
	Outcome   string
	Count     int
	Err       error
}

// An Observer is told what the engine does, for metrics and logs. It must not
// block and is called from many goroutines at once. A nil Observer hears nothing.
type Observer func(Event)

// Tell passes the event on, with the time if it has none.
func (o Observer) Tell(e Event) {
	if o == nil {
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	o(e)
}
