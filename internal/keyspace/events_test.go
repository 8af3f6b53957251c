package keyspace_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/internal/keyspace"
)

// The forms are frozen, as those of TestKeyGoldens are.
func TestEventKeyGoldens(t *testing.T) {
	t.Parallel()
	s := space(t, "/holdfast", "shop/eu")
	event := keyspace.EventKey{ID: "order/42", Incarnation: 7, Name: "approved by", Event: "mail/1"}
	wide := keyspace.EventKey{ID: "a", Incarnation: 1<<63 - 1, Name: "n", Event: "e"}
	narrow := keyspace.EventKey{ID: "a", Incarnation: -1, Name: "n", Event: "e"}
	const root = "/holdfast/v1/shop%2Feu/"
	for _, c := range []struct{ name, got, want string }{
		{"event", s.Event(event), "event/order%2F42/0000000000000000007/approved by/mail%2F1"},
		{"event beyond the widths", s.Event(wide), "event/a/9223372036854775807/n/e"},
		{"event below zero", s.Event(narrow), "event/a/0000000000000000000/n/e"},
		{"applied", s.Applied(event), "applied/order%2F42/0000000000000000007/approved by/mail%2F1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.got != root+c.want {
				t.Errorf("got  %q\nwant %q", c.got, root+c.want)
			}
		})
	}
}

func TestEventSpanGoldens(t *testing.T) {
	t.Parallel()
	s := space(t, "/holdfast", "n")
	const root = "/holdfast/v1/n/"
	for name, c := range map[string]struct {
		got        keyspace.Span
		start, end string
	}{
		"events named": {s.EventsNamed("a", 7, "n/1"), "event/a/0000000000000000007/n%2F1/", "event/a/0000000000000000007/n%2F10"},
		"events of":    {s.EventsOf("a", 7), "event/a/0000000000000000007/", "event/a/00000000000000000070"},
		"any events":   {s.AnyEvents("a"), "event/a/", "event/a0"},
		"events":       {s.Events(), "event/", "event0"},
		"applied of":   {s.AppliedOf("a", 7), "applied/a/0000000000000000007/", "applied/a/00000000000000000070"},
		"all applied":  {s.AllApplied(), "applied/", "applied0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if want := (keyspace.Span{Start: root + c.start, End: root + c.end}); c.got != want {
				t.Errorf("got  %q\nwant %q", c.got, want)
			}
		})
	}
}

// eventKeys builds the events of the id, of every name.
func (w world) eventKeys(s keyspace.Space, id string, add func(named)) {
	for _, inc := range w.numbers {
		for _, name := range w.queues {
			k := keyspace.EventKey{ID: id, Incarnation: inc, Name: name, Event: w.procs[0]}
			add(named{key: s.Event(k), kind: keyspace.KindEvent, id: id, inc: inc, queue: name})
			add(named{key: s.Applied(k), kind: keyspace.KindApplied, id: id, inc: inc, queue: name})
		}
	}
}

// eventSpans builds the ranges of events.
func (w world) eventSpans(s keyspace.Space, add adder) {
	add("Events", s.Events(), keyspace.KindEvent, whole)
	add("AllApplied", s.AllApplied(), keyspace.KindApplied, whole)
	for _, id := range w.ids {
		add("AnyEvents", s.AnyEvents(id), keyspace.KindEvent, func(n named) bool { return n.id == id })
		for _, inc := range w.numbers {
			its := func(n named) bool { return n.id == id && n.inc == inc }
			add("EventsOf", s.EventsOf(id, inc), keyspace.KindEvent, its)
			add("AppliedOf", s.AppliedOf(id, inc), keyspace.KindApplied, its)
			for _, name := range w.queues {
				add("EventsNamed", s.EventsNamed(id, inc, name), keyspace.KindEvent, func(n named) bool { return its(n) && n.queue == name })
			}
		}
	}
}
