package keyspace

// Change returns the key that says what the store's version changed. A store's
// changes sort by version; one below 0 is written as 0.
func (s Space) Change(k StoreKey, version int64) string {
	return s.changes(k) + number(version, revisionDigits)
}

func (s Space) changes(k StoreKey) string { return s.root + "outbox/change/" + k.segments() + "/" }

// ChangesOf returns the span of one store's changes, by version.
func (s Space) ChangesOf(k StoreKey) Span { return prefixSpan(s.changes(k)) }

// AllChanges returns the span of the changes of all stores.
func (s Space) AllChanges() Span { return prefixSpan(s.root + "outbox/change/") }

// Owed returns the key of a wake that the store owes. wake is a name of 1 or more
// bytes of UTF-8 without NUL.
func (s Space) Owed(k StoreKey, wake string) string { return s.owed(k) + escape(wake) }

func (s Space) owed(k StoreKey) string { return s.root + "outbox/wake/" + k.segments() + "/" }

// OwedOf returns the span of the wakes that one store owes.
func (s Space) OwedOf(k StoreKey) Span { return prefixSpan(s.owed(k)) }

// AllOwed returns the span of the wakes that all stores owe.
func (s Space) AllOwed() Span { return prefixSpan(s.root + "outbox/wake/") }

// Outbox returns the span of all that stores have to tell: changes and wakes.
func (s Space) Outbox() Span { return prefixSpan(s.root + "outbox/") }

// Pulled returns the key of a wake that a client of the store's fetches.
func (s Space) Pulled(k StoreKey, wake string) string { return s.pulled(k) + escape(wake) }

func (s Space) pulled(k StoreKey) string { return s.root + "pulled/" + k.segments() + "/" }

// PulledOf returns the span of the wakes of one store that are to be fetched.
func (s Space) PulledOf(k StoreKey) Span { return prefixSpan(s.pulled(k)) }

// AllPulled returns the span of the wakes of all stores that are to be fetched.
func (s Space) AllPulled() Span { return prefixSpan(s.root + "pulled/") }
