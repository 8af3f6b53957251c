package keyspace

// An EventKey names an event that was sent to an execution.
type EventKey struct {
	ID          string // the execution's
	Incarnation int64  // not negative
	Name        string
	Event       string // its own id, which tells it from others of the name
}

func (k EventKey) segments() string {
	return eventSegments(k.ID, k.Incarnation) + escape(k.Name) + "/" + escape(k.Event)
}

func eventSegments(id string, inc int64) string {
	return escape(id) + "/" + number(inc, revisionDigits) + "/"
}

// Event returns the key of an event that no step has applied. Events are ordered by
// their create-revisions, not by their keys.
func (s Space) Event(k EventKey) string { return s.root + "event/" + k.segments() }

// EventsNamed returns the span of the execution's events of one name.
func (s Space) EventsNamed(id string, inc int64, name string) Span {
	return prefixSpan(s.root + "event/" + eventSegments(id, inc) + escape(name) + "/")
}

// EventsOf returns the span of the execution's events.
func (s Space) EventsOf(id string, inc int64) Span {
	return prefixSpan(s.root + "event/" + eventSegments(id, inc))
}

// AnyEvents returns the span of the id's events, whatever its incarnation.
func (s Space) AnyEvents(id string) Span { return prefixSpan(s.root + "event/" + escape(id) + "/") }

// Events returns the span of the events of all executions.
func (s Space) Events() Span { return prefixSpan(s.root + "event/") }

// Applied returns the key of the receipt of an event that a step has applied.
func (s Space) Applied(k EventKey) string { return s.root + "applied/" + k.segments() }

// AppliedOf returns the span of the receipts of the execution's events.
func (s Space) AppliedOf(id string, inc int64) Span {
	return prefixSpan(s.root + "applied/" + eventSegments(id, inc))
}

// AllApplied returns the span of the receipts of the events of all executions.
func (s Space) AllApplied() Span { return prefixSpan(s.root + "applied/") }

// parseEventKey reads an id, an incarnation, a name and an event's id.
func parseEventKey(seg []string) (k EventKey, err error) {
	if k.ID, err = unescape(seg[0]); err != nil {
		return k, err
	}
	if k.Incarnation, err = parseNumber(seg[1], revisionDigits); err != nil {
		return k, err
	}
	if k.Name, err = unescape(seg[2]); err != nil {
		return k, err
	}
	k.Event, err = unescape(seg[3])
	return k, err
}
